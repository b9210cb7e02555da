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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// maxOwed is how many bytes may wait to be written to a side before the pump of
// the other one pauses. One line may always wait, however long it is.
const maxOwed = 4 << 20

// Session is one agent's use of one server.
type Session struct {
	gate        Judge
	log         *slog.Logger
	ends        Ends
	mapping     *mapping.Mapping
	wake        *pipe.Waker     // of all that reads and writes
	toServer    *pipe.Waker     // of what writes to the server, too
	inputs      [2]source       // of the pumps
	outputs     [2]*output      // to each side
	ctx         context.Context // of judging; ends with the session
	cancel      context.CancelCauseFunc
	wait        sync.WaitGroup
	done        chan struct{} // closed when nothing of it runs any more
	grace       child.Grace   // of the server
	readTimeout time.Duration // agentReadTimeout; less in tests, as those that follow

	answerTimeout, aheadAfter time.Duration // of the constants' names

	mu             sync.Mutex // guards what follows; not held while judging or writing
	state          *state
	journal        *mapping.Journal
	changed        sync.Cond
	entry          []byte            // of encode
	recording      map[uint64]string // outcomes that are on record, or being put there
	recorded       []uint64          // those that are, which the journal does not say yet
	noServer       *Refusal          // the agent is answered with that: there is no server
	ended          [2]bool           // nothing more is read of that side
	beingJudged    [2]*waiting       // what the pump of that side is having judged
	look           [2]*time.Timer    // the next look ahead of that; nil before the first
	reminders      map[uint64]*reminder
	silentRequests silentRequests
	ending         ending
	hangUpTimer    *time.Timer // ends it a while after the agent has said all; nil before

	verdicts     sync.Mutex // guards what follows; taken after mu and after locks of the gate
	judging      [2]*judging
	lateVerdicts []gate.Verdict // on held lines, not yet dealt with
	verdictsCame chan struct{}  // there are some

	warnedOfHeaders atomic.Bool
	complaints      atomic.Int64
}

// commit applies events to the state and writes them into the journal, where they count
// together. s.mu is held. An event that can't be applied is a fault of ours, and so ends
// the session.
func (s *Session) commit(events ...event) {
	room := true
	for _, e := range events {
		if s.undeliverable(e) {
			continue
		}
		if err := e.apply(s.state); err != nil {
			panic(err)
		}
		if room {
			s.entry = encode(s.entry[:0], e)
			room = s.journal.Add(s.entry)
		}
	}
	if room {
		s.journal.Commit()
	}
	if !room || s.journal.Full() {
		s.rewrite()
	}
	if cap(s.entry) > maxGathered {
		s.entry = nil
	}
}

// undeliverable reports whether e says that a side is owed something which can't be
// written any more.
func (s *Session) undeliverable(e event) bool {
	switch e := e.(type) {
	case *owed:
		return s.outputs[e.to].err != nil
	case *passed:
		return s.outputs[e.to].err != nil
	}
	return false
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

// unlocked calls f, which may take its time, without s.mu, which is held.
func (s *Session) unlocked(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

// take deals with one line of side. Its error ends the side.
func (s *Session) take(side wire.Side, l *wire.Line) error {
	t := &turn{Session: s, ctx: s.ctx, side: side}
	err := t.take(l)
	if t.judged {
		s.settled(side)
	}
	if t.abandoned {
		return errEnded
	}
	for _, f := range t.after {
		f()
	}
	return err
}

func (t *turn) take(l *wire.Line) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := other(t.side)
	for t.state.out[to].size() > maxOwed && t.outputs[to].err == nil && t.ctx.Err() == nil {
		t.changed.Wait()
	}
	var err error
	if _, comesAgain := t.inputs[t.side].(*input); comesAgain && t.mapping.Attempt(mapping.Side(t.side), t.state.taken[t.side]) > maxAttempts {
		t.refuseRepeated(l)
	} else {
		err = t.line(l)
	}
	if t.abandoned { // the next daemon, if there is one, reads the line again
		t.mapping.Excuse(mapping.Side(t.side))
		t.events = nil
		return errEnded
	}
	if t.answers != nil && t.state.open[t.answers.side][t.answers.key] == nil {
		t.dropAnswer()
	}
	t.commit(slices.Concat(t.recordedEvents(), t.inputs[t.side].progress(), t.events)...)
	if t.noServer != nil && t.side == fromAgent { // the line was judged while the server ended
		t.fail()
	}
	t.awaitAnswers()
	if len(t.state.outcomes) > maxOpen {
		t.recordOutcomes()
	}
	if len(t.state.out[t.side].items) > 0 || t.ending.begun {
		t.changed.Broadcast()
	}
	return err
}

// dropAnswer has nothing become of an answer but that its number was given away: its
// request was answered with an error while the answer was judged, since the session ends.
func (t *turn) dropAnswer() {
	t.events = slices.DeleteFunc(t.events, func(e event) bool {
		_, is := e.(*numbered)
		return !is
	})
}

// recordedEvents returns that outcomes are on record which are. s.mu is held.
func (s *Session) recordedEvents() []event {
	var events []event
	for _, seq := range s.recorded {
		if s.recording[seq] == s.state.outcomes[seq] { // else there is another one meanwhile
			events = append(events, &recorded{seq})
			delete(s.recording, seq)
		}
	}
	s.recorded = s.recorded[:0]
	return events
}
