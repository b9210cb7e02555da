package relay

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// While a request is judged, its pump reads nothing. If that takes long, the side's input is
// checked from time to time: the requester may have cancelled the request, and judging it then
// stops. Nothing else is done with lines ahead of their turn.

// aheadAfter is how long a request is judged at least before its side's input is checked, and
// the delay between checks. The first check comes within twice that time.
const aheadAfter = 50 * time.Millisecond

// lookAhead cancels the request of side that is being judged, if the requester has cancelled
// it.
func (s *Session) lookAhead(side wire.Side) {
	defer s.recoverPanic()
	if seq := s.takenBack(side); seq != 0 {
		s.gate.Cancel(seq)
	}
}

// look is the schedule of checks of a side's input. It costs a session that judges many lines
// one timer for each period, and not one for each line.
type look struct {
	timer *time.Timer // nil before the first check
	armed bool
	seq   uint64 // the line that was judged when the timer was set
}

// lookLater schedules the next check of the input of side, unless one is scheduled already.
// s.mu must be held.
func (s *Session) lookLater(side wire.Side) {
	l := &s.look[side]
	if l.armed {
		return
	}
	l.armed, l.seq = true, s.beingJudged[side].seq
	if l.timer == nil {
		l.timer = time.AfterFunc(s.aheadAfter, func() { s.lookAhead(side) })
		return
	}
	l.timer.Reset(s.aheadAfter)
}

// takenBack returns the number of the request of side that is being judged, if the requester
// has cancelled it. Otherwise it schedules the next check and returns 0.
func (s *Session) takenBack(side wire.Side) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, l := s.beingJudged[side], &s.look[side]
	l.armed = false
	if w == nil || w.key == "" || w.result || w.withdrawn || s.ctx.Err() != nil {
		return 0
	}
	if w.seq != l.seq { // it has not been judged for a whole period
		s.lookLater(side)
		return 0
	}
	if w.withdrawn = s.inputs[side].cancels(w.key); w.withdrawn {
		return w.seq
	}
	s.lookLater(side)
	return 0
}

// cancels implements [source]. It first reads what is available.
func (in *input) cancels(key string) bool {
	rest := in.Unread()
	s, most := in.session, in.session.mapping.Longest()+mapping.MaxAhead
	for len(rest) < mapping.MaxAhead && len(in.Input.Unread(s.state.taken[in.side])) < most && in.failed == nil && pipe.Ready(in.fd) {
		room := in.Behind()
		if len(room) == 0 {
			break
		}
		n, err := pipe.Read(in.fd, room)
		switch {
		case errors.Is(err, pipe.ErrNothing):
			return false
		case err == nil && n == 0:
			in.failed = io.EOF
		case err != nil:
			in.failed = err
		}
		in.Read(n)
		rest = in.Unread()
	}
	if in.aheadFrom != in.at { // for another request
		in.ahead, in.aheadFrom = in.at, in.at
	}
	for rest = rest[in.ahead-in.at:]; ; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return false
		}
		if is, more := cancels(in.side, line, key); is || !more {
			return is
		}
		in.ahead += uint64(len(line)) + 1
		rest = after
	}
}

// cancels implements [source].
func (in *inbox) cancels(key string) bool {
	m := in.server
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, size := 0, 0; i < len(m.lines) && size < mapping.MaxAhead; i++ {
		line := m.lines[i]
		size += len(line)
		if is, more := cancels(fromServer, bytes.TrimSuffix(line, []byte("\n")), key); is || !more {
			return is
		}
	}
	return false
}

// cancels reports whether a line of side cancels the request with the key. If more is false,
// nothing can be said about later lines: the line may be the start of something that its
// reader refuses.
func cancels(side wire.Side, line []byte, key string) (is, more bool) {
	if len(bytes.TrimSpace(line)) == 0 {
		return false, true
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	var e wire.Envelope
	if wire.Read(line, side, &e) != nil {
		return false, false
	}
	return mcp.Check(side, &e, line) == nil && keyCancelled(&e, line) == key, true
}

// keyCancelled returns the key of the request that a message cancels, empty for none.
func keyCancelled(e *wire.Envelope, line []byte) string {
	if e.Kind != wire.Notification || e.Method != "notifications/cancelled" || !e.RequestID.Present() {
		return ""
	}
	key, err := wire.Key(e.RequestID.Of(line))
	if err != nil {
		return ""
	}
	return key
}
