package session

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// world has the in-memory dependencies of a registry.
type world struct {
	mu       sync.Mutex
	saved    map[string]store.Session
	gone     map[string]store.EndedWrap
	held     bool  // the lock of every file is held
	broken   error // the error of Restore
	restored []string
	notes    []string
	dropped  []string // attachments whose questions were withdrawn
	forgot   []string // sessions/attachments whose memory was deleted
}

func newWorld() *world {
	return &world{saved: map[string]store.Session{}, gone: map[string]store.EndedWrap{}}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) PutSession(_ context.Context, s *store.Session) error {
	w.set(func() { w.saved[s.ID] = *s })
	return nil
}

func (w *world) DeleteSession(_ context.Context, id string) error {
	w.set(func() { delete(w.saved, id) })
	return nil
}

func (w *world) Sessions(context.Context) ([]store.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []store.Session
	for _, s := range w.saved {
		all = append(all, s)
	}
	return all, nil
}

func (w *world) KeepGone(_ context.Context, g *store.EndedWrap) error {
	w.set(func() { w.gone[g.Session] = *g })
	return nil
}

func (w *world) DropGone(_ context.Context, session string) error {
	w.set(func() { delete(w.gone, session) })
	return nil
}

func (w *world) Gone(context.Context) ([]store.EndedWrap, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.gone)), nil
}

func (w *world) Restore(journal []byte) (string, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		return "", false, nil
	}
	if w.broken != nil {
		return "", true, w.broken
	}
	w.restored = append(w.restored, string(journal))
	return "put back", true, nil
}

func (w *world) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	w.set(func() { w.notes = append(w.notes, string(r.Kind)+":"+r.Verdict) })
	return nil
}

