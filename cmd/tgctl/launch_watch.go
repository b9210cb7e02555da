package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// killAfter is how long an agent that was told to end may take.
	killAfter = 10 * time.Second

	// lingerQuiet is how long servers may outlast the agent without a word: as
	// it ends, they need a moment to notice.
	lingerQuiet = time.Second

	// lingerSettle is how long no server may be there until a session that
	// outlasted its launcher is over: an agent may restart one.
	lingerSettle = 2 * time.Second
)

// signals is what was sent to this process.
type signals struct {
	caught   chan os.Signal
	children chan os.Signal
}

// catchSignals turns the signals that would end this process into events. One
// that is ignored, as nohup does, stays so.
func catchSignals() *signals {
	s := &signals{caught: make(chan os.Signal, 16), children: make(chan os.Signal, 1)}
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(s.caught, sig)
		}
	}
	// Talk to a terminal that is gone must not end us before the files are back.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	signal.Notify(s.children, unix.SIGCHLD)
	return s
}

func (s *signals) release() {
	signal.Stop(s.caught)
	signal.Stop(s.children)
}

// pending returns an error when a signal came before the agent was started. The
// same signal ends ctx, by another channel: when that has happened, it is
// waited for here.
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
		return &exitError{128 + int(sig.(syscall.Signal)), fmt.Errorf("%w before the agent was started: %v", context.Canceled, sig)}
	default:
		return nil
	}
}

// runAgent starts the agent and returns when it, and for a launcher what it
// launched, has ended.
func (w *wrapping) runAgent(program string) (ended, error) {
	files, release, err := w.agentFiles()
	if err != nil {
		return ended{}, err
	}
	defer release()
	argv, environ := w.plan.Launch(w.argv, agentEnviron(w.environ(), w.id))
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
		watch.outlast(how)
	case how.ExitStatus() == 0:
		watch.linger()
	}
	return how, nil
}

// watch follows an agent and the servers that it uses.
type watch struct {
	*wrapping
	process  *agentProcess
	events   <-chan *pb.SessionEvent
	lost     <-chan struct{}
	attached uint32 // servers
	seen     bool   // there was one
	claimed  bool   // one came that does not descend from us
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
			if w.pass(sig.(syscall.Signal)) && kill == nil {
				how.forced = true
				kill = time.After(w.grace)
			}
		case <-kill:
			w.detail("the agent did not end within %s and is killed", w.grace)
			w.process.signal(unix.SIGKILL)
		case ev, ok := <-w.events:
			w.note(ev, ok)
		case <-w.lost:
			w.lose()
		}
	}
}

// pass passes a signal on to the agent, unless the terminal has sent it to both
// of us, and reports whether it was an order to end.
func (w *watch) pass(sig syscall.Signal) bool {
	keyboard := sig == unix.SIGINT || sig == unix.SIGQUIT
	if keyboard && w.process.typed() {
		return false
	}
	w.detail("passing %v on to the agent", sig)
	w.process.signal(sig)
	return true
}

// note keeps count of the servers.
func (w *watch) note(ev *pb.SessionEvent, ok bool) {
	if !ok {
		w.events = nil
		return
	}
	if shim := ev.GetShim(); shim != nil {
		w.attached = shim.GetAttached()
		w.seen = w.seen || w.attached > 0
		if !shim.GetGone() && shim.GetServer() != "" {
			w.came[shim.GetServer()] = true
		}
		w.claimed = w.claimed || shim.GetClaimed()
		w.app.serves(shim)
	}
}

// catchUp notes what was told already.
func (w *watch) catchUp() {
	for {
		select {
		case ev, ok := <-w.events:
			if w.note(ev, ok); !ok {
				return
			}
		default:
			return
		}
	}
}

// lose is called when the daemon went away for too long. The shims refuse what
// they cannot have judged; the agent is the person's to end.
func (w *watch) lose() {
	w.lost = nil
	if err := w.session.Err(); err != nil {
		w.tell("the daemon is gone, and this session with it: its servers refuse every call. Start the agent anew")
		w.detail("%v", err)
	}
	w.attached = 0
}

// linger keeps the session open after an agent that has returned although
// servers which it started are in use: a launcher, which handed over to
// something else. Any signal ends that.
func (w *watch) linger() {
	began := time.Now()
	settle, quiet := time.NewTimer(lingerSettle), time.NewTimer(lingerQuiet)
	defer settle.Stop()
	defer quiet.Stop()
	for {
		w.process.reap()
		w.catchUp()
		over := w.attached == 0
		if over && time.Since(began) < lingerSettle {
			return // an agent that ends takes its servers with it
		}
		if !over {
			settle.Reset(lingerSettle)
		}
		select {
		case <-settle.C:
			if over {
				return
			}
		case <-quiet.C:
			w.tell("%s has returned; the session goes on until the last server it uses has gone, or until Ctrl-C", safe(w.argv[0]))
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

// typed reports whether the keys that make SIGINT and SIGQUIT do so, and for us:
// then the agent, which is in our group, got the signal as well. An agent that
// reads keys by itself has switched that off.
func (p *agentProcess) typed() bool {
	if !p.foreground() {
		return false
	}
	modes, err := unix.IoctlGetTermios(int(p.tty.Fd()), ioctlReadTermios)
	return err == nil && modes.Lflag&unix.ISIG != 0
}
