package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/hook"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fakeFleet is a fleet whose programs a test defines.
type fakeFleet struct {
	mu      sync.Mutex // guards the fields below
	list    []supervise.Info
	tails   map[string]*supervise.Tail // by name
	failing error                      // of a restart
}

func (f *fakeFleet) List() []supervise.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]supervise.Info(nil), f.list...)
}

func (f *fakeFleet) Tail(kind, name, id string) (*supervise.Tail, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.list {
		if i.Kind == kind && i.Name == name && (id == "" || i.ID == id) {
			return f.tails[name], true
		}
	}
	return nil, false
}

func (f *fakeFleet) Restart(_ context.Context, kind, name, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, i := range f.list {
		if i.Kind == kind && i.Name == name && (id == "" || i.ID == id) {
			if f.failing == nil {
				f.list[n].Status = supervise.Status{State: supervise.Running, PID: os.Getpid()}
			}
			return true, f.failing
		}
	}
	return false, nil
}

// change changes the fleet.
func (f *fakeFleet) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
}

// tailOf returns a tail with lines in it.
func tailOf(t *testing.T, lines ...string) *supervise.Tail {
	t.Helper()
	tail := supervise.New(supervise.Options[int]{}).Tail()
	say(t, tail, lines...)
	return tail
}

func say(t *testing.T, tail *supervise.Tail, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := fmt.Fprintln(tail, line); err != nil {
			t.Fatal(err)
		}
	}
}

// keptFleet returns a fleet with one program of each kind.
func keptFleet(t *testing.T) *fakeFleet {
	now := time.Unix(1_700_000_000, 0)
	return &fakeFleet{
		list: []supervise.Info{
			{Kind: supervise.KindAgent, Name: "reviewer", ID: "R-1", Status: supervise.Status{State: supervise.Running}, Clients: 1},
			{Kind: supervise.KindBackend, Name: "notes", ID: "1", Command: []string{"notes"}, Began: now, Clients: 2, Status: supervise.Status{
				State: supervise.Restarting, Since: now, Restarts: 2, Budget: 1, Next: now.Add(time.Second), Err: errors.New("exit status 1")}},
			{Kind: supervise.KindExtension, Name: "scrubber", Status: supervise.Status{State: supervise.Failed, Err: errors.New("no such file")}},
		},
		tails: map[string]*supervise.Tail{"reviewer": tailOf(t), "notes": tailOf(t, "one", "two", "three"), "scrubber": tailOf(t)},
	}
}

// processesOver serves the Processes service of a server with a fleet.
func processesOver(t *testing.T, f *fakeFleet) (*Server, pb.ProcessesClient) {
	t.Helper()
	s := New(Config{AgentHooks: hook.New(hook.Options{}), Sessions: &session.Registry{}, Fleets: []supervise.Fleet{&fakeFleet{}, f}})
	dir := tempdir.New(t, "", "tg")
	l, err := net.Listen("unix", filepath.Join(dir, "x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true), grpc.StreamInterceptor(s.guardStream))
	pb.RegisterProcessesServer(server, processesService{s: s})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	})
	return s, pb.NewProcessesClient(conn)
}

func TestKeptProcesses(t *testing.T) {
	f := keptFleet(t)
	s, c := processesOver(t, f)
	got, err := c.List(t.Context(), &pb.ListProcessesRequest{})
	if err != nil || len(got.GetProcesses()) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	notes := got.GetProcesses()[1]
	if notes.GetKind() != "backend" || notes.GetName() != "notes" || notes.GetId() != "1" || notes.GetState() != "restarting" || notes.GetRestarts() != 2 ||
		notes.GetBudget() != 1 || notes.GetClients() != 2 || notes.GetError() != "exit status 1" || notes.GetNext().AsTime().Unix() != 1_700_000_001 ||
		notes.GetSince().AsTime().Unix() != 1_700_000_000 || notes.GetMemory() != 0 || notes.GetPid() != 0 {
		t.Errorf("notes: %v", notes)
	}
	if counts := fmt.Sprint(s.countKept()); !strings.Contains(counts, "backend") || !strings.Contains(counts, "unwell:1") || !strings.Contains(counts, "failed:1") {
		t.Errorf("counts %s", counts)
	}

	done, err := s.restart(t.Context(), "backend", "notes", "")
	if err != nil || done.GetFailure() != "" || done.GetProcess().GetState() != "running" || done.GetProcess().GetPid() != int32(os.Getpid()) {
		t.Errorf("restart: %v, %v", done, err)
	}
	f.failing = supervise.ErrFailed
	if done, err = s.restart(t.Context(), "extension", "scrubber", ""); err != nil || done.GetFailure() != "the program has failed" || done.GetProcess().GetState() != "failed" {
		t.Errorf("a restart that fails: %v, %v", done, err)
	}
	for _, which := range [][3]string{{"backend", "scrubber", ""}, {"server", "notes", ""}, {"backend", "notes", "9"}} {
		if _, err := s.restart(t.Context(), which[0], which[1], which[2]); !errors.Is(client.FromStatus(toStatus(err)), client.ErrNotFound) {
			t.Errorf("restart %v: %v", which, err)
		}
	}
}

