package relay

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	fromAgent  = wire.FromAgent
	fromServer = wire.FromServer
)

// Ends are the descriptors between which a session carries lines, and what it keeps for the
// next daemon. New takes ownership of them. The session closes them when it ends, Drained
// last.
type Ends struct {
	Agent   Pair
	Staging *pipe.Staging // for writes to the agent; nil if the system has none
	Server  Server
	Mapping *mapping.Mapping
	Drained *os.File // closed when the agent has been sent all its output; may be nil

	// Earlier looks up what previous daemons recorded of the session; nil for a new session.
	Earlier Earlier

	// LetGo is called with each descriptor before it is closed for good, so that a kept copy
	// is closed too. It may be nil.
	LetGo func(*os.File)
}

// Pair is the two descriptors of one side.
type Pair struct {
	From *os.File // read from
	To   *os.File // written to
}

// errEnded is the error of operations on an ended session.
var errEnded = errors.New("the session has ended")

// New returns a session with the state in its mapping: that of a previous daemon, or none yet.
// It returns [mapping.ErrCorrupt] if that state is impossible. The caller must call Run or
// Close.
func New(judge Judge, ends Ends, log *slog.Logger) (*Session, error) {
	s := &Session{
		gate: judge, log: log, ends: ends, mapping: ends.Mapping, state: newState(), done: make(chan struct{}), grace: child.LeavingGrace, readTimeout: agentReadTimeout, answerTimeout: answerTimeout, aheadAfter: aheadAfter,
		reminders: map[uint64]*reminder{}, silentRequests: silentRequests{after: unansweredAfter}, recording: map[uint64]string{}, verdictsCame: make(chan struct{}, 1),
	}
	for _, cond := range []*sync.Cond{&s.finishing, &s.wrote[0], &s.wrote[1], &s.pending[0], &s.pending[1]} {
		cond.L = &s.mu
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background()) // lives until Close
	if err := s.restore(); err != nil {
		s.cancel(errEnded)
		s.closeDescriptors()
		return nil, err
	}
	context.AfterFunc(s.ctx, s.wakeAll)
	judge.Bind(s.verdict)
	judge.DeliverTo(s.deliver)
	return s, nil
}

// wakeAll ends all waits. If the session has been shut already, there are none.
func (s *Session) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		s.wake.Wake()
		s.toServer.Wake()
		for _, in := range s.readables() {
			in.Wake()
		}
	}
	s.finishing.Broadcast()
	for side := range s.outputs {
		s.wrote[side].Broadcast()
		s.pending[side].Broadcast()
	}
}

// Run carries lines until the session has ended.
func (s *Session) Run() {
	s.mu.Lock()
	if s.ending.running { // it was closed before
		s.mu.Unlock()
		return
	}
	defer close(s.done)
	s.ending.running = true
	var writing [2]bool
	for side, o := range s.outputs {
		writing[side] = o.err == nil
	}
	s.outputs[fromServer].writing = writing[fromServer] // until the server has begun
	s.awaitAnswers()
	s.mu.Unlock()
	s.startGoroutine(s.finish)
	s.startGoroutine(s.applyVerdicts)
	s.startGoroutine(s.watch)
	held := s.held() // before this daemon holds any
	s.startGoroutine(func() { s.resubmit(held) })
	for side := fromAgent; side <= fromServer; side++ {
		if writing[side] {
			s.startGoroutine(func() { s.writeLoop(side) })
		}
		if s.inputs[side] == nil {
			continue
		}
		s.startGoroutine(func() {
			if err := s.pump(side); err != nil {
				s.log.Debug("stop reading a side", "direction", gate.Direction(side), "err", err)
			}
			s.sideEnded(side) // not after a panic: the session must not end as if the side had
		})
	}
	s.wait.Wait()
	s.closeDescriptors()
}

// deliver sends the agent a line that the daemon generated.
func (s *Session) deliver(line []byte) {
	defer s.recoverPanic()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.commit(&queued{to: fromAgent, line: terminated(line)})
		s.pending[fromAgent].Signal()
	}
}

// sideEnded notes that nothing more will be read from a side.
func (s *Session) sideEnded(side wire.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[side] = true
	if side == fromAgent && s.ctx.Err() == nil {
		s.hangUpTimer = time.AfterFunc(s.answerTimeout, s.answerTimedOut)
	}
	s.finishing.Broadcast()
}
