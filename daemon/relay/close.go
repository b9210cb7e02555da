package relay

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// lastWords is how long a server that has ended, and an agent whose server has,
	// may leave what is theirs without taking any of it.
	lastWords = 5 * time.Second
	// wordsInTheWay is how long is waited for what was written before an end and not
	// read: it is there, unless somebody else goes on to write.
	wordsInTheWay = 2 * time.Second
	// drainWithin is how long answers may take that are under way when the daemon ends
	// the session.
	drainWithin = 2 * time.Second
	// killWithin bounds the wait for a server that was killed.
	killWithin = 5 * time.Second
)

// ending is how a session comes to its end. s.mu guards it.
type ending struct {
	begun   bool // who waits for the end is told more
	running bool // Run was called, or must not be any more
	asked   int  // how often the end was asked for
	drained string
	dead    bool   // nobody is there who reads what the agent is owed
	exited  bool   // the server's process has ended
	how     string // as its parent tells
	left    bool   // all stays as it is for the next daemon
}

// Signal asks for the end in order, as a signal to tg-shim does: what is under way is
// delivered and the server's input closed, and later it is told to leave and then
// killed. Each call after the first skips a step.
func (s *Session) Signal() {
	s.end(func(e *ending) { e.asked++ })
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
		timer := time.NewTimer(wordsInTheWay)
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

// until waits until done is true, for d at most where d is not 0, and reports whether it
// is. s.mu is held.
func (s *Session) until(d time.Duration, done func() bool) bool {
	late := false
	if d > 0 {
		timer := time.AfterFunc(d, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			late = true
			s.changed.Broadcast()
		})
		defer timer.Stop()
	}
	for !done() && !late && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	return done()
}

// finish ends the session in order once there is a reason to.
func (s *Session) finish() {
	defer s.release()
	defer s.cancel(errEnded)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until(0, s.mayEnd)
	if s.ctx.Err() != nil {
		return
	}
	s.ending.begun = true
	if s.ending.drained != "" {
		s.refuseHeld(mcp.CodeGate, "Not executed: "+s.ending.drained)
		s.until(drainWithin, func() bool { return !s.state.owes(fromAgent) || s.serverGone() || s.ending.asked > 0 || s.ending.dead })
	}
	if s.ending.dead || s.ending.asked > 0 {
		s.refuseHeld(mcp.CodeGate, "Not executed: the agent has left")
	}
	s.stopServer()
	s.hearOut()
	if !s.ending.dead {
		s.until(drainWithin, func() bool { return s.noAnswersHeld() || s.ending.dead }) // extensions look at them
	}
	s.fail()
	s.lastAnswers()
	s.tellOutcomes()
}

// mayEnd reports whether the session has come to its end: there is a reason to end it,
// or its agent has said all and was answered.
func (s *Session) mayEnd() bool {
	e := &s.ending
	if e.dead || e.asked > 0 || e.drained != "" {
		return true
	}
	answered := s.ended[fromAgent] && len(s.state.waiting) == 0 && !s.state.owes(fromAgent) && s.written(fromServer)
	return answered || s.inputs[fromServer] != nil && (s.ended[fromServer] || e.exited || s.outputs[fromServer].err != nil)
}

// serverGone reports whether the server has ended.
func (s *Session) serverGone() bool {
	if s.inputs[fromServer] == nil || s.ending.exited {
		return true
	}
	return s.ended[fromServer] && s.ends.Server.process().fd() < 0
}

// stopServer tells the server to go, in three steps, of which each gives it time.
func (s *Session) stopServer() {
	step := s.ending.asked
	hastened := func() bool { return s.ending.asked > step || s.serverGone() }
	end := time.Now().Add(s.grace.Stdin)
	s.until(s.grace.Stdin, func() bool { return s.written(fromServer) || hastened() })
	s.closeInput()
	s.until(max(time.Until(end), 1), hastened)
	if s.serverGone() || s.ctx.Err() != nil {
		return
	}
	s.ends.Server.terminate()
	step = s.ending.asked
	s.until(max(s.grace.Term, 1), hastened)
	if s.serverGone() || s.ctx.Err() != nil {
		return
	}
	s.ends.Server.kill()
	s.until(killWithin, s.serverGone)
}

// hearOut waits until what was said before the end was dealt with.
func (s *Session) hearOut() {
	for side, in := range s.inputs {
		if in != nil && !s.ending.dead {
			s.until(wordsInTheWay, func() bool { return s.ended[side] || in.heard() || s.ending.dead })
		}
	}
}

