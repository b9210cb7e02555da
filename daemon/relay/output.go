package relay

import (
	"context"
	"errors"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// sink writes to a side. Only one goroutine at a time may call Write.
type sink interface {
	// Write writes parts, the next pending output. It may block.
	Write(parts ...[]byte) error
}

// output writes to one side. s.mu guards what may change.
type output struct {
	sink
	cursor  mapping.Cursor
	writing bool     // a Write is under way
	parts   [][]byte // buffer of what is written
	err     error    // why the side is never written to again
}

// maxAtOnce is how many lines are written at once.
const maxAtOnce = 64

// writePendingOutput writes the pending output of a side, unless another goroutine does. s.mu must be
// held; it is released while writing.
func (s *Session) writePendingOutput(to wire.Side) {
	o, q := s.outputs[to], &s.state.out[to]
	for !o.writing && o.err == nil && len(q.items) > 0 && s.ctx.Err() == nil {
		parts, err := s.parts(to)
		if err == nil {
			o.writing = true
			s.unlocked(func() { err = o.Write(parts...) })
			o.writing = false
			clear(parts)
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

// noteWrite updates the state after a write to a side, and returns why nothing more can be
// written now, or nil. s.mu must be held.
func (s *Session) noteWrite(to wire.Side, err error) error {
	o := s.outputs[to]
	if err != nil && s.ctx.Err() == nil && o.err == nil {
		s.log.Debug("stop writing to a side", "direction", gate.Direction(other(to)), "err", err)
		o.err = err
		s.finishing.Broadcast()
		if errors.Is(err, mapping.ErrCorrupt) {
			s.cancel(err)
		}
	}
	s.state.out[to].drop(o.cursor.Delivered())
	s.wrote[to].Broadcast()
	s.noteChange()
	return err
}

// releaseMemory returns memory that long lines needed, when there is little pending output.
// s.mu must be held.
func (s *Session) releaseMemory() {
	if s.journal.Size() < minRelease || s.state.size() > s.journal.Size()/2 {
		return
	}
	s.rewrite()
	releaseHeap()
}

// parts returns the next pending output of a side. s.mu must be held.
func (s *Session) parts(to wire.Side) ([][]byte, error) {
	q := &s.state.out[to]
	parts := s.outputs[to].parts[:0]
	for _, i := range q.items[:min(len(q.items), maxAtOnce)] {
		line, err := s.lineOf(to, i)
		if err != nil {
			return nil, err
		}
		parts = append(parts, line)
	}
	if skip := s.outputs[to].cursor.Delivered() - q.start; skip > 0 { // a previous daemon wrote a part of it
		rest, err := restOf(parts[0], skip)
		if err != nil {
			return nil, err
		}
		parts[0] = rest
	}
	s.outputs[to].parts = parts
	return parts, nil
}

// recordOutcomes records the outcomes of calls, and marks them in the journal. s.mu must be
// held; it is released while recording.
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
				continue // another goroutine was faster
			}
			s.recording[seq] = outcome
			s.unlocked(func() { s.gate.RecordOutcome(context.WithoutCancel(s.ctx), seq, outcome) })
			s.recorded = append(s.recorded, seq)
		}
	}
	// Commit at once instead of with the next line. That line may never come, and the next
	// daemon would search all later records for these outcomes.
	if len(s.recorded) > 0 {
		s.commit(s.recordedEvents(nil)...)
	}
}

// wakeWriters has writeLoop write the pending output of both sides. s.mu must be held.
func (s *Session) wakeWriters() {
	for side := range s.pending {
		s.pending[side].Signal()
	}
}

// writeLoop writes the output of a side that the other side's pump does not write, until the
// session has ended: the session's own replies, and lines that were held.
func (s *Session) writeLoop(to wire.Side) {
	o := s.outputs[to]
	var err error
	if to == fromServer {
		err = s.ends.Server.begin()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if to == fromServer {
		o.writing = false
		_ = s.noteWrite(to, err)
	}
	for s.ctx.Err() == nil {
		for s.ctx.Err() == nil && (o.writing || o.err != nil || len(s.state.out[to].items) == 0) {
			s.pending[to].Wait()
		}
		s.writePendingOutput(to)
	}
}

// through returns the output that results from a verdict that forwards w.
func (w *waiting) through(v gate.Verdict) *queued {
	line := v.Line
	if w.result {
		line = w.announced(line)
	}
	return &queued{to: other(w.side), line: w.terminated(line), seq: w.seq}
}

// terminated returns line with its line end. If line is the memory of w itself, the line end
// is appended there: nobody else uses that memory.
func (w *waiting) terminated(line []byte) []byte {
	if len(line) > 0 && len(line) == len(w.line) && &line[0] == &w.line[0] {
		return append(w.line, '\n')
	}
	return terminated(line)
}

// consequences returns the events that result from a verdict on a held line. s.mu must be
// held.
func (s *Session) consequences(w *waiting, v gate.Verdict) []event {
	ours := func(to wire.Side, line []byte) event {
		return &queued{to: to, line: terminated(line), reply: to == w.side}
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