func (w *world) registry(t *testing.T) *Registry {
	t.Helper()
	r, err := New(Options{
		Gate: &gate.Gate{Policy: func() gate.Policy { return lax{} }, Recorder: w, Logger: slog.New(slog.DiscardHandler)}, Recorder: w, Store: w, Restorer: w,
		Logger:   slog.New(slog.DiscardHandler),
		Earlier:  func(string) map[uint64]record.Record { return nil },
		Withdraw: func(id string) { w.set(func() { w.dropped = append(w.dropped, id) }) },
		Forget: func(session, attachment string) {
			w.set(func() { w.forgot = append(w.forgot, session+"/"+attachment) })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually waits until ok returns true.
func (w *world) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for over := time.Now().Add(time.Minute); time.Now().Before(over); time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Fatalf("%s: not within 10 s; restored %q, notes %q, saved %d", what, w.restored, w.notes, len(w.saved))
}

const anID = "00112233445566778899aabbccddeeff"

var (
	aWrap = Process{PID: 1000001, Start: 7} // no such process exists
	aSpec = Spec{ID: anID, Agent: "custom", Project: "/p", Files: []File{{Path: "/cfg.json", Journal: []byte("J")}}}
)

func open(t *testing.T, r *Registry, wrap Process) *Session {
	t.Helper()
	s, err := r.Open(context.Background(), wrap, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWrapDies(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	s := open(t, r, aWrap)
	if _, ok := w.saved[anID]; !ok {
		t.Fatal("the session is not on disk when Open returns")
	}
	r.Leave(s)
	w.eventually(t, "restore", func() bool { return len(w.restored) == 1 && w.restored[0] == "J" && len(w.saved) == 0 })
	if len(r.List()) != 0 {
		t.Error("the session is still listed")
	}
}

func TestWrapAndDaemonDie(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	open(t, r, aWrap)
	r.Close() // as if the daemon had died: nothing was restored
	if len(w.restored) != 0 {
		t.Fatal("a daemon that stops restores under a living wrap")
	}
	next := w.registry(t)
	defer next.Close()
	w.eventually(t, "restore at the next start", func() bool { return len(w.restored) == 1 && len(w.saved) == 0 })
}

// The shims of a wrap that was killed together with the daemon are asked to leave, as they are if
// only the wrap is killed. It does not matter whether its files are restored before the next daemon
// knows the shims or after.
func TestWrapAndDaemonDieUnderShims(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newWorld()
		r := w.registry(t)
		open(t, r, aWrap)
		j, _ := join(t, r, us(t), aWrap)
		saved := r.Saved(j)
		r.Close()
		w.held = !late
		next := w.registry(t)
		defer next.Close()
		if late {
			w.eventually(t, "restore", func() bool { return len(w.saved) == 0 })
		}
		asked := make(chan string, 4)
		if _, err := next.Rejoin(t.Context(), saved, func(reason string) { asked <- reason }); err != nil {
			t.Fatal(err)
		}
		if !late && len(asked) > 0 {
			t.Errorf("asked to leave (%s) while nobody knows that the wrap has ended", <-asked)
		}
		w.set(func() { w.held = false })
		w.eventually(t, "a shim is asked to leave", func() bool { return len(asked) > 0 })
	}
}

func TestDaemonRestartsUnderAWrap(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	open(t, r, aWrap)
	r.Close()

	w.held = true // its wrap lives and holds the lock
	next := w.registry(t)
	defer next.Close()
	s := open(t, next, aWrap) // it comes back
	w.set(func() { w.held = false })
	if _, err := next.Open(context.Background(), aWrap, aSpec); !errors.Is(err, gate.ErrLocked) {
		t.Errorf("opened twice: got %v", err)
	}
	time.Sleep(100 * time.Millisecond) // longer than the retry delay
	if len(w.restored) != 0 {
		t.Error("restored under a wrap that came back")
	}
	next.Leave(s)
	w.eventually(t, "restore", func() bool { return len(w.restored) == 1 })
}

// A shim may leave while the wrap reconnects to a new daemon. The wrap must not wait for it
// forever.
func TestReopenedSessionKnowsItsShims(t *testing.T) {
	for _, left := range []bool{true, false} {
		w := newWorld()
		r := w.registry(t)
		open(t, r, aWrap)
		r.Close()
		w.held = true
		next := w.registry(t)
		defer next.Close()
		j, _ := join(t, next, Process{PID: 1000002, Start: 8}, aWrap)
		want := Event{Attached: 1}
		if left {
			next.End(j, "left", "")
			want = Event{Gone: true}
		}
		select {
		case got := <-open(t, next, aWrap).Events():
			if got != want {
				t.Errorf("told %+v, want %+v", got, want)
			}
		default:
			t.Errorf("told nothing, want %+v", want)
		}
	}
}

func TestForeignReopen(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	open(t, r, aWrap)
	_, err := r.Open(context.Background(), Process{PID: 2, Start: 1}, aSpec)
	if !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("another process took the session over: %v", err)
	}
}

func TestRestoreFailsThenWorks(t *testing.T) {
	w := newWorld()
	w.broken = errors.New("read-only file system")
	r := w.registry(t)
	defer r.Close()
	r.Leave(open(t, r, aWrap))
	w.eventually(t, "problem", func() bool {
		w.mu.Unlock()
		defer w.mu.Lock()
		l := r.List()
		return len(l) == 1 && strings.Contains(l[0].Problem, "read-only file system")
	})
	w.set(func() { w.broken = nil })
	w.eventually(t, "restore", func() bool { return len(w.saved) == 0 })
}

func TestKeep(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	spec := aSpec
	spec.Keep = true
	s, err := r.Open(context.Background(), aWrap, spec)
	if err != nil {
		t.Fatal(err)
	}
	r.Leave(s)
	w.eventually(t, "end", func() bool { return len(w.saved) == 0 })
	if len(w.restored) != 0 {
		t.Error("restored in spite of --no-restore")
	}
}

// A session without a lock belongs to its wrap as long as that runs: its questions and grants
// outlive the daemon.
func TestKeepOverRestart(t *testing.T) {
	me, err := proc.Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spec  func(*Spec)
		wrap  Process
		stays bool
	}{
		"files that stay, and its wrap runs":    {func(s *Spec) { s.Keep = true }, me.Process, true},
		"no files, and its wrap runs":           {func(s *Spec) { s.Files = nil }, me.Process, true},
		"files that stay, and its wrap is gone": {func(s *Spec) { s.Keep = true }, aWrap, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			spec := aSpec
			test.spec(&spec)
			r := w.registry(t)
			if _, err := r.Open(t.Context(), test.wrap, spec); err != nil {
				t.Fatal(err)
			}
			r.Close()
			next := w.registry(t)
			if !test.stays {
				w.eventually(t, "end", func() bool { return len(w.saved) == 0 })
				next.Close()
				return
			}
			next.Close() // waits for the goroutine that would end the session
			if len(w.saved) != 1 || len(w.forgot) != 0 {
				t.Errorf("saved %v, forgot %v", w.saved, w.forgot)
			}
			last := w.registry(t)
			defer last.Close()
			if _, err := last.Open(t.Context(), test.wrap, spec); err != nil {
				t.Error(err)
			}
		})
	}
}

// join attaches a shim whose process is p.
func join(t *testing.T, r *Registry, p Process, line ...Process) (*Joined, chan string) {
	t.Helper()
	asked := make(chan string, 4)
	j, err := r.Join(context.Background(), Hello{
		Shim: gate.Shim{Attachment: "attachment-" + anID, Session: anID, Server: "files"},
		Peer: p, Line: append([]Process{p}, line...), Parent: Process{PID: 9, Start: 9},
	}, func(reason string) { asked <- reason })
	if err != nil {
		t.Fatal(err)
	}
	return j, asked
}

func TestMembership(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	open(t, r, aWrap)
	shim := Process{PID: 1000002, Start: 8}
	j, _ := join(t, r, shim, Process{PID: 9, Start: 9}, aWrap)
	if got := j.Shim; got.Session != anID || got.Agent != "custom" || got.Project != "/p" {
		t.Errorf("a shim below the wrap: got %+v", got)
	}
	for line, want := range map[*[]Process]bool{
		{{PID: 50}, aWrap}:              true,  // below the wrap
		{aWrap}:                         false, // the wrap itself
		{{PID: 50}, {PID: 9}}:           false, // the agent's pid, reused
		{{PID: 50}, {PID: 9, Start: 9}}: true,
		{{PID: 50}, shim}:               true,
		{{PID: 50}, {PID: 1, Start: 1}}: false,
	} {
		if got := r.Agent(*line, false) != ""; got != want {
			t.Errorf("Agent(%v): got %v, want %v", *line, got, want)
		}
	}
	r.End(j, "left", "")

	stray, _ := join(t, r, shim, Process{PID: 77, Start: 1})
	if stray.Shim.Session != "" {
		t.Error("a shim that only claims the session belongs to it")
	}
	r.End(stray, "left", "")
}

func TestDrain(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	open(t, r, aWrap)
	j, asked := join(t, r, Process{PID: 1000002, Start: 8}, aWrap)
	done := make(chan int)
	go func() {
		_, remaining, err := r.Drain(context.Background(), anID, true)
		if err != nil {
			t.Error(err)
		}
		done <- remaining
	}()
	if reason := <-asked; reason == "" {
		t.Error("asked to leave without a reason")
	}
	r.End(j, "left", "")
	if remaining := <-done; remaining != 0 {
		t.Errorf("%d shims remain", remaining)
	}
}

func TestHijackedAttachment(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	j, _ := join(t, r, Process{PID: 1000002, Start: 8})
	defer r.End(j, "left", "")
	_, err := r.Join(context.Background(), Hello{
		Shim: gate.Shim{Attachment: "attachment-" + anID, Server: "files"}, Peer: Process{PID: 1000003, Start: 8},
	}, nil)
	if !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("another process took the attachment over: %v", err)
	}
}

