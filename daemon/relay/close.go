package relay

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
)

const (
	// agentReadTimeout is how long an agent may read nothing of its pending output while the
	// session ends.
	agentReadTimeout = 5 * time.Second
	// answerTimeout is how long open requests are waited for after the agent has closed its
	// input. Clients wait two seconds and then send a signal. In a shell pipeline somebody may
	// wait for the answer of a slow server.
	answerTimeout = 8 * time.Second
	// unreadTimeout limits the wait for input that was written before an end and has not been
	// read. It is available at once, unless another process continues to write.
	unreadTimeout = 2 * time.Second
	// drainTimeout is how long answers under way may take when the daemon ends the session.
	drainTimeout = 2 * time.Second
	// killTimeout limits the wait for a server that was killed.
	killTimeout = 5 * time.Second
)

// ending is how a session ends. s.mu guards it.
type ending struct {
	begun    bool // finish has begun to end the session
	running  bool // Run was called, or must not be called any more
	signals  int  // number of end requests
	timedOut bool // the agent closed its input and was not answered in time
	drained  string
	dead     bool   // nobody reads the agent's output any more
	exited   bool   // the server process has ended, or an in-memory server no longer serves the session
	how      string // as reported by the server's parent
	left     bool   // everything is left as it is for the next daemon
}

// Signal requests an orderly end, as a signal to tg-shim does. Lines under way are delivered
// and the server's input is closed. Later the server gets a signal to terminate, and is then
// killed. Each call after the first skips a step. Signal does not block.
func (s *Session) Signal() {
	s.updateEnding(func(e *ending) { e.signals++ })
}

// answerTimedOut ends the session of an agent that closed its input and was not answered in
// time.
func (s *Session) answerTimedOut() {
	s.updateEnding(func(e *ending) { e.signals, e.timedOut = e.signals+1, true })
}

// Drain ends the session because the daemon has a reason to. Held lines are denied with the
// reason, and answers under way get a short time.
func (s *Session) Drain(reason string) {
	s.updateEnding(func(e *ending) { e.drained = reason })
}

// ServerEnded reports that the server's process has ended, and how.
func (s *Session) ServerEnded(how string) {
	s.updateEnding(func(e *ending) { e.exited, e.how = true, how })
}

func (s *Session) updateEnding(note func(*ending)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note(&s.ending)
	s.finishing.Broadcast()
}

// Done returns a channel that is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended unexpectedly: a bug, or damaged or altered memory
// ([mapping.ErrCorrupt]). Otherwise it is nil.
func (s *Session) Err() error {
	if err := context.Cause(s.ctx); err != errEnded {
		return err
	}
	return nil
}

// Close ends the session at once, and returns when all its goroutines have ended and
// everything is closed.
func (s *Session) Close() { s.stop(false) }

// Leave stops this daemon's work for the session and leaves the session to the next daemon,
// for which the descriptors are kept elsewhere. A write to an agent that reads nothing may
// still be under way; the descriptors then stay open.
func (s *Session) Leave() { s.stop(true) }

func (s *Session) stop(left bool) {
	s.mu.Lock()
	s.ending.left = left
	running := s.ending.running
	s.ending.running = true
	s.mu.Unlock()
	s.cancel(errEnded)
	if !running {
		s.closeDescriptors()
		close(s.done)
		return
	}
	s.release()
	if left {
		timer := time.NewTimer(unreadTimeout)
		defer timer.Stop()
		select {
		case <-s.done:
		case <-timer.C:
		}
		return
	}
	<-s.done
}

// release ends a write to a socket that nobody reads. It is blocked in the kernel, where no Waker
// reaches it.
func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.outputs[fromAgent]; o.writing && !s.ending.left {
		_ = unix.Shutdown(int(s.ends.Agent.To.Fd()), unix.SHUT_RDWR) // no other kind of file blocks like this
	}
}

// watch notes when nobody reads the agent's output any more, and when the server has ended.
func (s *Session) watch() {
	fds := []unix.PollFd{
		{Fd: int32(s.ends.Agent.To.Fd())}, // errors only
		{Fd: -1, Events: unix.POLLIN},
	}
	if h := s.ends.Server.handle(); h != nil {
		fds[1].Fd = int32(h.Fd())
	}
	for {
		if err := s.wake.Watch(fds); err != nil {
			if !errors.Is(err, pipe.ErrWoken) {
				s.log.Error("watch the ends of a session", "err", err)
			}
			return
		}
		s.updateEnding(func(e *ending) {
			e.dead = e.dead || fds[0].Revents != 0
			e.exited = e.exited || fds[1].Revents != 0
		})
		for i := range fds {
			if fds[i].Revents != 0 {
				fds[i].Fd, fds[i].Revents = -1, 0
			}
		}
	}
}

// closeDescriptor closes a descriptor, which may be nil. If the session is left to the next daemon, only
// this daemon's copy is closed.
func (s *Session) closeDescriptor(f *os.File) {
	if f == nil {
		return
	}
	if s.ends.LetGo != nil && !s.ending.left {
		s.ends.LetGo(f)
	}
	if err := f.Close(); err != nil {
		s.log.Debug("close a descriptor of a session", "name", f.Name(), "err", err)
	}
}

// readables returns what waits for the sides that are read from descriptors.
func (s *Session) readables() (all []*pipe.Readable) {
	for _, source := range s.inputs {
		if in, is := source.(*input); is && in != nil && in.readable != nil {
			all = append(all, in.readable)
		}
	}
	return all
}

// closeDescriptors closes everything that the session owns. No goroutine of the session may be running.
func (s *Session) closeDescriptors() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.reminders {
		b.next.Stop()
	}
	for _, timer := range []*time.Timer{s.hangUpTimer, s.silentRequests.look, s.look[fromAgent].timer, s.look[fromServer].timer} {
		if timer != nil {
			timer.Stop()
		}
	}
	if !s.ending.left {
		s.ends.Server.kill() // it has ended, or had to end at once
	}
	// Close the memory first: without it, the next daemon takes the rest for no session and
	// closes it. A session that lacks some of its ends would look altered.
	if s.ends.LetGo != nil && !s.ending.left {
		s.ends.LetGo(s.mapping.File())
	}
	for _, in := range s.readables() {
		if err := in.Close(); err != nil {
			s.log.Debug("close what waited for a side", "err", err)
		}
	}
	s.ends.Server.close(s.closeDescriptor)
	s.closeDescriptor(s.ends.Agent.To)
	s.closeDescriptor(s.ends.Agent.From)
	s.closeDescriptor(s.ends.Staging.File())
	if err := s.mapping.Close(); err != nil {
		s.log.Debug("close the memory of a session", "err", err)
	}
	for _, w := range []*pipe.Waker{s.wake, s.toServer} {
		if w != nil {
			w.Close()
		}
	}
	s.wake, s.toServer = nil, nil
	if status := s.ends.Server.status(); status > 0 && s.ends.Drained != nil && !s.ending.left {
		_, _ = s.ends.Drained.Write([]byte{byte(status)}) // there may be no reader
	}
	s.closeDescriptor(s.ends.Drained)
}
