package relay

import (
	"context"
	"errors"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// sink is what writes to a side. One goroutine at a time calls Write.
type sink interface {
	// Write writes parts, which are what is owed next. It may wait.
	Write(parts ...[]byte) error
}

// output is what writes to one side. s.mu guards what may change.
type output struct {
	sink
	cursor  mapping.Cursor
	writing bool  // somebody is in write
	err     error // why nothing is ever written to it again
}

// maxAtOnce is how many lines are written at once.
const maxAtOnce = 64

// writeOwed writes what a side is owed, unless somebody else does so. s.mu is held, and let
// go meanwhile.
func (s *Session) writeOwed(to wire.Side) {
	o, q := s.outputs[to], &s.state.out[to]
	for !o.writing && o.err == nil && len(q.items) > 0 && s.ctx.Err() == nil {
		parts, err := s.parts(to)
		if err == nil {
			o.writing = true
			s.unlocked(func() { err = o.Write(parts...) })
			o.writing = false
		}
		if s.noteWrite(to, err) != nil {
			return
		}
	}
	if len(q.items) == 0 {
		s.recordOutcomes()
		s.releaseMemory()
	}
}

// noteWrite notes what a write to a side came to, and returns why nothing more can be
// written now, if so. s.mu is held.
func (s *Session) noteWrite(to wire.Side, err error) error {
	o := s.outputs[to]
	if err != nil && s.ctx.Err() == nil && o.err == nil {
		s.log.Debug("a side takes nothing more", "direction", gate.Direction(other(to)), "err", err)
		o.err = err
		if errors.Is(err, mapping.ErrDamaged) {
			s.cancel(err)
		}
	}
	s.state.out[to].drop(o.cursor.Delivered())
	s.changed.Broadcast()
	return err
}

// releaseMemory gives memory back that long lines have needed, once nothing is owed. s.mu is
// held.
func (s *Session) releaseMemory() {
	if s.journal.Size() < minRelease || s.state.size() > s.journal.Size()/2 {
		return
	}
	s.rewrite()
	releaseHeap()
}

// parts returns what a side is owed first. s.mu is held.
func (s *Session) parts(to wire.Side) ([][]byte, error) {
	q := &s.state.out[to]
	parts := make([][]byte, 0, min(len(q.items), maxAtOnce))
	for _, i := range q.items[:cap(parts)] {
		line, err := s.lineOf(to, i)
		if err != nil {
			return nil, err
		}
		parts = append(parts, line)
	}
	if skip := s.outputs[to].cursor.Delivered() - q.start; skip > 0 { // a part of it was written by an earlier daemon
		rest, err := restOf(parts[0], skip)
		if err != nil {
			return nil, err
		}
		parts[0] = rest
	}
	return parts, nil
}

// recordOutcomes puts on record what came of calls, and says so in the journal. s.mu is
// held, and let go meanwhile.
func (s *Session) recordOutcomes() {
	for {
		var untold []uint64
		for seq, outcome := range s.state.outcomes {
			if s.recording[seq] != outcome {
				untold = append(untold, seq)
			}
		}
		if len(untold) == 0 {
			break
		}
		slices.Sort(untold)
		for _, seq := range untold {
			outcome, open := s.state.outcomes[seq]
			if !open || s.recording[seq] == outcome {
				continue // somebody else was faster
			}
			s.recording[seq] = outcome
			s.unlocked(func() { s.gate.Outcome(context.WithoutCancel(s.ctx), seq, outcome) })
			s.recorded = append(s.recorded, seq)
		}
	}
	// Said at once, and not with the next line: that may never come, and the next daemon
	// would look for it through all that others have on record since.
	if len(s.recorded) > 0 {
		s.commit(s.recordedEvents()...)
	}
}

// writeLoop writes what a side is owed by others than its peer's pump, until the session
// has ended: our own answers, and lines that were held.
func (s *Session) writeLoop(to wire.Side) {
	o := s.outputs[to]
	if to == fromServer {
		err := s.ends.Server.begin()
		s.mu.Lock()
		o.writing = false
		_ = s.noteWrite(to, err)
		s.mu.Unlock()
	}
	for {
		s.mu.Lock()
		for s.ctx.Err() == nil && (o.writing || o.err != nil || len(s.state.out[to].items) == 0) {
			s.changed.Wait()
		}
		s.writeOwed(to)
		s.mu.Unlock()
		if s.ctx.Err() != nil {
			return
		}
	}
}

// through is what a verdict that lets w pass leads to.
func (w *waiting) through(v gate.Verdict) *owed {
	line := v.Line
	if w.result {
		line = w.announced(line)
	}
	return &owed{to: other(w.side), line: w.terminated(line), seq: w.seq}
}

// terminated returns line with its line end, which is written behind the line that w is where
// the two are one: nobody else has that memory.
func (w *waiting) terminated(line []byte) []byte {
	if len(line) > 0 && len(line) == len(w.line) && &line[0] == &w.line[0] {
		return append(w.line, '\n')
	}
	return terminated(line)
}

// consequences are what a verdict on a held line leads to. s.mu is held.
func (s *Session) consequences(w *waiting, v gate.Verdict) []event {
	ours := func(to wire.Side, line []byte) event {
		return &owed{to: to, line: terminated(line), reply: to == w.side}
	}
	switch {
	case w.result && v.Move != gate.Forward:
		return []event{ours(other(w.side), w.refused(v))}
	case w.result, w.key == "" && v.Move == gate.Forward:
		return []event{w.through(v)}
	case w.key == "": // a notification
		return nil
	case v.Move != gate.Forward:
		events := []event{&closed{which{w.side, w.key}}}
		if r := s.state.open[w.side][w.key]; r == nil || !r.ours {
			events = append(events, ours(w.side, refusal(v, w.id)))
		}
		return events
	}
	e := &written{which: which{w.side, w.key}, sent: now(), notice: v.Notice, inspect: v.Inspect}
	if v.Inspect {
		e.sentLine = v.Line
	}
	return []event{e, w.through(v)}
}
