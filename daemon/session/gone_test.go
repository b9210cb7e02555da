package session

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// The lifetime of a vanished wrap is remembered: a process that was started within it, and the
// descendants of such a process, belong to the agent unless they have a terminal. The next daemon
// knows it too.
func TestVanishedWrap(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	s := open(t, r, Process{PID: 1000001, Start: 7})
	now, after := proc.Now(), proc.Now()+1e9
	r.Leave(s)
	w.eventually(t, "restore", func() bool { return len(w.saved) == 0 })
	check := func(r *Registry) {
		t.Helper()
		for _, test := range []struct {
			line     []Process
			terminal bool
			want     bool
		}{
			{[]Process{{PID: 50, Start: after}, {PID: 49, Start: now}, {PID: 1, Start: 1}}, false, true}, // a double fork
			{[]Process{{PID: 50, Start: now}}, false, true},
			{[]Process{{PID: 50, Start: after}, {PID: 49, Start: now}}, true, false},
			{[]Process{{PID: 50, Start: after}, {PID: 48, Start: 3}}, false, false},    // a shell started before
			{[]Process{{PID: 50, Start: after}, {PID: 47, Start: after}}, true, false}, // and one started after
		} {
			if got := r.Agent(test.line, test.terminal); (got != "") != test.want {
				t.Errorf("%v, terminal %v: %q", test.line, test.terminal, got)
			} else if test.want && !strings.Contains(got, "started while the wrapped agent custom ran, whose wrap was killed") {
				t.Errorf("it says %q", got)
			}
		}
	}
	check(r)
	r.Close()
	next := w.registry(t)
	defer next.Close()
	check(next)
}

// A wrap that was killed together with the daemon has vanished too.
func TestVanishedWithTheDaemon(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	open(t, r, Process{PID: 1000001, Start: 7})
	now := proc.Now()
	r.Close()
	next := w.registry(t)
	defer next.Close()
	if why := next.Agent([]Process{{PID: 50, Start: now}}, false); why == "" {
		t.Error("nothing is remembered of it")
	}
}

