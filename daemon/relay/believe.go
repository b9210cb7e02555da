package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Earlier is what earlier daemons have put on record of a session. What they have left
// in its memory is held against that: others of the same user may have reached it.
type Earlier interface {
	// Passed returns the SHA-256, in hexadecimal digits, of the line that was let pass
	// under a number.
	Passed(seq uint64) (digest string, ok bool)
	// Told reports whether it is on record what came of a call.
	Told(seq uint64) bool
}

// believe checks what a session that is restored is to write, and takes note of what
// is on record already.
func (s *Session) believe() error {
	if s.ends.Earlier == nil {
		if len(s.state.out[fromAgent].items)+len(s.state.out[fromServer].items)+len(s.state.waiting)+len(s.state.outcomes) > 0 {
			return damaged("a session that begins has a past")
		}
		return nil
	}
	for to := range s.state.out {
		for _, i := range s.state.out[to].items {
			line, err := s.lineOf(wire.Side(to), i)
			if err == nil {
				err = s.believable(wire.Side(to), line, i.seq)
			}
			if err != nil {
				return err
			}
		}
	}
	for seq, outcome := range s.state.outcomes {
		if s.ends.Earlier.Told(seq) {
			s.telling[seq] = outcome
			s.told = append(s.told, seq)
		}
	}
	return nil
}

// believable reports why a line that a side is owed can't be: one that has to be judged
// is owed only as it was.
func (s *Session) believable(to wire.Side, line []byte, seq uint64) error {
	line = bytes.TrimSuffix(line, []byte("\n"))
	var e wire.Envelope
	err := wire.Read(line, other(to), &e)
	if digest, passed := s.ends.Earlier.Passed(seq); seq > 0 && passed {
		if digest == digestOf(line) {
			return nil
		}
		if err == nil && e.Kind == wire.Result {
			if before, ok := mcp.Unannounced(line, &e); ok && digest == digestOf(before) {
				return nil
			}
		}
		return damaged("line %d is not what was let pass", seq)
	}
	if err != nil {
		if s.gate.Profile() == gate.Development {
			return nil // it may have been let pass
		}
		return damaged("a line that is owed can't be read: %v", err)
	}
	if to == fromAgent && s.state.modern && !s.state.initialized {
		e.Modern = true // as when it was read
	}
	judged := mcp.Asks(line, &e)
	switch e.Kind {
	case wire.Request:
		treatment := mcp.Lookup(other(to), &e).Treatment
		judged = treatment == mcp.Judge || treatment == mcp.Refuse || !mcp.KnownRevision(&e, line)
	case wire.Notification:
		judged = mcp.Lookup(other(to), &e).Treatment != mcp.Pass || judged && to == fromAgent
	case wire.Error:
		judged = to == fromAgent && e.Code == mcp.CodeURLRequired
	}
	if judged {
		return damaged("a line is owed that has to be judged, and no record says that it may pass")
	}
	return nil
}

// digestOf is what the record has of a line.
func digestOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
