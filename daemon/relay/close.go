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
	// agentReadTimeout is how long a server that has ended, and an agent whose server has,
	// may leave what is theirs without taking any of it.
	agentReadTimeout = 5 * time.Second
	// answerTimeout is how long an agent that has said all is left waiting for what is
	// open. Clients wait two seconds and then send a signal; in a pipeline of a shell
	// somebody waits for the answer of a slow server.
	answerTimeout = 8 * time.Second
	// unreadTimeout is how long is waited for what was written before an end and not
	// read: it is there, unless somebody else goes on to write.
	unreadTimeout = 2 * time.Second
	// drainTimeout is how long answers may take that are under way when the daemon ends
	// the session.
	drainTimeout = 2 * time.Second
	// killTimeout bounds the wait for a server that was killed.
	killTimeout = 5 * time.Second
)

// ending is how a session comes to its end. s.mu guards it.
type ending struct {
	begun    bool // who waits for the end is told more
	running  bool // Run was called, or must not be any more
	signals  int  // how often the end was asked for
	timedOut bool // the agent has said all, and was not answered in time
	drained  string
	dead     bool   // nobody is there who reads what the agent is owed
	exited   bool   // the server's process has ended, or a shared one serves the session no more
	how      string // as its parent tells
	left     bool   // all stays as it is for the next daemon
}

// Signal asks for the end in order, as a signal to tg-shim does: what is under way is
// delivered and the server's input closed, and later it is told to leave and then
// killed. Each call after the first skips a step. It does not block.
func (s *Session) Signal() {
	s.end(func(e *ending) { e.signals++ })
}

// answerTimedOut ends the session of an agent that has said all and was not answered in time.
func (s *Session) answerTimedOut() {
	s.end(func(e *ending) { e.signals, e.timedOut = e.signals+1, true })
}

// Drain ends the session because the daemon has a reason to: what is held is refused
// with it, and answers that are under way get a little time.
func (s *Session) Drain(reason string) {
	s.end(func(e *ending) { e.drained = reason })
}

// ServerEnded says that the server's process has ended, and how.
func (s *Session) ServerEnded(how string) {
	s.end(func(e *ending) { e.exited, e.how = true, how })
}

func (s *Session) end(note func(*ending)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note(&s.ending)
	s.changed.Broadcast()
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is why the session was ended without any order: a fault of ours, or that its memory
// was damaged or altered ([mapping.ErrDamaged]). Else it is nil.
func (s *Session) Err() error {
	if err := context.Cause(s.ctx); err != errEnded {
		return err
	}
	return nil
}

// Close ends the session at once, and returns when nothing of it is left.
func (s *Session) Close() { s.stop(false) }

// Leave ends what this daemon does for the session, and leaves the session to the next
// one, for which somebody else keeps the descriptors. A write to an agent that reads
// nothing may be under way still, and then the descriptors stay open.
func (s *Session) Leave() { s.stop(true) }

func (s *Session) stop(left bool) {
	s.mu.Lock()
	s.ending.left = left
	running := s.ending.running
	s.ending.running = true
	s.mu.Unlock()
	s.cancel(errEnded)
	if !running {
		s.shut()
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

// release ends a write to a socket that nobody reads, which no waker ends.
func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.outputs[fromAgent]; o.writing && !s.ending.left {
		_ = unix.Shutdown(int(s.ends.Agent.To.Fd()), unix.SHUT_RDWR) // no other kind of file blocks so
	}
}

// watch notes when nobody reads any more what the agent is owed, and when the server
// has ended.
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
				s.log.Error("the ends of a session can't be watched", "err", err)
			}
			return
		}
		s.end(func(e *ending) {
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

// letGo closes a descriptor, which may be nil: of this daemon's only, when the session
// is left to the next one.
func (s *Session) letGo(f *os.File) {
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

// shut closes all that the session has. Nothing of it runs any more.
func (s *Session) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.reminders {
		b.next.Stop()
	}
	for _, timer := range []*time.Timer{s.hangUpTimer, s.silentRequests.look, s.look[fromAgent], s.look[fromServer]} {
		if timer != nil {
			timer.Stop()
		}
	}
	if !s.ending.left {
		s.ends.Server.kill() // it has ended, or had to at once
	}
	// First the memory: without it the rest is no session, and the next daemon closes it. A
	// session without some of its ends would be taken for one that was altered.
	if s.ends.LetGo != nil && !s.ending.left {
		s.ends.LetGo(s.mapping.File())
	}
	s.ends.Server.close(s.letGo)
	s.letGo(s.ends.Agent.To)
	s.letGo(s.ends.Agent.From)
	s.letGo(s.ends.Staging.File())
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
		_, _ = s.ends.Drained.Write([]byte{byte(status)}) // nobody may be there to read it
	}
	s.letGo(s.ends.Drained)
}
