// Package relay carries lines between an agent and an MCP server.
//
// A [Session] holds the agent's and the server's ends of standard input and output. Each side
// has a pump, which reads the side's lines, has them judged if the table of methods requires
// it, and writes them to the other side. A separate goroutine per side writes everything else:
// the session's own replies and lines that were held. Everything that a session knows is in
// its state. Only events change the state, and events are in a journal before their
// consequences are visible. If the daemon is killed, the next one continues from the journal:
// no line is lost, and none is delivered twice.
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

// maxPendingOutput is how many bytes of pending output a side may have before the pump of the other
// side pauses. One line may always wait, however long it is.
const maxPendingOutput = 4 << 20

// Session is one agent's use of one server.
type Session struct {
	gate        Judge
	log         *slog.Logger
	ends        Ends
	mapping     *mapping.Mapping
	wake        *pipe.Waker     // for waits for the ends of the session, and for writes to the agent
	toServer    *pipe.Waker     // for writes to the server
	inputs      [2]source       // of the pumps
	outputs     [2]*output      // to each side
	ctx         context.Context // for judging; ends with the session
	cancel      context.CancelCauseFunc
	wait        sync.WaitGroup
	done        chan struct{} // closed when all goroutines have ended
	grace       child.Grace   // of the server
	readTimeout time.Duration // agentReadTimeout; shorter in tests, like the next ones

	answerTimeout, aheadAfter time.Duration // see the constants of the same names

	mu             sync.Mutex // guards the fields below; not held while judging or writing
	state          *state
	journal        *mapping.Journal
	finishing      sync.Cond         // finish waits for what lets the session end: see noteChange
	wrote          [2]sync.Cond      // pumps wait until pending output of the side is written
	pending        [2]sync.Cond      // writeLoop waits for pending output of the side
	encoder        codec             // of journal entries
	transaction    []event           // buffer for the events of a turn and what is committed with them
	turns          [2]turn           // of the pumps
	recording      map[uint64]string // outcomes that are recorded or being recorded
	recorded       []uint64          // recorded outcomes that the journal does not mark yet
	noServer       *Refusal          // not nil: there is no server, and this answers the agent's requests
	ended          [2]bool           // nothing more is read from that side
	beingJudged    [2]*waiting       // the line on which the side's pump waits for a verdict
	look           [2]look           // when the input of a side is checked next
	reminders      map[uint64]*reminder
	silentRequests silentRequests
	ending         ending
	hangUpTimer    *time.Timer // ends the session some time after the agent's input has ended; nil before

	verdicts     sync.Mutex // guards the fields below; acquired after mu and after locks of the gate
	judging      [2]judging
	lateVerdicts []gate.Verdict // on held lines, not yet applied
	verdictsCame chan struct{}  // signals lateVerdicts

	warnedOfHeaders atomic.Bool
	complaints      atomic.Int64
}

// commit applies events to the state and adds them to the journal as one transaction. s.mu
// must be held. An event that can't be applied is a bug and ends the session.
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
			room = s.journal.Add(s.encoder.encode(e))
		}
	}
	if room {
		s.journal.Commit()
	}
	if !room || s.journal.Full() {
		s.rewrite()
	}
	if cap(s.encoder.b) > maxGathered {
		s.encoder.b = nil
	}
}

// undeliverable reports whether e adds output to a side that can't be written to any more.
func (s *Session) undeliverable(e event) bool {
	switch e := e.(type) {
	case *queued:
		return s.outputs[e.to].err != nil
	case *passed:
		return s.outputs[e.to].err != nil
	}
	return false
}

// rewrite replaces the journal by events that lead to the current state. s.mu must be held.
func (s *Session) rewrite() {
	s.journal.Drop()
	for side := range s.outputs {
		s.state.out[side].drop(s.outputs[side].cursor.Delivered())
	}
	ok := s.journal.Rewrite(func() bool {
		for e := range s.state.events {
			if !s.journal.Add(s.encoder.encode(e)) {
				return false
			}
		}
		return true
	})
	if !ok {
		panic("relay: the journal is too small for the limits of a session")
	}
}

// unlocked calls f, which may be slow, without s.mu. s.mu must be held.
func (s *Session) unlocked(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

// take handles one line of side. An error ends the side.
func (s *Session) take(side wire.Side, l *wire.Line) error {
	t := &s.turns[side]
	t.Session, t.ctx, t.side = s, s.ctx, side // the rest is empty since the last release
	defer t.release()
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
	for t.state.out[to].size() > maxPendingOutput && t.outputs[to].err == nil && t.ctx.Err() == nil {
		t.wrote[to].Wait()
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
	all := append(t.inputs[t.side].progress(t.recordedEvents(t.transaction[:0])), t.events...)
	t.commit(all...)
	clear(all)
	t.transaction = all
	if t.noServer != nil && t.side == fromAgent { // the line was judged while the server ended
		t.fail()
	}
	t.awaitAnswers()
	if len(t.state.outcomes) > maxOpen {
		t.recordOutcomes()
	}
	if len(t.state.out[t.side].items) > 0 {
		t.pending[t.side].Signal()
	}
	t.noteChange()
	return err
}

// dropAnswer drops all events of an answer except its number: the session is ending and has
// answered the request with an error while the answer was judged.
func (t *turn) dropAnswer() {
	t.events = slices.DeleteFunc(t.events, func(e event) bool {
		_, is := e.(*numbered)
		return !is
	})
}

// recordedEvents appends the events that mark outcomes as recorded. s.mu must be held.
func (s *Session) recordedEvents(events []event) []event {
	for _, seq := range s.recorded {
		if s.recording[seq] == s.state.outcomes[seq] { // otherwise there is a newer outcome
			events = append(events, &recorded{seq})
			delete(s.recording, seq)
		}
	}
	s.recorded = s.recorded[:0]
	return events
}
