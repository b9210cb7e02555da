package serve

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// awaitDrained reads the pipe that the daemon holds open until the agent has everything.
func (s *shim) awaitDrained() {
	defer close(s.drained)
	said, _ := io.ReadAll(s.pipes.drained.r) // an error ends it like EOF
	if n := len(said); n > 0 {
		s.status = said[n-1]
	}
}

// serve waits until the server has ended and the agent has everything.
func (s *shim) serve(ctx context.Context, server *child.Child, escape bool) child.State {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	if escape {
		others.Go(func() { _ = child.EscapeStderr(os.Stderr, server.Stderr()) }) // ends with the server
	}
	known, ended, told := make(chan struct{}), make(chan child.State, 1), make(chan struct{})
	others.Go(func() {
		defer close(told)
		s.notifyDaemon(ctx, server.PID(), known, ended)
	})
	ended <- s.wait(ctx, server)
	leaving, over := context.WithTimeout(ctx, s.Times.DrainTimeout)
	defer over()
	// The daemon can look at a process only until this process has waited for it.
	select {
	case <-known:
	case <-s.drained:
	case <-leaving.Done():
	}
	// Stop what the server started and left behind.
	state := server.Stop(ctx, child.LeavingGrace)
	select {
	case <-s.drained:
	case <-leaving.Done():
	}
	select {
	case <-told:
	case <-s.line.failed:
		select {
		case <-told: // the next daemon, if there is one
		case <-time.After(s.Times.LastReportTimeout):
		}
	case <-leaving.Done():
	}
	cancel()
	others.Wait()
	return state
}

// idle waits, without a server, until the agent has everything. reason says why there is no
// server, and is empty if none was to be started.
func (s *shim) idle(ctx context.Context, reason string) child.State {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { s.started(ctx, 0, reason) })
	defer telling.Wait()
	defer cancel()
	return s.wait(ctx, nil)
}

// notifyDaemon reports the server's process to the daemon, closes known, and then reports how
// the server has ended.
func (s *shim) notifyDaemon(ctx context.Context, pid int, known chan<- struct{}, ended <-chan child.State) {
	s.started(ctx, pid, "")
	close(known)
	state := <-ended
	_ = s.line.retry(ctx, s.Times.DrainTimeout, func(ctx context.Context) error {
		return s.line.Ended(ctx, s.Hello.Attachment, state.Code, int(state.Signal))
	})
}

// wait returns when the server has ended or, without a server, when the agent has everything.
// It reports signals to the daemon, and stops the server itself if no daemon does.
func (s *shim) wait(ctx context.Context, server *child.Child) child.State {
	hearing, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	done, drained := (<-chan struct{})(nil), s.drained
	stop := func(grace child.Grace) {
		go server.Stop(ctx, grace) // returns when the Stop of serve does
	}
	if server != nil {
		done = server.Done()
	}
	grace := child.Grace{Term: child.LeavingGrace.Term} // for the first signal that no daemon handles
	unheard := make(chan struct{}, 1)
	for {
		select {
		case <-done:
			return server.Wait()
		case <-drained:
			if server == nil {
				return child.State{Code: int(s.status)}
			}
			drained = nil // its content does not matter any more
			stop(child.LeavingGrace)
		case sig := <-s.signals:
			others.Go(func() {
				if s.signal(hearing, sig.(syscall.Signal)) != nil {
					select {
					case unheard <- struct{}{}:
					default:
					}
				}
			})
		case <-unheard:
			if server == nil {
				return child.State{Code: child.ExitInternal}
			}
			stop(grace)
			grace = child.Grace{}
		}
	}
}

// signal reports a signal to the daemon.
func (s *shim) signal(ctx context.Context, sig syscall.Signal) error {
	return s.line.retry(ctx, s.Times.SignalTimeout, func(ctx context.Context) error {
		return s.line.Signal(ctx, s.Hello.Attachment, int(sig))
	})
}
