package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// recorded keeps a summary of each record.
type recorded struct {
	mu   sync.Mutex
	said []string
}

func (r *recorded) Record(ctx context.Context, rec *record.Record, _ []byte, _ []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := "unseen"
	if p := gate.PeerOf(ctx, rec.Decider); p != nil && p.PID == int32(os.Getpid()) || rec.Peer != nil {
		seen = "seen"
	}
	r.said = append(r.said, fmt.Sprintf("%s %s %s by %s, %s, on %s", rec.Kind, rec.Verdict, rec.Approval, strings.Join(strings.Fields(rec.Decider)[:2], " "), seen, rec.Surface))
	return nil
}

// answering serves the approvals of a queue that has a waiting question of each server: A-1 of the
// first, and so on.
func answering(t *testing.T, servers ...string) (*Server, *approval.Queue, *recorded, pb.ApprovalsClient) {
	t.Helper()
	dir, rec := tempdir.New(t, "", "tg"), &recorded{}
	db, err := store.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	q, err := approval.New(db, approval.Options{Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	for i, server := range servers {
		seq := uint64(i + 1)
		line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rm","arguments":{"path":"%d"}}}`, seq, seq)
		c, err := (&gate.Gate{}).Read(gate.Shim{Attachment: "a", Server: server}, gate.Submission{Seq: seq, Line: []byte(line)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Ask(t.Context(), &gate.Question{Call: c, Subject: c.Digest(), Ruling: gate.Ruling{Move: gate.Ask, Workflow: "ops"}}); err != nil {
			t.Fatal(err)
		}
	}
	s := New(Config{Sessions: &session.Registry{}, Approvals: q, Recorder: rec, Logger: slog.New(slog.DiscardHandler)})
	conn := serveControl(t, s, dir)
	t.Cleanup(func() {
		conn.Close()
		s.control.Stop()
		if err := errors.Join(q.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, q, rec, pb.NewApprovalsClient(conn)
}

// serveControl serves the control socket in a folder until the test ends, and returns a connection to it.
func serveControl(t *testing.T, s *Server, dir string) *grpc.ClientConn {
	t.Helper()
	l, err := sock.Listen(filepath.Join(dir, "x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.control.Serve(sock.Checked(l)) }()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.control.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return conn
}

// statesOf returns the states of the questions, oldest first.
func statesOf(t *testing.T, q *approval.Queue, n int) string {
	t.Helper()
	var all []string
	for i := range n {
		one, err := q.Get(t.Context(), fmt.Sprintf("A-%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(string(one.State)+" "+one.Note))
	}
	return strings.Join(all, ", ")
}

// DenyFrom denies the waiting questions of one server, and no others. Each denial is recorded like
// a single one, with what the kernel showed about the caller.
func TestDenyFrom(t *testing.T) {
	_, q, rec, c := answering(t, "files", "web", "files", "files")
	third, err := q.Get(t.Context(), "A-3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Decide(t.Context(), approval.Decision{ID: "A-3", Subject: third.Subject[:], Approve: true, Decider: "pid 1"}); err != nil {
		t.Fatal(err)
	}
	rec.said = nil
	resp, err := c.DenyFrom(t.Context(), &pb.DenyFromRequest{Server: "files", Note: "not today", Surface: "slack-like"})
	if err != nil {
		t.Fatal(err)
	}
	var denied []string
	for _, a := range resp.GetDenied() {
		denied = append(denied, fmt.Sprint(a.GetId(), " ", a.GetState(), " ", a.GetNote(), " ", string(a.GetArguments()), " ", a.GetDecider() != ""))
	}
	const rejected = " APPROVAL_STATE_REJECTED not today "
	want := "A-1" + rejected + `{"name":"rm","arguments":{"path":"1"}} true; A-4` + rejected + `{"name":"rm","arguments":{"path":"4"}} true`
	if got := strings.Join(denied, "; "); got != want || len(resp.GetFailed()) > 0 {
		t.Errorf("denied %s, failed %q\nwant   %s", got, resp.GetFailed(), want)
	}
	if got := statesOf(t, q, 4); got != "rejected not today, open, approved, rejected not today" {
		t.Errorf("the questions are %s", got)
	}
	pid := fmt.Sprint("pid ", os.Getpid())
	if got, want := strings.Join(rec.said, "\n"), "decision rejected A-1 by "+pid+", seen, on slack-like\ndecision rejected A-4 by "+pid+", seen, on slack-like"; got != want {
		t.Errorf("on record is\n%s\nwant\n%s", got, want)
	}
}

// A process that an agent or the daemon itself started can't answer, and that is recorded. Neither
// can a process that claims a terminal and has none.
func TestDenyFromBelowTheDaemon(t *testing.T) {
	s, q, rec, c := answering(t, "files")
	var err error
	if s.self, err = proc.Look(int32(os.Getppid())); err != nil {
		t.Fatal(err)
	}
	resp, err := c.DenyFrom(t.Context(), &pb.DenyFromRequest{Server: "files", Surface: "terminal"})
	if err == nil || !strings.Contains(err.Error(), "an answer to all questions of files") {
		t.Errorf("denied %v, %v", resp.GetDenied(), err)
	}
	if got := statesOf(t, q, 1); got != "open" {
		t.Errorf("the question is %s", got)
	}
	pid := fmt.Sprint("pid ", os.Getpid())
	if got := strings.Join(rec.said, "\n"); got != "denied deny  by "+pid+", seen, on " {
		t.Errorf("on record is %s", got)
	}
	rec.said = nil
	s.self = proc.Info{}
	if _, err := c.DenyFrom(t.Context(), &pb.DenyFromRequest{Server: "files", Surface: "terminal"}); err != nil {
		t.Fatal(err)
	}
	self, err := proc.Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	surface := "script"
	if self.TTY != "" {
		surface = "terminal"
	}
	if got := strings.Join(rec.said, "\n"); got != "decision rejected A-1 by "+pid+", seen, on "+surface {
		t.Errorf("on record is %s, want it on %s", got, surface)
	}
}
