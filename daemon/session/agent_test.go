package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// us returns this process, as the kernel identifies it.
func us(t *testing.T) Process {
	t.Helper()
	p, err := proc.Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	return Process{PID: p.PID, Start: p.Start}
}

// joinUs joins a shim of this process to a server.
func joinUs(t *testing.T, r *Registry, id string, h Hello) *Joined {
	t.Helper()
	h.Shim.Attachment, h.Peer = id, us(t)
	j, err := r.Join(context.Background(), h, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const (
	one = "11111111111111111111111111111111"
	two = "22222222222222222222222222222222"
)

// forwards is a policy that forwards everything, and a gate's facts.
type forwards struct{}

func (forwards) Rule(context.Context, *gate.Call, []gate.Fact) (gate.Ruling, error) {
	return gate.Ruling{Move: gate.Forward}, nil
}
func (forwards) Visible(*gate.Call, string, string) bool    { return true }
func (forwards) Whom(*gate.Ruling)                          {}
func (forwards) Profile() gate.Profile                      { return gate.Production }
func (forwards) Digest() string                             { return "set" }
func (forwards) Of(context.Context, *gate.Call) []gate.Fact { return nil }

func (forwards) Observe(*gate.Observation) {}
func (forwards) Forwarded(*gate.Call)      {}
func (forwards) Forget(string, string)     {}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// hashed returns the hash of a program. On a busy machine that takes longer than a call waits.
func hashed(hash func() (string, error)) (sum string, err error) {
	for err = errHashing; errors.Is(err, errHashing); {
		sum, err = hash()
	}
	return sum, err
}

func TestKnownAgent(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	if k, ok := r.Known(one); ok {
		t.Errorf("nobody has joined: got %+v", k)
	}
	r.gate.Policy, r.gate.Facts = func() gate.Policy { return forwards{} }, forwards{}
	began := time.Now()
	a := joinUs(t, r, one, Hello{Shim: gate.Shim{Server: "mail", Project: "/claimed"}, Parent: us(t)})
	joinUs(t, r, two, Hello{Shim: gate.Shim{Server: "files"}, Parent: us(t)})
	k, ok := r.Known(one)
	if !ok {
		t.Fatal("the shim is not known")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if k.Executable != exe || k.Cwd != cwd || k.Project != repository(cwd) || k.Project == "/claimed" {
		t.Errorf("got %+v, want program %s in %s", k, exe, cwd)
	}
	if k.Since.Before(began) || strings.Join(k.Servers, " ") != "files mail" || k.Calls != 0 {
		t.Errorf("got since %v, servers %q, %d calls", k.Since, k.Servers, k.Calls)
	}
	sum, err := hashed(k.Hash)
	if err != nil || sum != digestOf(t, exe) {
		t.Errorf("hash: got %s, %v", sum, err)
	}
	if n := len(r.programs.seen); n != 1 {
		t.Errorf("one program was hashed %d times", n)
	}
	line := []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for seq := range uint64(3) {
		a.Attachment.Submit(gate.Submission{Seq: seq, Side: wire.FromAgent, Line: []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, seq))})
	}
	a.Attachment.Submit(gate.Submission{Seq: 9, Side: wire.FromAgent, Line: line})
	if k, _ := r.Known(two); k.Calls != 3 {
		t.Errorf("the other shim of the agent knows of %d calls, want 3", k.Calls)
	}

	// The run ends with its last shim.
	for _, id := range []string{one, two} {
		j := r.joined[id]
		r.End(j, "left", "")
	}
	if _, ok := r.Known(one); ok || len(r.runs) != 0 {
		t.Errorf("after they left %d runs are there", len(r.runs))
	}
}

func TestKnownWrap(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	project := filepath.Join(t.TempDir(), "repo", "sub")
	if err := os.MkdirAll(project, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(filepath.Dir(project), ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	spec := aSpec
	spec.Project = project
	s, err := r.Open(context.Background(), us(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	inside := Hello{Shim: gate.Shim{Server: "mail", Session: anID}, Parent: us(t), Line: []Process{us(t)}}
	a := joinUs(t, r, one, inside)
	if k, _ := r.Known(one); k.Project != filepath.Dir(project) || !k.Since.Equal(s.Opened) {
		t.Errorf("in a wrap: got project %s since %v", k.Project, k.Since)
	}
	// A shim that only claims to belong to the session.
	joinUs(t, r, two, Hello{Shim: gate.Shim{Server: "evil", Session: anID}, Parent: us(t)})
	if k, _ := r.Known(two); k.Project == filepath.Dir(project) || strings.Join(k.Servers, " ") != "evil" {
		t.Errorf("outside: got project %s, servers %q", k.Project, k.Servers)
	}
	// The servers of a wrap's shims stay known while the wrap lasts.
	r.End(a, "left", "")
	inside.Shim.Server = "files"
	joinUs(t, r, strings.Repeat("3", 32), inside)
	if k, _ := r.Known(strings.Repeat("3", 32)); strings.Join(k.Servers, " ") != "files mail" {
		t.Errorf("later: got servers %q", k.Servers)
	}
	r.End(r.joined[strings.Repeat("3", 32)], "left", "")
	r.End(r.joined[two], "left", "")
	r.Leave(s)
	w.eventually(t, "restore", func() bool { return len(w.restored) == 1 && len(w.saved) == 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) != 0 {
		t.Errorf("after the wrap %d runs are there", len(r.runs))
	}
}

// Nothing is known of a process that has exited, or whose pid was reused.
func TestKnownOfNobody(t *testing.T) {
	r := newWorld().registry(t)
	defer r.Close()
	gone := us(t)
	gone.Start++
	for id, parent := range map[string]Process{one: {}, two: gone} {
		joinUs(t, r, id, Hello{Shim: gate.Shim{Server: "s"}, Parent: parent})
		k, ok := r.Known(id)
		if sum, err := k.Hash(); !ok || k.Executable != "" || k.Cwd != "" || k.Project != "" || sum != "" || err != nil {
			t.Errorf("parent %+v: got %+v, %q, %v", parent, k, sum, err)
		}
	}
}

// If a running program is removed or replaced, the running one is hashed. A changed program is
// hashed again.
func TestProgramOnDisk(t *testing.T) {
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("this system doesn't show what a process runs")
	}
	r := newWorld().registry(t)
	defer r.Close()
	path := filepath.Join(t.TempDir(), "agent")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep here to play an agent")
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(extra string) string {
		t.Helper()
		if err := os.WriteFile(path+".new", append(text[:len(text):len(text)], extra...), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "60")
		if err := cmd.Start(); err != nil {
			t.Skipf("a copy of %s can't be run: %v", sleep, err)
		}
		defer func() {
			cmd.Process.Kill()
			cmd.Wait()
		}()
		want := digestOf(t, path)
		if err := os.WriteFile(path+".new", []byte("another"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil { // while it runs
			t.Fatal(err)
		}
		p, err := proc.Look(int32(cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		got, err := hashed(r.programs.of(p).hash)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("with %q appended: got %s, want %s", extra, got, want)
		}
		return got
	}
	if hash("") == hash("x") {
		t.Error("two programs have one hash")
	}
}

func TestRepository(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// In a worktree and a submodule .git is a file.
	if err := os.WriteFile(filepath.Join(dir, "a", ".git"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{"a/b/c": "a", "a": "a", "d": "d"} {
		if got := repository(filepath.Join(dir, folder)); got != filepath.Join(dir, want) {
			t.Errorf("%s: got %s", folder, got)
		}
	}
	for _, folder := range []string{"", "relative"} {
		if got := repository(folder); got != "" {
			t.Errorf("%q: got %s", folder, got)
		}
	}
}

// hears records the messages that it observes.
type hears struct {
	forwards
	said map[string]string // by server: the method
}

func (h hears) Observe(m *gate.Observation) { h.said[m.Server] = m.Method + string(m.Text) }

// What a server said to a previous daemon is not known, and the fact memory is notified.
func TestReturningIsHeard(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	h := hears{said: map[string]string{}}
	r.gate.Policy, r.gate.Facts = func() gate.Policy { return forwards{} }, h
	joinUs(t, r, one, Hello{Shim: gate.Shim{Server: "new"}, Parent: us(t)})
	if _, err := r.Rejoin(t.Context(), Saved{Shim: gate.Shim{Attachment: two, Server: "back"}, Peer: us(t), Parent: us(t)}, nil); err != nil {
		t.Fatal(err)
	}
	if said, ok := h.said["back"]; len(h.said) != 1 || !ok || said != "" {
		t.Errorf("got %q", h.said)
	}
}