// lastAnswers waits until the agent was written all that it is owed, as long as it
// takes something.
func (s *Session) lastAnswers() {
	s.until(wordsInTheWay, func() bool { return s.ended[fromAgent] || s.ending.dead || s.inputs[fromAgent].heard() })
	for !s.ending.dead && s.ctx.Err() == nil {
		before := s.outputs[fromAgent].cursor.Delivered()
		if s.until(s.patience, func() bool { return s.written(fromAgent) || s.ending.dead }) || s.outputs[fromAgent].cursor.Delivered() == before {
			return
		}
	}
}

// written reports whether all that a side is owed was written, or nothing can be. s.mu
// is held.
func (s *Session) written(to wire.Side) bool {
	o := s.outputs[to]
	return o.err != nil || !o.writing && len(s.state.out[to].items) == 0
}

// closeInput closes what the server reads. s.mu is held.
func (s *Session) closeInput() {
	o := s.outputs[fromServer]
	if o.err == nil {
		o.err = errEnded
	}
	s.toServer.Wake()
	s.changed.Broadcast()
	for o.writing {
		s.changed.Wait()
	}
	s.ends.Server.hangUp(s.letGo)
}

// noAnswersHeld reports whether no answer of the server is being judged. s.mu is held.
func (s *Session) noAnswersHeld() bool {
	for _, w := range s.state.waiting {
		if w.result && w.side == fromServer {
			return false
		}
	}
	return true
}

// refuseHeld refuses what is held with an error. s.mu is held.
func (s *Session) refuseHeld(code int, text string) {
	for _, w := range s.state.waiting {
		s.endBeat(w.seq)
		v := gate.Verdict{Move: gate.Deny, Answer: mcp.RefuseUnread(w.id, code, text)}
		s.happen(append(s.consequences(w, v), &decided{w.seq})...)
		s.unlocked(func() { s.gate.Cancel(w.seq) })
	}
	s.changed.Broadcast()
}

// fail answers what is open of the agent's requests with an error, and all that come
// later. s.mu is held.
func (s *Session) fail() {
	text := "The MCP server has ended"
	if s.ending.how != "" {
		text += " (" + s.ending.how + ")"
	}
	if s.over == nil {
		s.over = &Refusal{mcp.CodeServerExit, text}
	}
	s.refuseHeld(s.over.Code, text+" and did not answer")
	s.failOpen()
}

// failOpen answers what is open of the agent's requests with an error. s.mu is held.
func (s *Session) failOpen() {
	for key, r := range s.state.open[fromAgent] {
		events := []event{&closed{which{r.side, key}}}
		if r.seq > 0 {
			events = append(events, &ended{r.seq, "lost"})
		}
		if !r.cancelled {
			events = append(events, &owed{fromAgent, append(mcp.RefuseUnread(r.id, s.over.Code, s.over.Text+" and did not answer"), '\n')})
		}
		s.happen(events...)
	}
	s.changed.Broadcast()
}

// watch notes when nobody reads any more what the agent is owed, and when the server
// or who has handed the descriptors over has ended.
func (s *Session) watch() {
	fds := []unix.PollFd{
		{Fd: int32(s.ends.Agent.To.Fd())}, // errors only
		{Fd: s.ends.Server.process().fd(), Events: unix.POLLIN},
		{Fd: s.ends.Shim.fd(), Events: unix.POLLIN},
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
			if fds[2].Revents != 0 {
				e.asked++
			}
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
	for _, b := range s.beats {
		b.next.Stop()
	}
	if !s.ending.left {
		s.ends.Server.kill() // it has ended, or had to at once
	}
	s.ends.Server.close(s.letGo)
	s.letGo(s.ends.Agent.To)
	s.letGo(s.ends.Agent.From)
	s.letGo(s.ends.Staging.File())
	if s.ends.Shim != nil {
		s.letGo(s.ends.Shim.handle)
	}
	if s.ends.LetGo != nil && !s.ending.left {
		s.ends.LetGo(s.mapping.File())
	}
	if err := s.mapping.Close(); err != nil {
		s.log.Debug("close the memory of a session", "err", err)
	}
	for _, w := range []*pipe.Waker{s.wake, s.toServer} {
		if w != nil {
			w.Close()
		}
	}
	s.wake, s.toServer = nil, nil
	s.letGo(s.ends.Drained)
}
