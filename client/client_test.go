package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fakeDaemon is a daemon that can be stopped and restarted on the same socket.
type fakeDaemon struct {
	pb.UnimplementedDaemonServer
	t      *testing.T
	socket string
	server *grpc.Server
	served chan error

	status *pb.StatusResponse
	err    error         // returned by Status
	left   chan struct{} // receives when a watcher is no longer served

	mu      sync.Mutex
	opens   []*pb.SessionSpec
	closes  []string
	amends  []*pb.AmendSessionRequest
	refuse  error                 // returned by Open
	mute    bool                  // Open does not answer
	streams chan chan<- openEvent // one for each open session
}

// openEvent is sent to a session; without an event its stream ends with err.
type openEvent struct {
	event *pb.SessionEvent
	err   error
}

func newFake(t *testing.T) *fakeDaemon {
	t.Helper()
	dir := tempdir.New(t, "", "client")
	f := &fakeDaemon{
		t: t, socket: filepath.Join(dir, "control.sock"), status: &pb.StatusResponse{Pid: 7},
		left: make(chan struct{}, 10), streams: make(chan chan<- openEvent, 10),
	}
	f.start()
	t.Cleanup(f.stop)
	return f
}

func (f *fakeDaemon) start() {
	f.t.Helper()
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chmod(f.socket, 0o600); err != nil {
		f.t.Fatal(err)
	}
	server, served := grpc.NewServer(grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage)), make(chan error, 1)
	pb.RegisterDaemonServer(server, f)
	pb.RegisterApprovalsServer(server, approvals{fakeDaemon: f})
	pb.RegisterSessionsServer(server, sessions{fakeDaemon: f})
	go func() { served <- server.Serve(l) }()
	f.server, f.served = server, served
}

// stop stops the daemon and removes its socket.
func (f *fakeDaemon) stop() {
	if f.server == nil {
		return
	}
	f.server.Stop()
	<-f.served
	f.server = nil
}

