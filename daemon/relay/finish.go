package relay

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// until waits until done returns true, for at most d if d is not 0, or until s.ctx ends. It
// returns the last result of done. Only finish may call it. s.mu must be held.
func (s *Session) until(d time.Duration, done func() bool) bool {
	late := false
	if d > 0 {
		timer := time.AfterFunc(d, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			late = true
			s.finishing.Broadcast()
		})
		defer timer.Stop()
	}
	for !done() && !late && s.ctx.Err() == nil {
		s.finishing.Wait()
	}
	return done()
}

// noteChange wakes finish if it may wait for what has changed in the state, in the outputs or in
// the progress of a pump. s.mu must be held.
func (s *Session) noteChange() {
	if s.ending.begun || s.ended[fromAgent] { // otherwise only an event that broadcasts itself ends the session
		s.finishing.Broadcast()
	}
}

// finish ends the session in order when there is a reason to.
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
		s.until(drainTimeout, func() bool {
			return !s.state.owes(fromAgent) || s.serverGone() || s.ending.signals > 0 || s.ending.dead
		})
	}
	if s.ending.dead || s.ending.signals > 0 {
		s.refuseHeld(mcp.CodeGate, "Not executed: the agent has left")
	}
	s.stopServer()
	s.drainServer()
	if !s.ending.dead {
		s.until(drainTimeout, func() bool { return s.noAnswersHeld() || s.ending.dead }) // extensions inspect them
	}
	s.fail()
	s.flushAgent()
	s.recordOutcomes()
}

// mayEnd reports whether the session should end: there is a reason to, or the agent has closed
// its input and was answered.
func (s *Session) mayEnd() bool {
	e := &s.ending
	if e.dead || e.signals > 0 || e.drained != "" {
		return true
	}
	answered := s.ended[fromAgent] && len(s.state.waiting) == 0 && !s.state.owes(fromAgent) && s.written(fromServer)
	return answered || s.noServer == nil && s.inputs[fromServer] != nil && (s.ended[fromServer] || e.exited || s.outputs[fromServer].err != nil)
}

// serverGone reports whether the server has ended.
func (s *Session) serverGone() bool {
	if s.inputs[fromServer] == nil || s.ending.exited {
		return true
	}
	return s.ended[fromServer] && s.ends.Server.handle() == nil
}

// stopServer stops the server in three steps, each with a grace period.
func (s *Session) stopServer() {
	step := 1 // more signals than this skip the current step
	hastened := func() bool { return s.ending.signals > step || s.serverGone() }
	end := time.Now().Add(s.grace.Stdin)
	s.until(s.grace.Stdin, func() bool {
		return s.written(fromServer) && (!s.ends.Server.endsWithDaemon() || s.ending.dead || !s.state.owes(fromAgent)) || hastened()
	})
	s.closeInput()
	s.until(max(time.Until(end), 1), hastened)
	if s.serverGone() || s.ctx.Err() != nil {
		return
	}
	s.ends.Server.terminate()
	step++
	s.until(max(s.grace.Term, 1), hastened)
	if s.serverGone() || s.ctx.Err() != nil {
		return
	}
	s.ends.Server.kill()
	s.until(killTimeout, s.serverGone)
}

// drainServer waits until everything that the server wrote before its end has been handled.
// While an in-memory server drains, the agent's lines are still answered.
func (s *Session) drainServer() {
	in := s.inputs[fromServer]
	if in == nil {
		return
	}
	handledAll := func() bool { return s.ended[fromServer] || in.handledAll() || s.ending.dead }
	if s.ends.Server.endsWithDaemon() { // nothing more will arrive, and only the agent can delay what there is
		s.waitWhileAgentReads(handledAll)
		return
	}
	s.until(unreadTimeout, handledAll)
}

// flushAgent waits until the agent's pending output is written, as long as the agent reads.
func (s *Session) flushAgent() {
	s.until(unreadTimeout, func() bool { return s.ended[fromAgent] || s.ending.dead || s.inputs[fromAgent].handledAll() })
	s.waitWhileAgentReads(func() bool { return s.written(fromAgent) || s.ending.dead })
}

// waitWhileAgentReads waits until done returns true, or the agent has read nothing for
// readTimeout. s.mu must be held.
func (s *Session) waitWhileAgentReads(done func() bool) {
	for before := uint64(math.MaxUint64); s.ctx.Err() == nil; {
		taken := s.outputs[fromAgent].cursor.Delivered()
		if taken == before || s.until(s.readTimeout, done) {
			return
		}
		before = taken
	}
}

// written reports whether a side has no pending output, or can't be written to. s.mu must be
// held.
func (s *Session) written(to wire.Side) bool {
	o := s.outputs[to]
	return o.err != nil || !o.writing && len(s.state.out[to].items) == 0
}

// closeInput closes the server's input. s.mu must be held.
func (s *Session) closeInput() {
	o := s.outputs[fromServer]
	if o.err == nil {
		o.err = errEnded
	}
	s.ends.Server.interrupt()
	s.wrote[fromServer].Broadcast()
	for o.writing {
		s.finishing.Wait()
	}
	s.ends.Server.hangUp(s.closeDescriptor)
}

// noAnswersHeld reports whether no answer of the server is held. s.mu must be held.
func (s *Session) noAnswersHeld() bool {
	for _, w := range s.state.waiting {
		if w.result && w.side == fromServer {
			return false
		}
	}
	return true
}

// refuseHeld answers everything that is held with an error. s.mu must be held. It is released
// only when all of it is answered, so that no one sees a request that is both held and
// answered.
func (s *Session) refuseHeld(code int, text string) {
	seqs := slices.Collect(maps.Keys(s.state.waiting))
	for _, seq := range seqs {
		w := s.state.waiting[seq]
		s.endReminder(seq)
		v := gate.Verdict{Move: gate.Deny, Answer: mcp.RefuseUnread(w.id, code, text)}
		s.commit(append(s.consequences(w, v), &decided{seq})...)
	}
	s.wakeWriters()
	s.unlocked(func() {
		for _, seq := range seqs {
			s.gate.Cancel(seq)
		}
	})
}

// fail answers the agent's open requests with an error, including held ones and all that
// arrive later. s.mu must be held.
func (s *Session) fail() {
	if s.noServer == nil {
		if s.noServer = s.ends.Server.failure(); s.noServer == nil {
			text := "The MCP server has ended"
			if s.ending.how != "" {
				text += " (" + s.ending.how + ")"
			}
			s.noServer = &Refusal{mcp.CodeServerExit, text + " and did not answer"}
		}
	}
	s.refuseHeld(s.noServer.Code, s.noServer.Text)
	answer := s.noServer
	if s.ending.timedOut { // the agent has left: a server would not answer it either
		answer = nil
	}
	for _, r := range s.state.open[fromAgent] {
		s.commit(r.lost(answer)...)
	}
	s.wakeWriters()
}

// lost returns the events of a request that nobody will answer: the requester gets an error,
// unless answer is nil.
func (r *request) lost(answer *Refusal) []event {
	events := []event{&closed{which{r.side, r.key}}}
	if r.seq > 0 && r.sent > 0 {
		events = append(events, &ended{r.seq, "lost"})
	}
	if answer != nil && !r.cancelled && !r.ours {
		events = append(events, &queued{to: r.side, line: append(mcp.RefuseUnread(r.id, answer.Code, answer.Text), '\n')})
	}
	return events
}