// A headless agent submits requests to its host as others do to a server. It is listed once, as an
// agent.
func TestRunsAreListedOnce(t *testing.T) {
	kept := []*pb.Process{{Kind: "backend", Pid: 7}, {Kind: "agent", Name: "fixer", Pid: 8}, {Kind: "agent", Name: "ended"}}
	if !isRun(kept, &pb.Process{ShimPid: 8, Session: "s", Pending: 1, Judged: 2}) || kept[1].GetSession() != "s" || kept[1].GetPending() != 1 || kept[1].GetJudged() != 2 {
		t.Errorf("the run is %v", kept[1])
	}
	for _, pid := range []int32{0, 7, 9} {
		if isRun(kept, &pb.Process{ShimPid: pid}) {
			t.Errorf("the shim %d is taken for a run", pid)
		}
	}
}

// A server behind a shim is described by its attachment and by the system.
func TestAttachedProcesses(t *testing.T) {
	now, err := proc.Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	self, gone := now.Process, proc.Process{PID: now.PID, Start: now.Start + 1}
	s := New(Config{AgentHooks: hook.New(hook.Options{}), Fleets: []supervise.Fleet{&fakeFleet{list: []supervise.Info{
		{Kind: supervise.KindBackend, Name: "shared", Status: supervise.Status{State: supervise.Degraded}},
		{Kind: supervise.KindExtension, Name: "tools", Status: supervise.Status{State: supervise.Failed}},
	}}}})
	client := session.Attached{}
	client.Shim.Server, client.Shim.InMemory = "ext-tools", true
	if p := s.attachedTo(client); p.GetKind() != "client" || p.GetState() != "failed" {
		t.Errorf("a shim of the tools of an extension: %v", p)
	}
	client.Shim.Server = "other"
	if p := s.attachedTo(client); p.GetKind() != "client" || p.GetState() != "starting" {
		t.Errorf("a shim of a shared server that is not there: %v", p)
	}
	client.Shim.Server = "shared"
	if p := s.attachedTo(client); p.GetKind() != "client" || p.GetState() != "degraded" || p.GetPid() != 0 {
		t.Errorf("a shim of a shared server: %v", p)
	}
	client.Server, client.Shim.InMemory = self, false
	if p := s.attachedTo(client); p.GetKind() != "server" || p.GetState() != "running" {
		t.Errorf("a shim with a server of that name: %v", p)
	}
	for want, a := range map[string]session.Attached{
		"running": {Saved: session.Saved{Server: self}}, "starting": {}, "stopped": {Saved: session.Saved{Server: gone}},
	} {
		a.Shim.Server = "notes"
		if p := s.attachedTo(a); p.GetState() != want || p.GetKind() != "server" || p.GetName() != "notes" || (p.GetPid() != 0) != (want == "running") {
			t.Errorf("%v, want %s", p, want)
		}
	}
}

// following reads the lines of a log.
type following struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[pb.LogLine]
}

func follow(t *testing.T, c pb.ProcessesClient, req *pb.LogsRequest) following {
	t.Helper()
	stream, err := c.Logs(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return following{t, stream}
}

func (f following) wants(lines ...string) {
	f.t.Helper()
	for _, want := range lines {
		if line, err := f.stream.Recv(); err != nil || line.GetText() != want || line.GetTime() == nil {
			f.t.Fatalf("%v, %v; want %q", line, err, want)
		}
	}
}

func (f following) ends(want error) {
	f.t.Helper()
	if line, err := f.stream.Recv(); !errors.Is(client.FromStatus(err), want) {
		f.t.Errorf("%v, %v; want %v", line, err, want)
	}
}

func TestLogs(t *testing.T) {
	f := keptFleet(t)
	_, c := processesOver(t, f)
	all := follow(t, c, &pb.LogsRequest{Kind: "backend", Name: "notes"})
	all.wants("one", "two", "three")
	all.ends(io.EOF)
	last := follow(t, c, &pb.LogsRequest{Kind: "backend", Name: "notes", Last: 1, Follow: true})
	last.wants("three")
	say(t, f.tails["notes"], "four", "five")
	last.wants("four", "five")
	follow(t, c, &pb.LogsRequest{Kind: "backend", Name: "nobody"}).ends(client.ErrNotFound)
}

// A client that follows a program gets the output of the version that replaces it, its end, and the
// end of the daemon.
func TestLogsEnd(t *testing.T) {
	f := keptFleet(t)
	s, c := processesOver(t, f)
	notes := follow(t, c, &pb.LogsRequest{Kind: "backend", Name: "notes", Last: 1, Follow: true})
	notes.wants("three")
	say(t, f.tails["notes"], "four")
	f.change(func() { f.tails["notes"] = tailOf(t, "first of the next") })
	notes.wants("four", "first of the next")

	run := follow(t, c, &pb.LogsRequest{Kind: "agent", Name: "reviewer", Follow: true})
	say(t, f.tails["reviewer"], "bye")
	run.wants("bye")
	f.change(func() { f.list = f.list[1:] })
	run.ends(io.EOF)

	f.change(func() { f.list = nil })
	notes.ends(client.ErrNotFound)

	f.change(func() { f.list = keptFleet(t).list })
	notes = follow(t, c, &pb.LogsRequest{Kind: "backend", Name: "notes", Follow: true})
	notes.wants("first of the next")
	s.Close()
	notes.ends(client.ErrNotRunning)
}