// What a killed shim left of its server's process group is ended.
func TestEndGroup(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; sleep 300 & wait; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	s, ok := statOf(cmd.Process.Pid)
	if !ok {
		t.Skip("processes can't be looked at here")
	}
	r.EndGroup(t.Context(), s)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the server lives on")
	}
	if groupLives(s) {
		t.Error("its group lives on")
	}
}

// The memory of a session is deleted when it is closed and its last shim has left, in either order.
// The memory of a shim without a session is deleted with the shim.
func TestForgets(t *testing.T) {
	shim := Process{PID: 1000002, Start: 8}
	forgot := func(w *world) string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Join(w.forgot, " ")
	}
	for _, shimFirst := range []bool{true, false} {
		w := newWorld()
		r := w.registry(t)
		s := open(t, r, aWrap)
		j, _ := join(t, r, shim, aWrap)
		if shimFirst {
			r.End(j, "left", "")
		} else {
			r.Leave(s)
			w.eventually(t, "the end of the session", func() bool { return len(w.saved) == 0 })
		}
		if got := forgot(w); got != "" {
			t.Errorf("shim first: %v: forgot %q while half of it is there", shimFirst, got)
		}
		if shimFirst {
			r.Leave(s)
		} else {
			r.End(j, "left", "")
		}
		w.eventually(t, "forget", func() bool { return len(w.forgot) == 1 && strings.HasPrefix(w.forgot[0], anID+"/") })
		r.Close()
	}
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	j, _ := join(t, r, shim)
	r.End(j, "left", "")
	w.eventually(t, "forget", func() bool { return len(w.forgot) == 1 && w.forgot[0] == "/attachment-"+anID })
}

// lax is a policy of which only the profile is used.
type lax struct{ gate.Policy }

func (lax) Profile() gate.Profile { return gate.Development }
