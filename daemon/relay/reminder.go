package relay

import (
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// An agent that gave a call a progress token is told that the call waits for a person: clients
// that observe progress then wait longer. Only its own token is used, and only while the call
// waits. A token that the agent did not give is an error to it, and progress after the answer
// may be one.

// reminderInterval is the interval between reminders.
const reminderInterval = 10 * time.Second

// reminder tells the agent of one held call. s.mu guards it.
type reminder struct {
	token    []byte
	approval string // id of the waiting question
	next     *time.Timer
}

// tokenOf returns the raw progress token of a request, or nil if it has none that MCP allows.
func tokenOf(e *wire.Envelope, line []byte) []byte {
	token := e.ProgressToken.Of(line)
	if _, err := wire.Key(token); err != nil { // like an id, it is a string or an integer
		return nil
	}
	return append([]byte(nil), token...)
}

// startReminder starts to tell the agent that w waits for an answer to a question, or
// continues to. s.mu must be held.
func (s *Session) startReminder(w *waiting, approval string) {
	r := s.state.open[w.side][w.key]
	if w.result || r == nil || r.token == nil || approval == "" || s.reminders[w.seq] != nil { // extensions answer soon
		return
	}
	b := &reminder{token: r.token, approval: approval}
	s.remindLater(w.seq, b)
	s.reminders[w.seq] = b
	if w.reminders == 0 { // otherwise a previous daemon has begun
		s.remind(w.seq, b)
	}
}

// remind tells the agent that a call waits. s.mu must be held.
func (s *Session) remind(seq uint64, b *reminder) {
	n := s.state.waiting[seq].reminders + 1
	// Servers count from 0 or 1, and progress must rise. These values are smaller than
	// anything the server reports once it has the call.
	s.commit(&reminded{seq}, &queued{to: fromAgent, line: fmt.Appendf(nil,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d.%06d,"message":"waiting for approval %s"}}`+"\n",
		b.token, n/1e6, n%1e6, b.approval)})
	s.pending[fromAgent].Signal()
}

func (s *Session) remindLater(seq uint64, b *reminder) {
	b.next = time.AfterFunc(reminderInterval, func() {
		defer s.recoverPanic()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.reminders[seq] == b && s.state.waiting[seq] != nil && s.ctx.Err() == nil {
			s.remind(seq, b)
			s.remindLater(seq, b)
		}
	})
}

// endReminder stops the reminders of a line. s.mu must be held.
func (s *Session) endReminder(seq uint64) {
	if b := s.reminders[seq]; b != nil {
		b.next.Stop()
		delete(s.reminders, seq)
	}
}
