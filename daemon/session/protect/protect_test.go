package protect

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// world is a test fixture: a home with one agent's file, and the dependencies of a guard.
type world struct {
	t    *testing.T
	dir  string
	file string

	mu    sync.Mutex
	saved map[string]store.Protection
	notes []string
}

const (
	anID    = "1a571a571a571a571a571a571a571a57"
	aSocket = "/run/user/1000/thoughtgate/shim.sock"
	servers = `{"mcpServers": {"a": {"command": "a-mcp"}, "b": {"command": "b-mcp", "args": ["x"]}}}`
)

func newWorld(t *testing.T) *world {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, file: filepath.Join(dir, "mcp.json"), saved: map[string]store.Protection{}}
	w.write(servers)
	if err := os.WriteFile(w.shim(), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) shim() string { return filepath.Join(w.dir, "tg-shim") }

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read() string {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *world) PutProtection(_ context.Context, p *store.Protection) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved[p.ID] = *p
	return nil
}

func (w *world) DeleteProtection(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.saved, id)
	return nil
}

func (w *world) Protections(context.Context) ([]store.Protection, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []store.Protection
	for _, p := range w.saved {
		all = append(all, p)
	}
	return all, nil
}

func (w *world) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, r.Verdict)
	return nil
}

func (w *world) noted(verdict string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, note := range w.notes {
		if note == verdict {
			n++
		}
	}
	return n
}

