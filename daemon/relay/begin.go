package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Ends are the descriptors of a session. They are the session's once it was begun.
type Ends struct {
	Agent   Pair // what the agent writes, and what it reads
	Server  Pair // what the server writes, and what it reads
	Staging [2]*pipe.Staging
	Mapping *mapping.Mapping
}

// Pair are the two descriptors of one side.
type Pair struct {
	From *os.File // is read
	To   *os.File // is written
}

func (e *Ends) side(side wire.Side) Pair {
	if side == wire.FromAgent {
		return e.Agent
	}
	return e.Server
}

// errEnded is why a session does nothing any more.
var errEnded = errors.New("the session has ended")

// New returns a session with what its mapping holds: that of an earlier daemon, or
// nothing yet. It fails with [mapping.ErrDamaged] where that can't be. The caller
// calls Run, or Close.
func New(judge Judge, ends Ends, log *slog.Logger) (*Session, error) {
	s := &Session{gate: judge, log: log, ends: ends, mapping: ends.Mapping, state: newState(), beats: map[uint64]*beat{}}
	s.changed.L = &s.mu
	s.ctx, s.cancel = context.WithCancelCause(context.Background()) // a lifetime: until Close
	if err := s.restore(); err != nil {
		s.cancel(errEnded)
		return nil, err
	}
	context.AfterFunc(s.ctx, func() {
		s.wake.Wake()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	judge.Bind(s.verdict)
	judge.DeliverTo(s.deliver)
	return s, nil
}

// restore makes the state of what the journal holds.
func (s *Session) restore() (err error) {
	if s.wake, err = pipe.NewWaker(); err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	if s.journal, err = s.mapping.Journal(); err != nil {
		return err
	}
	err = s.journal.Entries(func(entry []byte) error {
		e, err := decode(append([]byte(nil), entry...)) // it could change while it is read
		if err != nil {
			return err
		}
		return e.apply(s.state)
	})
	if err != nil {
		return err
	}
	for side := wire.FromAgent; side <= wire.FromServer; side++ {
		in, err := s.mapping.Input(mapping.Side(side), s.state.taken[side])
		if err != nil {
			return err
		}
		s.inputs[side] = &input{Input: in, session: s, side: side, fd: int(s.ends.side(side).From.Fd()), wake: s.wake, at: s.state.taken[side]}
	}
	for side := range s.outputs {
		if err := s.output(wire.Side(side)); err != nil {
			return err
		}
	}
	return nil
}

// output makes what writes to a side.
func (s *Session) output(to wire.Side) error {
	cursor, err := s.mapping.Cursor(mapping.Side(to))
	if err != nil {
		return err
	}
	q := &s.state.out[to]
	if cursor.Intent() > q.end || cursor.Delivered() < q.start {
		return damaged("it has delivered %d to %d of what is owed, which is %d to %d", cursor.Delivered(), cursor.Intent(), q.start, q.end)
	}
	s.outputs[to] = &output{Writer: pipe.NewWriter(int(s.ends.side(to).To.Fd()), s.ends.Staging[to], cursor, s.wake), cursor: cursor}
	q.drop(cursor.Delivered())
	return nil
}

// resume finishes what an earlier daemon was writing to a side. It waits while the
// side takes nothing.
func (s *Session) resume(to wire.Side) {
	o := s.outputs[to]
	_, err := o.Resume(func(from, upTo uint64) ([]byte, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.owedBetween(to, from, upTo)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	o.writing, o.err = false, err
	s.state.out[to].drop(o.cursor.Delivered())
	s.changed.Broadcast()
}

// owedBetween returns what a side is owed between two offsets. s.mu is held.
func (s *Session) owedBetween(to wire.Side, from, upTo uint64) ([]byte, error) {
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
			all = append(all, line[first-at:last-at]...)
		}
		at += i.n
	}
	return all, nil
}

// lineOf returns what an item that is owed to a side stands for.
func (s *Session) lineOf(to wire.Side, i item) ([]byte, error) {
	if i.line != nil {
		return i.line, nil
	}
	line, ok := s.inputs[other(to)].Bytes(i.offset, i.n)
	if !ok {
		return nil, damaged("what is owed is not there any more")
	}
	return line, nil
}

// Run carries lines until both sides have ended, or the session is closed.
func (s *Session) Run() {
	for _, o := range s.outputs {
		o.writing = true // until it was resumed
	}
	s.wait.Go(s.finish)
	s.resubmit()
	for side := wire.FromAgent; side <= wire.FromServer; side++ {
		s.wait.Go(func() { s.serve(side) })
		s.wait.Go(func() {
			if err := s.pump(side); err != nil {
				s.log.Debug("a side has ended", "direction", gate.Direction(side), "err", err)
			}
			s.sideEnded(side)
		})
	}
	s.wait.Wait()
}

// resubmit has lines judged again that an earlier daemon held.
func (s *Session) resubmit() {
	s.mu.Lock()
	var held []*waiting
	for _, w := range s.state.waiting {
		held = append(held, w)
	}
	s.mu.Unlock()
	for _, w := range held {
		s.gate.SubmitFor(s.ctx, gate.Submission{
			Seq: w.seq, Side: w.side, Line: append([]byte(nil), w.line...), Answers: w.answers, Call: w.call, Modern: w.modern, Request: w.request, About: w.about,
		})
	}
}

// deliver gives the agent a line of ours.
func (s *Session) deliver(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.happen(&owed{wire.FromAgent, append(line[:len(line):len(line)], '\n')})
		s.changed.Broadcast()
	}
}

// sideEnded notes that nothing more is to be read of a side.
func (s *Session) sideEnded(side wire.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[side] = true
	s.changed.Broadcast()
}

// finish ends the session in order once a side has ended. What an agent that has said
// all has asked for is answered first, and then its server is told by the end of its
// input. What a server that has ended has not answered is answered with an error.
func (s *Session) finish() {
	defer s.cancel(errEnded)
	s.mu.Lock()
	defer s.mu.Unlock()
	until := func(done func() bool) {
		for !done() && s.ctx.Err() == nil {
			s.changed.Wait()
		}
	}
	until(func() bool {
		return s.ended[wire.FromServer] || s.ended[wire.FromAgent] && len(s.state.waiting) == 0 && !s.state.owes(wire.FromAgent) && s.written(wire.FromServer)
	})
	s.closeInput()
	until(func() bool { return s.ended[wire.FromServer] })
	s.fail(mcp.CodeServerExit, "The MCP server has ended and did not answer")
	until(func() bool { return s.written(wire.FromAgent) })
}

// written reports whether all that a side is owed was written, or nothing can be. s.mu
// is held.
func (s *Session) written(to wire.Side) bool {
	o := s.outputs[to]
	return o.err != nil || !o.writing && len(s.state.out[to].items) == 0
}

// closeInput closes what the server reads. s.mu is held.
func (s *Session) closeInput() {
	o := s.outputs[wire.FromServer]
	o.err = errEnded
	if err := s.ends.Server.To.Close(); err != nil {
		s.log.Debug("close a server's input", "err", err)
	}
}

// Close ends the session at once, and returns when nothing of it runs any more.
func (s *Session) Close() {
	s.cancel(errEnded)
	s.wait.Wait()
}
