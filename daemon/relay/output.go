package relay

import (
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// output is what writes to one side. s.mu guards what may change.
type output struct {
	*pipe.Writer
	cursor  mapping.Cursor
	writing bool  // somebody is in write
	err     error // of the first write that failed; nothing is written after it
}

// mostAtOnce is how many lines are written at once.
const mostAtOnce = 64

// drain writes what a side is owed, unless somebody else does so.
func (s *Session) drain(to wire.Side) {
	o, q := s.outputs[to], &s.state.out[to]
	s.mu.Lock()
	defer s.mu.Unlock()
	for !o.writing && o.err == nil && len(q.items) > 0 {
		parts, err := s.parts(to)
		if err == nil {
			o.writing = true
			s.mu.Unlock()
			err = o.Write(parts...)
			s.mu.Lock()
			o.writing = false
		}
		o.err = err
		q.drop(o.cursor.Delivered())
		s.changed.Broadcast()
	}
	if len(q.items) == 0 {
		s.tellOutcomes()
	}
}

// parts returns what a side is owed first. s.mu is held.
func (s *Session) parts(to wire.Side) ([][]byte, error) {
	q := &s.state.out[to]
	parts := make([][]byte, 0, min(len(q.items), mostAtOnce))
	for _, i := range q.items[:cap(parts)] {
		line, err := s.lineOf(to, i)
		if err != nil {
			return nil, err
		}
		parts = append(parts, line)
	}
	if skip := s.outputs[to].cursor.Delivered() - q.start; skip > 0 { // a part of it was written by an earlier daemon
		parts[0] = parts[0][skip:]
	}
	return parts, nil
}

// tellOutcomes puts on record what came of calls. s.mu is held, and let go meanwhile.
func (s *Session) tellOutcomes() {
	for seq, outcome := range s.state.outcomes {
		delete(s.state.outcomes, seq)
		s.told = append(s.told, seq)
		s.mu.Unlock()
		s.gate.Outcome(s.ctx, seq, outcome)
		s.mu.Lock()
	}
}

// serve writes what a side is owed by others than its peer's pump, until the session
// has ended: our own answers, and lines that were held.
func (s *Session) serve(to wire.Side) {
	s.resume(to)
	for {
		s.mu.Lock()
		for s.ctx.Err() == nil && !s.hasVerdicts(to) && (s.outputs[to].writing || s.outputs[to].err != nil || len(s.state.out[to].items) == 0) {
			s.changed.Wait()
		}
		if s.ctx.Err() != nil {
			s.mu.Unlock()
			return
		}
		s.decide(to)
		s.mu.Unlock()
		s.drain(to)
	}
}

// hasVerdicts reports whether there are verdicts on held lines for a side.
func (s *Session) hasVerdicts(to wire.Side) bool {
	s.verdicts.Lock()
	defer s.verdicts.Unlock()
	for _, v := range s.late {
		if other(sideOf(v.Seq)) == to {
			return true
		}
	}
	return false
}

// decide does what verdicts on held lines for a side say. s.mu is held.
func (s *Session) decide(to wire.Side) {
	s.verdicts.Lock()
	var mine, others []gate.Verdict
	for _, v := range s.late {
		if other(sideOf(v.Seq)) == to {
			mine = append(mine, v)
		} else {
			others = append(others, v)
		}
	}
	s.late = others
	s.verdicts.Unlock()
	for _, v := range mine {
		if w := s.state.waiting[v.Seq]; w != nil && v.Move != gate.Ask {
			s.happen(append(s.consequences(w, v), &decided{w.seq})...)
			s.changed.Broadcast()
		} else if v.Move == gate.Forward {
			s.state.outcomes[v.Seq] = "not_written" // it was taken back meanwhile
		}
	}
}

// consequences are what a verdict on a held line leads to. s.mu is held.
func (s *Session) consequences(w *waiting, v gate.Verdict) []event {
	write := func(to wire.Side, line []byte) event { return &owed{to, append(line[:len(line):len(line)], '\n')} }
	if w.result {
		if v.Move == gate.Forward {
			return []event{write(other(w.side), w.announced(v.Line))}
		}
		return []event{write(other(w.side), w.refused(v))}
	}
	if w.key == "" { // a notification
		if v.Move == gate.Forward {
			return []event{write(other(w.side), v.Line)}
		}
		return nil
	}
	if v.Move != gate.Forward {
		return []event{&closed{which{w.side, w.key}}, write(w.side, refusal(v, w.id))}
	}
	e := &written{which: which{w.side, w.key}, notice: v.Notice, inspect: v.Inspect}
	if v.Inspect {
		e.wrote = v.Line
	}
	return []event{e, write(other(w.side), v.Line)}
}

// fail answers what is open of the agent's requests with an error. s.mu is held.
func (s *Session) fail(code int, text string) {
	for _, w := range s.state.waiting {
		s.gate.Cancel(w.seq)
		s.happen(append(s.consequences(w, gate.Verdict{Move: gate.Deny, Answer: mcp.RefuseUnread(w.id, code, text)}), &decided{w.seq})...)
	}
	for key, r := range s.state.open[wire.FromAgent] {
		events := []event{&closed{which{r.side, key}}}
		if r.seq > 0 {
			events = append(events, &ended{r.seq, "lost"})
		}
		if !r.cancelled {
			events = append(events, &owed{wire.FromAgent, append(mcp.RefuseUnread(r.id, code, text), '\n')})
		}
		s.happen(events...)
	}
	s.over[wire.FromAgent] = true
	s.changed.Broadcast()
}
