package wrap

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// agentGrace is the grace period of an agent that was told to end.
	agentGrace = 10 * time.Second

	// lingerQuiet is how long servers may outlast the agent before that is reported: they
	// need a moment to notice that it has ended.
	lingerQuiet = time.Second

	// lingerSettle is how long no server may be attached until a session that outlasted
	// its launcher ends: an agent may restart a server.
	lingerSettle = 2 * time.Second
)

// signals delivers the signals that this process receives.
type signals struct {
	caught        chan os.Signal
	children      chan os.Signal
	releaseCaught func()
}

// catchSignals catches the signals that would end this process before the files are restored, and
// those about children.
func catchSignals() *signals {
	s := &signals{children: make(chan os.Signal, 1)}
	s.caught, s.releaseCaught = ui.CatchSignals()
	signal.Notify(s.children, unix.SIGCHLD)
	return s
}

func (s *signals) release() {
	s.releaseCaught()
	signal.Stop(s.children)
}

// pending returns an error if a signal arrived before the agent was started. The same
// signal ends ctx through another channel. If ctx has ended first, pending waits for the
// signal.
func (s *signals) pending(ctx context.Context) error {
	if ctx.Err() != nil && len(s.caught) == 0 {
		select {
		case sig := <-s.caught:
			s.caught <- sig
		case <-time.After(time.Second): // ctx ended for another reason
		}
	}
	select {
	case sig := <-s.caught:
		return &ui.ExitError{Code: 128 + int(sig.(syscall.Signal)), Err: fmt.Errorf("%w before the agent was started: %v", context.Canceled, sig)}
	default:
		return nil
	}
}

// runAgent starts the agent and returns when it has ended. If the command was a launcher,
// runAgent returns when the launched agent has ended.
func (w *wrapping) runAgent(program string) (ended, error) {
	files, release, err := w.agentFiles()
	if err != nil {
		return ended{}, err
	}
	defer release()
	argv, environ := w.plan.Launch(w.argv, agentEnviron(w.Environ(), w.id))
	w.detail("starting %s as %s", program, strings.Join(argv, " "))
	app := newApplication(w)
	process, err := startAgent(program, argv, environ, files)
	if err != nil {
		return ended{}, err
	}
	defer process.release()
	w.step("started")
	w.started = true
	watch := &watch{wrapping: w, process: process, events: w.session.Events(), lost: w.session.Done(), app: app}
	how := watch.agent()
	w.step("ended")
	w.detail("the agent has ended, with exit code %d", how.ExitStatus())
	switch {
	case how.forced:
	case w.outlasts():
		watch.waitForApplication(how)
	case how.ExitStatus() == 0:
		watch.waitForServers()
	}
	return how, nil
}

// watch follows an agent and the servers that it uses.
type watch struct {
	*wrapping
	process  *agentProcess
	events   <-chan *pb.SessionEvent
	lost     <-chan struct{}
	attached uint32 // number of servers
	seen     bool   // a server has attached
	claimed  bool   // a server attached that does not descend from this process
	app      *application
}

// agent returns when the agent has ended.
func (w *watch) agent() ended {
	var how ended
	var kill <-chan time.Time
	for {
		if state, gone := w.process.reap(); gone {
			how.State = state
			return how
		}
		select {
		case <-w.signals.children:
		case sig := <-w.signals.caught:
			if w.forwardSignal(sig.(syscall.Signal)) && kill == nil {
				how.forced = true
				kill = time.After(w.grace)
			}
		case <-kill:
			w.detail("the agent did not end within %s; killing it", w.grace)
			w.process.signal(unix.SIGKILL)
		case ev, ok := <-w.events:
			w.handleSessionEvent(ev, ok)
		case <-w.lost:
			w.handleSessionLost()
		}
	}
}

// forwardSignal forwards a signal to the agent, unless the terminal has sent it to both processes.
// It reports whether the signal was an order to end.
func (w *watch) forwardSignal(sig syscall.Signal) bool {
	keyboard := sig == unix.SIGINT || sig == unix.SIGQUIT
	if keyboard && w.process.typed() {
		return false
	}
	w.detail("forwarding %v to the agent", sig)
	w.process.signal(sig)
	return true
}

// handleSessionEvent updates the state of the servers from an event of the daemon. ok is false if there
// will be no more events.
func (w *watch) handleSessionEvent(ev *pb.SessionEvent, ok bool) {
	if !ok {
		w.events = nil
		return
	}
	if shim := ev.GetShim(); shim != nil {
		w.attached = shim.GetAttached()
		w.seen = w.seen || w.attached > 0
		if !shim.GetGone() && shim.GetServer() != "" {
			w.connected[shim.GetServer()] = true
		}
		w.claimed = w.claimed || shim.GetClaimed()
		w.app.addServerProcess(shim)
	}
}

// catchUp handles the events that have arrived.
func (w *watch) catchUp() {
	for {
		select {
		case ev, ok := <-w.events:
			if w.handleSessionEvent(ev, ok); !ok {
				return
			}
		default:
			return
		}
	}
}

// handleSessionLost is called when the session at the daemon is lost. The shims refuse calls that
// can't be judged; whether to end the agent is up to the person.
func (w *watch) handleSessionLost() {
	w.lost = nil
	if err := w.session.Err(); err != nil {
		w.message("the connection to the daemon was lost, and this session has ended: all calls to its servers fail. Restart the agent")
		w.detail("%v", err)
	}
	w.attached = 0
}

// waitForServers keeps the session open if an agent has returned while its servers are still in
// use: it was a launcher that handed over to another process. Any signal ends the wait.
func (w *watch) waitForServers() {
	began, used, reported := time.Now(), time.Now(), false
	w.waitUntil(lingerQuiet/4, func() {}, func() bool {
		switch {
		case w.attached > 0:
			used = time.Now()
		// An agent that ends takes its servers with it; one that has handed over may restart them.
		case time.Since(began) < lingerSettle, time.Since(used) >= lingerSettle:
			return true
		}
		if !reported && time.Since(began) >= lingerQuiet {
			reported = true
			w.message("%s has returned; the session stays open until its last server has ended, or until Ctrl-C", display.Text(w.argv[0]))
		}
		return false
	})
}

// waitUntil handles events until over returns true, a signal arrives or the daemon is lost.
// It calls poll at the given interval.
func (w *watch) waitUntil(interval time.Duration, poll func(), over func() bool) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		w.process.reap()
		w.catchUp()
		if over() {
			return
		}
		select {
		case <-tick.C:
			poll()
		case <-w.signals.caught:
			return
		case <-w.signals.children:
		case ev, ok := <-w.events:
			w.handleSessionEvent(ev, ok)
		case <-w.lost:
			w.handleSessionLost()
			return
		}
	}
}

// typed reports whether the terminal turns keys into SIGINT and SIGQUIT for this process
// group. Then the agent, which is in the same group, got the signal as well. An agent
// that reads single keys has switched that off.
func (p *agentProcess) typed() bool {
	if !p.foreground() {
		return false
	}
	modes, err := unix.IoctlGetTermios(int(p.tty.Fd()), ioctlReadTermios)
	return err == nil && modes.Lflag&unix.ISIG != 0
}