// guard returns a guard with a very short interval.
func (w *world) guard() *Guard {
	w.t.Helper()
	g, err := New(Options{
		Store: w, Recorder: w, Logger: slog.New(slog.DiscardHandler), Every: 5 * time.Millisecond, Socket: aSocket,
		Lookup: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(g.Close)
	return g
}

// plan returns the rewrite that protects the file.
func (w *world) plan(repair bool) (*agentconf.Plan, *agentconf.Protection) {
	w.t.Helper()
	agent, err := agentconf.AgentFor("custom", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	is := agentconf.NewProtection(anID, agent, agentconf.Env{Home: w.dir, Config: w.file, LookupEnv: none},
		agentconf.Line{Shim: w.shim(), Socket: aSocket})
	is.Repair = repair
	plan, err := agentconf.NewPlan(agent, is.Env(none), w.shim())
	if err != nil {
		w.t.Fatal(err)
	}
	return plan, is
}

// protect protects the file, as tgctl does.
func (w *world) protect(g *Guard, repair bool) {
	w.t.Helper()
	plan, is := w.plan(repair)
	if _, err := plan.Protect(is, w.keep(g)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) keep(g *Guard) func(*agentconf.Protection) error {
	return func(p *agentconf.Protection) error {
		text, err := p.Text()
		if err != nil {
			return err
		}
		return g.Put(context.Background(), "somebody", p.ID, text)
	}
}

func (w *world) governed() bool { return strings.Count(w.read(), w.shim()) == 2 }

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for over := time.Now().Add(time.Minute); time.Now().Before(over); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("%s: not within a minute; notes %q\n%s", what, w.notes, w.read())
}

// state returns the state of the only protection.
func state(g *Guard) State {
	all := g.List()
	if len(all) != 1 {
		return State{}
	}
	return all[0]
}

func TestRepairs(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	w.protect(g, true)
	if !w.governed() {
		t.Fatalf("not protected:\n%s", w.read())
	}
	w.write(servers)
	w.eventually("repaired", func() bool { return w.noted("repaired") == 1 && w.governed() })
	w.write(strings.Replace(w.read(), `"a":`, `"c": {"command": "c-mcp"}, "a":`, 1))
	w.eventually("the new server is governed", func() bool { return strings.Count(w.read(), w.shim()) == 3 })
	w.eventually("told", func() bool { return state(g).Repairs == 2 && state(g).Problem == "" })
	if agent, ok := g.Of(anID, "c"); agent != "custom" || !ok {
		t.Errorf("the new server is not known: %q %v", agent, ok)
	}
	reports, err := g.End(context.Background(), "somebody", anID)
	if err != nil || len(reports) != 1 || reports[0].State != agentconf.Restored {
		t.Errorf("%+v, %v", reports, err)
	}
	if want := strings.Replace(servers, `"a":`, `"c": {"command": "c-mcp"}, "a":`, 1); w.read() != want {
		t.Errorf("got  %s\nwant %s", w.read(), want)
	}
	if len(g.List()) != 0 || len(w.saved) != 0 || w.noted("unprotected") != 1 {
		t.Errorf("still there: %v %v %q", g.List(), w.saved, w.notes)
	}
	if left, _ := filepath.Glob(w.file + ".*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Without the person's agreement nothing is written; the drift is reported once.
func TestWatchOnly(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	w.protect(g, false)
	w.write(servers)
	w.eventually("told", func() bool { return strings.Contains(state(g).Problem, "the tg-shim entries of a, b were removed") })
	if st := state(g); !slices.Equal(st.Decay.Lost, []string{"a", "b"}) || st.Checked.IsZero() {
		t.Errorf("%+v", st)
	}
	if w.read() != servers || w.noted("repaired") != 0 || w.noted("drifted") != 1 {
		t.Errorf("%q\n%s", w.notes, w.read())
	}
	w.protect(g, false) // by hand
	w.eventually("fine again", func() bool { return state(g).Problem == "" && w.governed() })
}

// If the lines are removed repeatedly, that is reported, and they are not restored any more.
func TestRepairsNoMoreThanSo(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	w.protect(g, true)
	w.eventually("told", func() bool {
		if w.governed() {
			w.write(servers)
		}
		return strings.Contains(state(g).Problem, "undone each time")
	})
	if n := w.noted("repaired"); w.read() != servers || n > mostRepairs {
		t.Errorf("it went on, %d times:\n%s", n, w.read())
	}
}

// The shim was removed: the daemon can't know the new one, and reports that.
func TestShimGone(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	w.protect(g, true)
	if err := os.Remove(w.shim()); err != nil {
		t.Fatal(err)
	}
	w.eventually("told", func() bool { return strings.Contains(state(g).Problem, "no longer exists") })
	if err := os.WriteFile(w.shim(), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.eventually("fine again", func() bool { return state(g).Problem == "" })
}

// The guard waits until a file can be parsed again.
func TestBrokenMeanwhile(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	w.protect(g, true)
	good := w.read()
	w.write(good[:len(good)/2])
	w.eventually("told", func() bool { return strings.Contains(state(g).Problem, "line 1") })
	w.write(servers)
	w.eventually("repaired", func() bool { return w.governed() && state(g).Problem == "" })
}

// The next daemon takes over: it keeps the protections, and finishes those that are ending.
func TestNextDaemon(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	w.protect(g, true)
	g.Close()
	w.write(servers)
	next := w.guard()
	w.eventually("repaired", func() bool { return w.noted("repaired") == 1 && w.governed() })
	next.Close()
	saved := w.saved[anID]
	saved.Ending = true
	w.saved[anID] = saved
	last := w.guard()
	w.eventually("undone", func() bool { return len(last.List()) == 0 && w.read() == servers })
}

// While a wrap has the file, nothing is restored.
func TestEndWhileLocked(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	w.protect(g, true)
	plan, _ := w.plan(true)
	if err := plan.Lock(anID); err != nil {
		t.Fatal(err)
	}
	defer plan.Unlock()
	if _, err := g.End(context.Background(), "somebody", anID); !errors.Is(err, gate.ErrLocked) {
		t.Errorf("%v", err)
	}
	if !w.governed() || state(g).Ending {
		t.Errorf("%+v\n%s", state(g), w.read())
	}
	if _, err := g.End(context.Background(), "somebody", "other"); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestPutRefuses(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	_, is := w.plan(true)
	text, err := is.Text()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ id, text string }{
		"nonsense":    {anID, "{"},
		"no file":     {anID, string(text)},
		"another id":  {strings.Repeat("0", 32), string(text)},
		"newer":       {anID, strings.Replace(string(text), `"v":1`, `"v":2`, 1)},
		"no such shm": {anID, strings.ReplaceAll(string(text), w.shim(), "tg-shim")},
	} {
		if err := g.Put(context.Background(), "somebody", test.id, []byte(test.text)); !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(g.List()) != 0 {
		t.Error("something was kept")
	}
	if _, ok := g.Of(anID, "a"); ok {
		t.Error("something is known")
	}
}

// The files that calls may not touch are those protected now.
func TestFiles(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	are := func(when string, want bool) {
		t.Helper()
		if got := g.Files(); slices.Contains(got, w.file) != want {
			t.Errorf("%s: the files are %q", when, got)
		}
	}
	are("before", false)
	w.protect(g, true)
	are("protected", true)
	if _, err := g.End(context.Background(), "somebody", anID); err != nil {
		t.Fatal(err)
	}
	are("ended", false)
	w.protect(g, true)
	are("protected again", true)
}

// A server behind an address is handed out under the id of its protection, also by the next daemon.
func TestRemote(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	plan, is := w.plan(true)
	_, err := plan.Protect(is, func(p *agentconf.Protection) error {
		p.Remotes = []agentconf.Remote{{Server: "r", Address: "https://r.test"}}
		return w.keep(g)(p)
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, ok := g.Remote(anID, "r"); !ok || r.Address != "https://r.test" {
			t.Errorf("%+v, %v", r, ok)
		}
		for _, other := range [][2]string{{anID, "a"}, {"another", "r"}} {
			if r, ok := g.Remote(other[0], other[1]); ok {
				t.Errorf("%v: %+v", other, r)
			}
		}
		g.Close()
		g = w.guard()
	}
}