// A wrap that comes back or ends in order has not vanished. What the latter leaves behind is
// remembered as long as it runs.
func TestWrapEndsInOrder(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	r.self = -1 // here this process has the role of the wrap
	child := exec.Command("sh", "-c", "read line")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := proc.Look(int32(child.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	left := Process{PID: p.PID, Start: p.Start}
	s := open(t, r, us(t)) // this process is the wrap, and leaves its child behind
	r.Leave(s)
	s = open(t, r, us(t))
	if why := r.Agent([]Process{{PID: 50, Start: proc.Now() - 1}}, false); why != "" {
		t.Errorf("of a wrap that came back: %s", why)
	}
	if _, _, err := r.Drain(context.Background(), anID, true); err != nil {
		t.Fatal(err)
	}
	if err := r.Restored(Process{PID: 9, Start: 9}, anID); err == nil {
		t.Error("another process ends the session")
	}
	if err := r.Restored(us(t), anID); err != nil {
		t.Fatal(err)
	}
	if len(r.List()) != 0 || len(w.saved) != 0 {
		t.Error("the session is open still")
	}
	r.Leave(s)
	if why := r.Agent([]Process{{PID: 50, Start: proc.Now() + 1}, left}, true); !strings.Contains(why, "left behind by the wrapped agent custom, whose wrap has ended") {
		t.Errorf("below what it left: %q", why)
	}
	if why := r.Agent([]Process{{PID: 50, Start: proc.Now() - 1}}, false); why != "" {
		t.Errorf("what it has not left: %s", why)
	}
	in.Close()
	_ = child.Wait()
	if why := r.Agent([]Process{{PID: 50, Start: proc.Now() + 1}, left}, true); why != "" || len(w.gone) != 0 {
		t.Errorf("when all has ended: %q, %v", why, w.gone)
	}
}

// A wrap whose files the next wrap has locked meanwhile has ended too, if it has restored them
// itself.
func TestRestoredWhileTheNextHasTheLock(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	s := open(t, r, us(t))
	if _, _, err := r.Drain(context.Background(), anID, true); err != nil {
		t.Fatal(err)
	}
	if err := r.Restored(us(t), anID); err != nil {
		t.Fatal(err)
	}
	w.set(func() { w.held = true })
	r.Leave(s)
	r.hangUps.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.saved) != 0 || strings.Join(w.notes, " ") != "session:opened session:closed" {
		t.Errorf("kept %d, noted %q", len(w.saved), w.notes)
	}
}

// An application with windows counts as a whole: up to its topmost process, but not beyond the
// wrap.
func TestWholeApplication(t *testing.T) {
	const editor = "/opt/editor/editor"
	peer, host, main, shell := Process{PID: 1000010, Start: 9}, Process{PID: 1000011, Start: 8}, Process{PID: 1000012, Start: 7}, Process{PID: 1000013, Start: 6}
	for _, windowed := range []bool{true, false} {
		r := covering(t, newWorld())
		r.windowed = func(agent string) bool { return windowed && agent == "claude-code" }
		h := Hello{
			Shim: gate.Shim{Attachment: one, Session: aProtection, Server: "files"}, Peer: peer, Parent: host,
			Line: []Process{peer, host, main, shell}, Programs: []string{"", editor, editor, "/bin/sh"},
		}
		if _, err := r.Join(context.Background(), h, func(string) {}); err != nil {
			t.Fatal(err)
		}
		sibling := []Process{{PID: 1000020, Start: 10}, {PID: 1000021, Start: 9}, main, shell}
		if why := r.Agent(sibling, true); (why != "") != windowed {
			t.Errorf("windowed %v: from another child of it: %q", windowed, why)
		}
		if why := r.Agent([]Process{{PID: 1000020, Start: 10}, shell}, true); why != "" {
			t.Errorf("windowed %v: beside it: %q", windowed, why)
		}
		if got := h.whole(main); got != host {
			t.Errorf("below a wrap: %v", got)
		}
		r.Close()
	}
}

// The servers of an agent instance that ran before are judged by the session's rules, in a session
// of their own, and count for the wrap's session.
func TestClaimed(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	for _, outlasting := range []bool{true, false} {
		spec := aSpec
		spec.Outlasting, spec.Profile, spec.Project = outlasting, gate.Development, "/wrapped"
		s, err := r.Open(context.Background(), aWrap, spec)
		if err != nil {
			t.Fatal(err)
		}
		host := Process{PID: 1000011, Start: 8}
		j := enter(t, r, "attachment-of-files-1", anID, "files", Process{PID: 1000010, Start: 9}, host)
		if outlasting {
			e := <-s.Events()
			if !j.Shim.Claimed || j.Shim.Agent != "custom" || j.Shim.Project != "/wrapped" || j.Shim.Limit != "" || j.Shim.Session == "" || j.Shim.Session == anID {
				t.Errorf("got %+v", j.Shim)
			}
			if e.Attached != 1 || e.Agent != host || !e.Claimed || r.Served(anID) != 1 {
				t.Errorf("the wrap hears %+v, served %d", e, r.Served(anID))
			}
			if why := r.Agent([]Process{{PID: 50, Start: 1}, host}, true); why == "" {
				t.Error("its agent may decide")
			}
		} else if j.Shim.Session != "" || j.Shim.Agent != "" || r.Served(anID) != 0 {
			t.Errorf("of a wrap that ends with its command: %+v", j.Shim)
		}
		server := Process{PID: 1000030, Start: 3}
		r.Started(j, server)
		if why := r.Agent([]Process{{PID: 50, Start: 1}, server}, true); why == "" {
			t.Error("what its server started may decide, whose shim is not above it")
		}
		r.End(j, "left", "")
		if why := r.Agent([]Process{{PID: 50, Start: 1}, host}, true); (why != "") != outlasting {
			t.Errorf("once its server has gone, outlasting %v: %q", outlasting, why)
		}
		r.Leave(s)
		w.eventually(t, "the session ends", func() bool { return len(w.saved) == 0 })
	}
}

// A wrap is remembered as long as any process that it left behind runs. The processes that used its
// servers are among them.
func TestWhatIsRememberedOfAWrap(t *testing.T) {
	w := newWorld()
	r := w.registry(t)
	defer r.Close()
	r.self = -1 // this process has the role of the agent
	dead, alive, now := Process{PID: 1000050, Start: 5}, us(t), proc.Now()
	r.mu.Lock()
	r.remember(store.EndedWrap{Session: anID, Wrap: aWrap, Left: []Process{dead, alive}})
	_, _, known := r.leftBy([]Process{{PID: 50, Start: now}, alive}, true)
	r.forgetEndedWrap(anID)
	r.mu.Unlock()
	if !known {
		t.Error("it is forgotten when the first of what it left has ended")
	}

	s := open(t, r, alive) // a wrap that leaves a process that is not below it
	r.mu.Lock()
	s.apps = []Process{alive}
	r.mu.Unlock()
	r.rememberLeftProcesses(anID)
	r.mu.Lock()
	if !s.settled || !slices.Contains(r.gone[anID].Left, alive) {
		t.Errorf("in order: settled %v, %+v", s.settled, r.gone[anID])
	}
	for name, change := range map[string]func(){
		"was killed":       func() { s.Wrap = aWrap },
		"is not there now": func() { s.present = false },
	} {
		s.Wrap, s.present, s.settled = alive, true, false
		change()
		r.mu.Unlock()
		r.rememberLeftProcesses(anID)
		r.mu.Lock()
		if s.settled {
			t.Errorf("a wrap that %s ended in order", name)
		}
	}
	s.settled, s.apps = false, []Process{alive}
	r.rememberKilledWrap(s)
	if !slices.Contains(r.gone[anID].Left, alive) {
		t.Errorf("vanished: %+v", r.gone[anID])
	}
	s.Wrap, s.present = alive, true
	r.mu.Unlock()
	r.Leave(s)
}
