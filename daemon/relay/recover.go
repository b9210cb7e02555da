package relay

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// restore builds the state from the journal.
func (s *Session) restore() (err error) {
	for _, w := range []**pipe.Waker{&s.wake, &s.toServer} {
		if *w, err = pipe.NewWaker(); err != nil {
			return fmt.Errorf("begin a session: %w", err)
		}
	}
	if s.journal, err = s.mapping.Journal(); err != nil {
		return err
	}
	err = s.journal.Entries(func(entry []byte) error {
		e, err := decode(append([]byte(nil), entry...)) // copied, because it could change while it is read
		if err != nil {
			return err
		}
		return e.apply(s.state)
	})
	if err != nil {
		return err
	}
	if s.inputs[fromAgent], err = s.newInput(fromAgent, int(s.ends.Agent.From.Fd())); err != nil {
		return err
	}
	cursor, err := s.cursor(fromAgent)
	if err != nil {
		return err
	}
	s.outputs[fromAgent] = &output{sink: pipe.NewWriter(int(s.ends.Agent.To.Fd()), s.ends.Staging, cursor, s.wake), cursor: cursor}
	if cursor, err = s.cursor(fromServer); err != nil {
		return err
	}
	o := &output{cursor: cursor}
	s.outputs[fromServer] = o
	if s.inputs[fromServer], o.sink, err = s.ends.Server.join(s); err != nil {
		return err
	}
	if o.sink == nil {
		o.err = errEnded
	}
	for side := range s.outputs {
		s.state.out[side].drop(s.outputs[side].cursor.Delivered())
	}
	if err := s.verify(); err != nil {
		return err
	}
	for side, o := range s.outputs {
		if w, is := o.sink.(*pipe.Writer); is {
			if err := s.recoverOutput(wire.Side(side), w, o.cursor); err != nil {
				return err
			}
			s.state.out[side].drop(o.cursor.Delivered())
		}
	}
	if s.ends.Earlier != nil {
		s.ends.Server.renew(s)
	}
	return nil
}

// cursor returns how far the output to a side has got.
func (s *Session) cursor(to wire.Side) (mapping.Cursor, error) {
	cursor, err := s.mapping.Cursor(mapping.Side(to))
	if err != nil {
		return cursor, err
	}
	q := &s.state.out[to]
	if cursor.Intent() > q.end || cursor.Delivered() < q.start {
		return cursor, corruptError("it has delivered %d to %d of the pending output, which is %d to %d", cursor.Delivered(), cursor.Intent(), q.start, q.end)
	}
	return cursor, nil
}

// recoverOutput determines how much a previous daemon has written to a side. No goroutine of
// the session may be running.
func (s *Session) recoverOutput(to wire.Side, w *pipe.Writer, cursor mapping.Cursor) error {
	asked := s.askedBetween(to, cursor.Delivered(), cursor.Intent())
	doubtful, err := w.Recover(func(from, upTo uint64) ([]byte, error) { return s.pendingBetween(to, from, upTo) })
	if doubtful {
		for _, r := range asked {
			s.commit(r.lost(&Refusal{mcp.CodeServerExit, "ThoughtGate's daemon ended while it wrote the request, which may have been executed"})...)
		}
	}
	return err
}

// askedBetween returns the open requests in the pending output of a side between two offsets.
// s.mu must be held.
func (s *Session) askedBetween(to wire.Side, from, upTo uint64) []*request {
	var asked []*request
	at := s.state.out[to].start
	for _, i := range s.state.out[to].items {
		first := at
		if at += i.n; at <= from || first >= upTo {
			continue
		}
		var e wire.Envelope
		line, err := s.lineOf(to, i)
		if err != nil || wire.Read(bytes.TrimSuffix(line, []byte("\n")), other(to), &e) != nil || e.Kind != wire.Request {
			continue
		}
		if r := s.state.open[other(to)][e.Key(line)]; r != nil {
			asked = append(asked, r)
		}
	}
	return asked
}

// pendingBetween returns the pending output of a side between two offsets. s.mu must be held.
func (s *Session) pendingBetween(to wire.Side, from, upTo uint64) ([]byte, error) {
	q := &s.state.out[to]
	all := make([]byte, 0, upTo-from)
	at := q.start
	for _, i := range q.items {
		if at >= upTo {
			break
		}
		line, err := s.lineOf(to, i)
		if err != nil {
			return nil, err
		}
		if first, last := max(from, at), min(upTo, at+i.n); first < last {
			rest, err := restOf(line, first-at)
			if err != nil {
				return nil, err
			}
			all = append(all, rest[:last-first]...)
		}
		at += i.n
	}
	return all, nil
}

// lineOf returns the line of an item in the pending output of a side.
func (s *Session) lineOf(to wire.Side, i item) ([]byte, error) {
	if i.line != nil {
		return i.line, nil
	}
	line, ok := s.inputs[other(to)].bytes(i.offset, i.n)
	if !ok {
		return nil, corruptError("pending output is missing")
	}
	return line, nil
}

// held returns the lines that a previous daemon held, in order.
func (s *Session) held() []*waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.state.waiting), func(a, b *waiting) int { return cmp.Compare(a.seq, b.seq) })
}

// resubmit judges held lines again.
func (s *Session) resubmit(held []*waiting) {
	for _, w := range held {
		s.gate.SubmitFor(s.ctx, w.submission())
	}
}
