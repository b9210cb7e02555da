package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/copies"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// undoing is a daemon with an agent whose own tools are judged, in a folder with notes that are in
// no commit.
type undoing struct {
	*testing.T
	daemon   *Daemon
	state    string
	project  string
	attached *gate.Attachment
	verdicts chan gate.Verdict
	seq      uint64
}

func newUndoing(t *testing.T) *undoing {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	paths := sock.Paths{Config: dir + "/config", State: dir + "/state", Runtime: dir + "/run"}
	if err := paths.Prepare(); err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Paths: paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler), Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	// A busy machine must not make a test fail.
	d.finder = facts.New(facts.Options{Ours: d.ours, OnLoss: d.lost, OnSteer: d.steered, Patience: time.Minute})
	d.judge.Facts, d.judge.Copies = d.finder, patient{d.copies}
	u := &undoing{T: t, daemon: d, state: paths.State, project: dir + "/project", verdicts: make(chan gate.Verdict, 8)}
	u.attached = d.judge.Attach(context.Background(), gate.Shim{
		Attachment: "0123456789abcdef", Session: "s", Agent: "claude-code", Project: u.project, Cwd: u.project, Server: agenthook.Server, Patience: time.Hour,
	}, nil)
	u.attached.Bind(func(v gate.Verdict) { u.verdicts <- v })
	t.Cleanup(func() {
		u.attached.Close(true)
		d.close()
	})
	u.write("notes/a.txt", "one", 0o640)
	u.write("notes/b.txt", "two", 0o600)
	return u
}

// patient is Copies that take the time that they need.
type patient struct{ gate.Copies }

func (p patient) Check(ctx context.Context, loss *gate.Loss) (gate.Copied, error) {
	return p.Copies.Check(context.WithoutCancel(ctx), loss)
}

func (p patient) Keep(ctx context.Context, id string, loss *gate.Loss, whole bool) error {
	return p.Copies.Keep(context.WithoutCancel(ctx), id, loss, whole)
}

func (u *undoing) write(name, text string, mode os.FileMode) {
	u.Helper()
	path := filepath.Join(u.project, name)
	for _, err := range []error{os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)} {
		if err != nil {
			u.Fatal(err)
		}
	}
}

// has checks the content and mode of a file.
func (u *undoing) has(name, text string, mode os.FileMode) {
	u.Helper()
	path := filepath.Join(u.project, name)
	got, err := os.ReadFile(path)
	if err != nil || string(got) != text {
		u.Errorf("%s has %q, %v; want %q", name, got, err, text)
	}
	if info, err := os.Stat(path); err == nil && info.Mode() != mode {
		u.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
	}
}

