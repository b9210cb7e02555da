package wrap

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// firstServerTimeout is how long to wait for the first server or process of an application
	// whose command has returned without leaving one.
	firstServerTimeout = 2 * time.Minute

	// pollInterval is the interval at which an application's processes are polled.
	pollInterval = time.Second
)

// outlasts reports whether the session continues after its command has returned, because
// the command only launches the agent.
func (w *wrapping) outlasts() bool {
	return !w.noWait && (w.wait || agentconf.Launches(w.agent.Name(), w.argv))
}

// application tracks the processes of an agent whose command is only a launcher. It finds
// them in three ways, since none is sufficient by itself:
//
//   - Processes that the command has left become children of this process, where the
//     system supports that, even if they have detached themselves. Until the first
//     server has attached, all of them count; after that, only those that run the same
//     programs, since a daemon that somebody starts in the application is not part of it.
//   - The daemon reports which process uses a server of the session.
//   - The programs of some applications are known.
type application struct {
	self      int32
	shim      string
	isProgram func(path string) bool // nil if the programs are not known

	processes map[proc.Process]bool // that belong to the application
	programs  map[string]bool       // of processes that the command has left
	before    []int32               // pids of instances that ran before
	ours      map[proc.Process]bool // children that existed before, such as a daemon that was started for this run
	found     bool                  // a process of the application was found once
}

// newApplication records which processes exist before the command is started.
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
		w.detail("look for a running instance: %v", err)
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

// addServerProcess records the process that uses a server.
func (a *application) addServerProcess(shim *pb.ShimEvent) {
	if shim.GetPid() > 1 {
		a.processes[proc.Process{PID: shim.GetPid(), Start: shim.GetStart()}], a.found = true, true
	}
}

// isRunning reports whether a process of the application exists. served reports that a server
// has attached. If the processes can't be read, runs returns true.
func (a *application) isRunning(served bool) bool {
	for is := range a.processes {
		if p, err := proc.Look(is.PID); err == nil && p.Process == is {
			return true
		}
		delete(a.processes, is)
	}
	left, known, err := a.findProcesses(served)
	return left || known || err != nil
}

// findProcesses searches all processes for the application: left reports a process that the
// command has left, known a process that runs a known program.
func (a *application) findProcesses(served bool) (left, known bool, err error) {
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

// waitForApplication keeps the session open after its command has returned, until the application
// has ended and the last server has left, or until a signal arrives. If neither was found
// at all, it waits for w.waitFor.
func (w *watch) waitForApplication(how ended) {
	if how.Signal == unix.SIGINT {
		return // Ctrl-C
	}
	w.process.reap()
	w.catchUp()
	left, known, err := w.app.findProcesses(w.seen)
	here := left || known || err != nil
	if how.ExitStatus() != 0 && !here && w.attached == 0 {
		return
	}
	if here || w.attached > 0 {
		w.message("%s has returned; the session stays open until the application and its last server have ended, or until Ctrl-C", display.Text(w.argv[0]))
	} else if !w.seen {
		what := ui.Choose(len(w.governed) > 0, "a first server and stays open until the last one has ended", "the application and stays open until that has ended")
		w.message("%s has returned; the session waits %s for %s, or until Ctrl-C", display.Text(w.argv[0]), w.waitFor, what)
	}
	if adoptsOrphans && !left && !w.seen || !adoptsOrphans && len(w.app.before) > 0 {
		w.warnOfHandover()
	}
	began, idle := time.Now(), time.Time{}
	w.waitUntil(pollInterval, func() { here = w.app.isRunning(w.seen) }, func() bool {
		if w.claimed {
			w.warnOfHandover()
		}
		switch {
		case here || w.attached > 0:
			idle = time.Time{}
		case idle.IsZero():
			idle = time.Now()
		case w.seen || w.app.found:
			return time.Since(idle) >= lingerSettle
		default:
			return time.Since(began) >= w.waitFor
		}
		return false
	})
}
