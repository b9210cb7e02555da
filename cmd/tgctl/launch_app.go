package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// comeWithin is how long a first server or process of an application is waited for
	// whose command has returned and left nothing.
	comeWithin = 2 * time.Minute

	// lookEvery is the pause between two looks at the processes of an application.
	lookEvery = time.Second
)

// outlasts reports whether the session goes on after its command has returned, since
// that only launches the agent.
func (w *wrapping) outlasts() bool {
	return !w.noWait && (w.wait || agentconf.Launches(w.agent.Name(), w.argv))
}

// application is what is known of the processes of an agent whose command is only a
// launcher. They are found in three ways, since none of them does alone:
//
//   - what the command has left becomes a child of ours where the system can do that,
//     whatever it has detached itself from. Until the first server has come all of
//     that counts, and afterwards what runs the same programs: a daemon that somebody
//     starts in the application is not it;
//   - the daemon tells which process uses a server of the session;
//   - applications that are known have known programs.
type application struct {
	self      int32
	shim      string
	isProgram func(path string) bool // nil: nothing is known of that

	processes map[proc.Process]bool // that are its
	programs  map[string]bool       // of what the command has left
	before    []int32               // instances that ran before
	ours      map[proc.Process]bool // children that we had before, as a daemon that was started for this
	found     bool                  // a process of it was there once
}

// newApplication looks at what is there before the command is started.
func newApplication(w *wrapping) *application {
	a := &application{self: int32(os.Getpid()), shim: w.shim, processes: map[proc.Process]bool{}, programs: map[string]bool{}, ours: map[proc.Process]bool{}}
	if !w.outlasts() {
		return a
	}
	if name := w.agent.Name(); agentconf.Windowed(name) {
		a.isProgram = func(path string) bool { return agentconf.IsProgram(name, w.argv, path) }
	}
	all, err := proc.All()
	if err != nil {
		w.detail("look for an instance that runs: %v", err)
	}
	for _, p := range all {
		if p.PPID == a.self {
			a.ours[p.Process] = true
		}
		if a.isProgram == nil {
			continue
		}
		if full, err := proc.Look(p.PID); err == nil && a.isProgram(full.Exe) {
			a.before = append(a.before, p.PID)
		}
	}
	return a
}

// serves notes the process that uses a server.
func (a *application) serves(shim *pb.ShimEvent) {
	if shim.GetPid() > 1 {
		a.processes[proc.Process{PID: shim.GetPid(), Start: shim.GetStart()}], a.found = true, true
	}
}

// runs reports whether a process of the application is to be found. served says that
// a server has come. What can't be looked at is taken to run.
func (a *application) runs(served bool) bool {
	for is := range a.processes {
		if p, err := proc.Look(is.PID); err == nil && p.Process == is {
			return true
		}
		delete(a.processes, is)
	}
	left, known, err := a.look(served)
	return left || known || err != nil
}

// look looks for the application among all processes: for what the command has left,
// and for what runs a program that is known.
func (a *application) look(served bool) (left, known bool, err error) {
	all, err := proc.All()
	if err != nil {
		return false, false, err
	}
	for _, p := range all {
		child := p.PPID == a.self && !a.ours[p.Process]
		if p.PID == a.self || !child && a.isProgram == nil {
			continue
		}
		full, err := proc.Look(p.PID)
		switch {
		case err != nil:
		case child && full.Exe != a.shim && (!served || a.programs[full.Exe]):
			a.processes[p.Process], a.programs[full.Exe] = true, true
			left = true
		case a.isProgram != nil && a.isProgram(full.Exe):
			known = true
		}
	}
	a.found = a.found || left || known
	return left, known, nil
}

// outlast keeps the session open after its command has returned, until the
// application has ended and the last server has left, or a person ends it. Where
// neither was ever to be found it waits for a while.
func (w *watch) outlast(how ended) {
	if how.Signal == unix.SIGINT {
		return // Ctrl-C
	}
	w.process.reap()
	w.catchUp()
	left, known, err := w.app.look(w.seen)
	here := left || known || err != nil
	if how.ExitStatus() != 0 && !here && w.attached == 0 {
		return
	}
	if here || w.attached > 0 {
		w.tell("%s has returned; the session goes on until the application has ended and its last server has left, or until Ctrl-C", safe(w.argv[0]))
	} else if !w.seen {
		w.tell("%s has returned; the session waits %s for a first server, and goes on until the last has left, or until Ctrl-C", safe(w.argv[0]), w.waitFor)
	}
	if adoptsOrphans && !left && !w.seen || !adoptsOrphans && len(w.app.before) > 0 {
		w.tellTaken()
	}
	began, idle := time.Now(), time.Time{}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.process.reap()
		w.catchUp()
		if w.claimed {
			w.tellTaken()
		}
		switch {
		case here || w.attached > 0:
			idle = time.Time{}
		case idle.IsZero():
			idle = time.Now()
		case w.seen || w.app.found:
			if time.Since(idle) >= lingerSettle {
				return
			}
		case time.Since(began) >= w.waitFor:
			return
		}
		select {
		case <-tick.C:
			here = w.app.runs(w.seen)
		case <-w.signals.caught:
			return
		case <-w.signals.children:
		case ev, ok := <-w.events:
			w.note(ev, ok)
		case <-w.lost:
			w.lose()
			return
		}
	}
}