// run submits a command of the agent's shell.
func (u *undoing) run(command string) gate.Verdict {
	u.Helper()
	arguments, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		u.Fatal(err)
	}
	u.seq++
	u.attached.Submit(gate.Submission{Seq: u.seq, Side: wire.FromAgent, Line: fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"shell","arguments":%s}}`, u.seq, arguments)})
	return u.verdict()
}

func (u *undoing) verdict() gate.Verdict {
	u.Helper()
	select {
	case v := <-u.verdicts:
		return v
	case <-time.After(time.Minute):
		u.Fatal("no verdict came")
	}
	return gate.Verdict{}
}

// ask runs a command about which a person is asked, whose facts must have a text.
func (u *undoing) ask(command, says string) approval.Question {
	u.Helper()
	v := u.run(command)
	if v.Move != gate.Ask {
		u.Fatalf("%s: %v: %s", command, v.Move, v.Reason)
	}
	q, err := u.daemon.queue.Get(context.Background(), v.Approval)
	if err != nil {
		u.Fatal(err)
	}
	if facts := strings.Join(q.Facts, "\n"); !strings.Contains(facts, says) {
		u.Errorf("%s: the question has the facts\n%s\nwant %q", command, facts, says)
	}
	return q
}

func (u *undoing) approve(q approval.Question, terms *approval.Terms) gate.Verdict {
	u.Helper()
	if _, err := u.daemon.queue.Decide(context.Background(), approval.Decision{
		ID: q.ID, Subject: q.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Terms: terms,
	}); err != nil {
		u.Fatal(err)
	}
	return u.verdict()
}

// What an approved call deletes is copied before, and comes back as it was. What changed since
// stays beside.
//
//gotest:plain it is about what is decided, and not about when
func TestUndo(t *testing.T) {
	u := newUndoing(t)
	q := u.ask("rm -rf notes", "undo: a copy of 2 files will be kept")
	if all, err := u.daemon.copies.List(); err != nil || len(all) > 0 {
		t.Errorf("before the approval there are copies: %v, %v", all, err)
	}
	if v := u.approve(q, nil); v.Move != gate.Forward {
		t.Fatalf("%v: %s", v.Move, v.Reason)
	}
	if err := os.RemoveAll(u.project + "/notes"); err != nil {
		t.Fatal(err)
	}
	u.write("notes/b.txt", "another", 0o600)
	plan, err := u.daemon.copies.Plan(t.Context(), q.ID)
	if err != nil || strings.Join(plan.Write, " ") != "notes/a.txt" || strings.Join(plan.Replace, " ") != "notes/b.txt" {
		t.Fatalf("%+v, %v", plan, err)
	}
	by := copies.By{Decider: "uid 1", Surface: "terminal", Level: gate.LevelWatch}
	if _, err := u.daemon.copies.Restore(t.Context(), q.ID, "", by); err == nil {
		t.Error("files are brought back that nobody was shown")
	}
	done, err := u.daemon.copies.Restore(t.Context(), q.ID, plan.Digest, by)
	if err != nil || done.Written != 2 || len(done.Kept) != 1 || len(done.Failed) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	u.has("notes/a.txt", "one", 0o640)
	u.has("notes/b.txt", "two", 0o600)
	u.has(done.Kept[0].Now, "another", 0o600)
	if _, err := u.daemon.copies.Restore(t.Context(), q.ID, plan.Digest, by); err == nil {
		t.Error("a plan that was carried out holds again")
	}
}

// A link that is planted after the plan leads nowhere.
//
//gotest:plain it is about what is decided, and not about when
func TestUndoStaysInTheWorkTree(t *testing.T) {
	u := newUndoing(t)
	q := u.ask("rm -rf notes", "undo: ")
	if v := u.approve(q, nil); v.Move != gate.Forward {
		t.Fatalf("%v: %s", v.Move, v.Reason)
	}
	elsewhere := t.TempDir()
	if err := os.RemoveAll(u.project + "/notes"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, u.project+"/notes"); err != nil {
		t.Fatal(err)
	}
	plan, err := u.daemon.copies.Plan(t.Context(), q.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.daemon.copies.Restore(t.Context(), q.ID, plan.Digest, copies.By{}); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(elsewhere); err != nil || len(names) > 0 {
		t.Errorf("outside of the work tree there are %v, %v", names, err)
	}
}

// A copy that was promised and can't be made denies the call.
//
//gotest:plain it is about what is decided, and not about when
func TestUndoPromisedAndNotKept(t *testing.T) {
	for want, breaks := range map[string]func(*undoing){
		"could not be made": func(u *undoing) {
			if err := os.RemoveAll(u.state + "/undo"); err != nil {
				t.Fatal(err)
			}
		},
		"no copy can be kept: too large": func(u *undoing) {
			if err := os.Truncate(u.project+"/notes/a.txt", 1<<30); err != nil {
				t.Fatal(err)
			}
		},
	} {
		u := newUndoing(t)
		q := u.ask("rm notes/a.txt", "undo: a copy of 1 file will be kept")
		breaks(u)
		if v := u.approve(q, nil); v.Move != gate.Deny || !strings.Contains(v.Reason, want) || !strings.Contains(string(v.Answer), "Not executed") {
			t.Errorf("%v: %s\n%s", v.Move, v.Reason, v.Answer)
		}
	}
}

// What can't be copied is said before the person answers, and the approval is for that.
//
//gotest:plain it is about what is decided, and not about when
func TestUndoThatCannotBe(t *testing.T) {
	u := newUndoing(t)
	if err := os.Truncate(u.project+"/notes/a.txt", 1<<30); err != nil {
		t.Fatal(err)
	}
	q := u.ask("rm notes/a.txt", "no-undo: no copy can be kept: too large to be undone: more than 512 MiB")
	if !strings.Contains(q.Reason, "no copy can be kept") {
		t.Errorf("the reason is %q", q.Reason)
	}
	if v := u.approve(q, nil); v.Move != gate.Forward {
		t.Errorf("%v: %s", v.Move, v.Reason)
	}
	u.attached.RecordOutcome(t.Context(), u.seq, "ok")
	u.ask("rm notes/b.txt /etc/hostname", "no-undo: no copy can be kept of what else is destroyed")
}

// A grant makes a copy for each call that it covers, and covers none without a copy.
//
//gotest:plain it is about what is decided, and not about when
func TestUndoUnderAGrant(t *testing.T) {
	u := newUndoing(t)
	q := u.ask("rm notes/*", "undo: a copy of 2 files will be kept")
	if v := u.approve(q, &approval.Terms{For: time.Hour, Scope: approval.InSession}); v.Move != gate.Forward {
		t.Fatalf("%v: %s", v.Move, v.Reason)
	}
	u.attached.RecordOutcome(t.Context(), u.seq, "ok")
	if v := u.run("rm notes/*"); v.Move != gate.Forward {
		t.Fatalf("%v: %s", v.Move, v.Reason)
	}
	all, err := u.daemon.copies.List()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	u.attached.RecordOutcome(t.Context(), u.seq, "ok")
	labels := all[0].Label + " " + all[1].Label
	if want := "c-01234567-2"; !strings.Contains(labels, want) || !strings.Contains(labels, q.ID) {
		t.Errorf("the copies are called %s, want %s and %s", labels, want, q.ID)
	}
	if err := os.Truncate(u.project+"/notes/b.txt", 1<<30); err != nil {
		t.Fatal(err)
	}
	u.ask("rm notes/*", "no-undo: ")
}
