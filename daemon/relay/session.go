// Package relay stands between an agent and a server and carries their lines.
//
// A [Session] holds the agent's ends of standard input and output and its server's.
// For each side it has a pump, which reads that side's lines, has them judged where
// the table of methods says so, and writes them on; what a side is owed by others
// than its peer's pump is written by a goroutine of its own. All that a session knows
// is in its state, which only events change, and events are in a journal before their
// consequences are. So the next daemon goes on where this one was killed: no line is
// lost, and none is delivered twice.
package relay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostOwed is how many bytes may wait to be written to a side before the pump of
// the other one pauses. One line may always wait, however long it is.
const mostOwed = 4 << 20

// Session is one agent's use of one server.
type Session struct {
	gate    Judge
	log     *slog.Logger
	ends    Ends
	mapping *mapping.Mapping
	wake    *pipe.Waker     // of all that reads and writes
	inputs  [2]*input       // of the pumps
	outputs [2]*output      // to each side
	ctx     context.Context // of judging; ends with the session
	cancel  context.CancelCauseFunc
	wait    sync.WaitGroup

	mu      sync.Mutex // guards what follows; not held while judging or writing
	state   *state
	journal *mapping.Journal
	changed sync.Cond
	entry   []byte   // of encode
	told    []uint64 // calls whose outcome is on record, which the journal does not say yet
	over    [2]bool  // nobody is left to answer that side
	ended   [2]bool  // nothing more is read of that side
	beats   map[uint64]*beat

	verdicts sync.Mutex // guards what follows; taken after mu and after locks of the gate
	judging  [2]*judging
	late     []gate.Verdict // on held lines, not yet dealt with

	toldOfHeaders atomic.Bool
	complaints    atomic.Int64
}

// happen makes events happen, all together. s.mu is held. An event that can't
// happen to the state is a fault of ours, and so ends the session.
func (s *Session) happen(events ...event) {
	for _, e := range events {
		if err := e.apply(s.state); err != nil {
			panic(err)
		}
		s.entry = encode(s.entry[:0], e)
		if !s.journal.Add(s.entry) {
			s.rewrite()
			return
		}
	}
	s.journal.Commit()
	if s.journal.Full() {
		s.rewrite()
	}
}

// rewrite writes the journal anew, with what leads to the state as it is. s.mu is
// held.
func (s *Session) rewrite() {
	s.journal.Drop()
	for side := range s.outputs {
		s.state.out[side].drop(s.outputs[side].cursor.Delivered())
	}
	ok := s.journal.Rewrite(func() bool {
		for e := range s.state.events {
			s.entry = encode(s.entry[:0], e)
			if !s.journal.Add(s.entry) {
				return false
			}
		}
		return true
	})
	if !ok {
		panic("relay: the journal has no room for what a session may hold")
	}
}

// take deals with one line of side. Its error ends the side.
func (s *Session) take(side wire.Side, l *wire.Line) error {
	t := &turn{Session: s, ctx: s.ctx, side: side}
	s.mu.Lock()
	for s.state.out[other(side)].size() > mostOwed && s.outputs[other(side)].err == nil && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	err := t.line(l)
	t.happens(&consumed{side, s.inputs[side].taken()})
	for _, seq := range s.told {
		t.happens(&told{seq})
	}
	s.told = s.told[:0]
	s.happen(t.events...)
	if len(s.state.out[side].items) > 0 {
		s.changed.Broadcast()
	}
	s.mu.Unlock()
	if t.judged {
		s.settled(side)
	}
	for _, f := range t.after {
		f()
	}
	return err
}

// unlocked calls f, which may take its time, without the lock that a turn holds.
func (t *turn) unlocked(f func()) {
	t.mu.Unlock()
	defer t.mu.Lock()
	f()
}