func (f *fakeDaemon) dial(opts ...Option) *Client {
	f.t.Helper()
	c, err := Dial(f.t.Context(), append([]Option{WithSocket(f.socket)}, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

func (f *fakeDaemon) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return f.status, f.err
}

// approvals serves Approvals for the fake daemon.
type approvals struct {
	pb.UnimplementedApprovalsServer
	*fakeDaemon
}

func (f approvals) Watch(_ *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.ApprovalEvent]) error {
	defer func() { f.left <- struct{}{} }()
	for i := range 3 {
		if err := stream.Send(&pb.ApprovalEvent{Approval: &pb.Approval{Id: fmt.Sprintf("A-%d", i+1)}}); err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	<-stream.Context().Done()
	return nil
}

func TestDialFindsTheSocket(t *testing.T) {
	f := newFake(t)
	runtime := filepath.Join(filepath.Dir(f.socket), "thoughtgate")
	if err := os.Mkdir(runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	byFolder := newFake(t)
	byFolder.stop()
	byFolder.socket = filepath.Join(runtime, "control.sock")
	byFolder.start()
	for name, test := range map[string]struct {
		opts []Option
		want string
	}{
		"named":          {[]Option{WithSocket(f.socket), WithEnv(env("THOUGHTGATE_CONTROL", "/nonexistent"))}, f.socket},
		"by environment": {[]Option{WithEnv(env("THOUGHTGATE_CONTROL", f.socket, "XDG_RUNTIME_DIR", "/nonexistent"))}, f.socket},
		"by folder":      {[]Option{WithEnv(env("XDG_RUNTIME_DIR", filepath.Dir(runtime), "HOME", "/nonexistent"))}, byFolder.socket},
	} {
		c, err := Dial(t.Context(), test.opts...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Socket() != test.want {
			t.Errorf("%s: connected to %s, want %s", name, c.Socket(), test.want)
		}
		if s, err := c.Status(t.Context()); err != nil || s.GetPid() != 7 {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		c.Close()
	}
}

// env looks up variables in pairs of names and values.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestDialFailures(t *testing.T) {
	dir := tempdir.New(t, "", "client")
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, path string
		notRunning bool
		says       string
	}{
		{"no socket", filepath.Join(dir, "none.sock"), true, "thoughtgated is not running: there is no socket at " + dir + "/none.sock; start it with `tgctl daemon start`"},
		{"no folder", filepath.Join(dir, "none", "control.sock"), true, "there is no socket at"},
		{"nobody listens", stale, true, "thoughtgated is not running: nobody listens at " + stale},
		{"no socket but a file", file, false, "connect to thoughtgated"},
	} {
		_, err := Dial(t.Context(), WithSocket(test.path))
		if err == nil || errors.Is(err, ErrNotRunning) != test.notRunning || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// A process that listens and does not answer must not block a caller past its deadline.
func TestDialOfTheMute(t *testing.T) {
	dir := tempdir.New(t, "", "client")
	l, err := net.Listen("unix", filepath.Join(dir, "mute.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(l.Addr().String(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, WithSocket(l.Addr().String())); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

// Each kind of error arrives as it was sent.
func TestErrorsRoundTrip(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	for _, k := range kinds {
		sent := NewError(k.reason, "what happened to "+k.reason, &pb.Diagnostic{File: "f.yaml", Line: 3, Message: "wrong"}, &pb.Diagnostic{Message: "too"})
		sent.Metadata = map[string]string{"by": "ana"}
		f.err = sent
		_, err := c.Status(t.Context())
		for _, other := range kinds {
			if errors.Is(err, other.err) != (other.reason == k.reason) {
				t.Errorf("%s: errors.Is(err, %v) is %v", k.reason, other.err, errors.Is(err, other.err))
			}
		}
		var got *Error
		if !errors.As(err, &got) {
			t.Fatalf("%s arrived as %T", k.reason, err)
		}
		if got.Message != sent.Message || got.Metadata["by"] != "ana" || got.Code != sent.Code || got.Reason != k.reason {
			t.Errorf("sent %+v, got %+v", sent, got)
		}
		if len(got.Diagnostics) != 2 || !proto.Equal(got.Diagnostics[0], sent.Diagnostics[0]) {
			t.Errorf("%s: diagnostics %v", k.reason, got.Diagnostics)
		}
		if err.Error() != sent.Message {
			t.Errorf("says %q, want %q", err, sent.Message)
		}
	}
}

func TestEveryKindHasAReason(t *testing.T) {
	codes := map[string]bool{}
	for _, k := range kinds {
		if k.reason == "" || !errors.Is(NewError(k.reason, ""), k.err) {
			t.Errorf("%v has no reason that leads back to it", k.err)
		}
		codes[k.reason] = true
	}
	if len(codes) != 16 {
		t.Errorf("%d reasons are mapped, want all 16", len(codes))
	}
}

// Errors without a reason are recognized by their code; others keep their message.
func TestErrorsOfOthers(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := c.Status(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("late: %v", err)
	}
	if _, err := c.ListProcesses(t.Context()); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "restart it") {
		t.Errorf("a call the daemon does not know: %v", err)
	}
	f.err = errors.New("something broke")
	if _, err := c.Status(t.Context()); err == nil || err.Error() != "something broke" || errors.Is(err, ErrNotFound) {
		t.Errorf("an error of no kind: %v", err)
	}
	f.stop()
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after the daemon has gone: %v", err)
	}
	if FromStatus(nil) != nil {
		t.Error("no error became one")
	}
	if plain := errors.New("plain"); FromStatus(plain) != plain {
		t.Error("an error of elsewhere was changed")
	}
}

// A client survives a restart of the daemon.
func TestClientConnectsAgain(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	f.stop()
	f.start()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := c.Status(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, ErrNotRunning) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestLargeMessages(t *testing.T) {
	f := newFake(t)
	f.status = &pb.StatusResponse{Build: strings.Repeat("x", 15<<20)}
	if s, err := f.dial().Status(t.Context()); err != nil || len(s.GetBuild()) != 15<<20 {
		t.Errorf("15 MiB: %d bytes, %v", len(s.GetBuild()), err)
	}
	f.status = &pb.StatusResponse{Build: strings.Repeat("x", 17<<20)}
	if _, err := f.dial().Status(t.Context()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("17 MiB: %v", err)
	}
}

// The stream behind an iterator ends with the loop over it.
func TestLeavingALoopEndsTheStream(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	var ids []string
	for ev, err := range c.WatchApprovals(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, ev.GetApproval().GetId()); len(ids) == 2 {
			break
		}
	}
	if got := strings.Join(ids, " "); got != "A-1 A-2" {
		t.Errorf("got %s", got)
	}
	select {
	case <-f.left:
	case <-time.After(time.Minute):
		t.Error("the daemon still serves the stream")
	}
}

func TestStreamEndsWithItsError(t *testing.T) {
	f := newFake(t)
	f.err = NewError(ReasonForbidden, "not for you")
	n := 0
	var last error
	for _, err := range f.dial().WatchApprovals(t.Context()) {
		n++
		last = err
	}
	if n != 4 || !errors.Is(last, ErrForbidden) {
		t.Errorf("%d values, the last with %v", n, last)
	}
	f.stop()
	c := f.dialStopped()
	for _, err := range c.WatchApprovals(t.Context()) {
		if !errors.Is(err, ErrNotRunning) {
			t.Errorf("without a daemon: %v", err)
		}
	}
}

// dialStopped returns a client whose daemon has been stopped.
func (f *fakeDaemon) dialStopped() *Client {
	f.t.Helper()
	f.start()
	c := f.dial()
	f.stop()
	return c
}

// Until the kernel has closed the socket of a killed daemon, new connections to it are dropped.
// Dial retries until nobody listens any more, or until the next daemon does.
func TestDialOfTheDying(t *testing.T) {
	dir := tempdir.New(t, "", "client")
	path := filepath.Join(dir, "dying.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	died := make(chan struct{})
	go func() {
		defer close(died)
		for range 2 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
		l.Close()
	}()
	if _, err := Dial(t.Context(), WithSocket(path)); !errors.Is(err, ErrNotRunning) {
		t.Errorf("got %v, want ErrNotRunning", err)
	}
	l.Close()
	<-died
}
