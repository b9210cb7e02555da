package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Earlier looks up what earlier daemons have put on record of the lines with these
// numbers: the SHA-256, in hexadecimal digits, of what was let pass, and of which it was
// told what came of it. What they have left in a session's memory is held against that:
// others of the same user may have reached it.
type Earlier func(seqs []uint64) (passed map[uint64]string, recorded map[uint64]bool)

// verify checks what a session that is restored is to write, and takes note of what
// is on record already.
func (s *Session) verify() error {
	if s.ends.Earlier == nil {
		if len(s.state.out[fromAgent].items)+len(s.state.out[fromServer].items)+len(s.state.waiting)+len(s.state.outcomes) > 0 {
			return damaged("a session that begins has a past")
		}
		return nil
	}
	var seqs []uint64
	for to := range s.state.out {
		for _, i := range s.state.out[to].items {
			if i.seq > 0 {
				seqs = append(seqs, i.seq)
			}
		}
	}
	if seqs = slices.AppendSeq(seqs, maps.Keys(s.state.outcomes)); len(seqs) == 0 && s.state.out[fromAgent].size()+s.state.out[fromServer].size() == 0 {
		return nil
	}
	passed, recorded := s.ends.Earlier(seqs)
	for to := range s.state.out {
		for _, i := range s.state.out[to].items {
			line, err := s.lineOf(wire.Side(to), i)
			if err == nil {
				err = s.verifyOwed(wire.Side(to), line, i.seq, passed[i.seq])
			}
			if err != nil {
				return err
			}
		}
	}
	for seq, outcome := range s.state.outcomes {
		if recorded[seq] {
			s.recording[seq] = outcome
			s.recorded = append(s.recorded, seq)
		}
	}
	return nil
}

// verifyOwed reports why a line that a side is owed can't be: one that has to be judged
// is owed only as it was. passed is the digest of what was let pass under its number,
// empty for nothing.
func (s *Session) verifyOwed(to wire.Side, line []byte, seq uint64, passed string) error {
	line = bytes.TrimSuffix(line, []byte("\n"))
	var e wire.Envelope
	err := wire.Read(line, other(to), &e)
	if passed != "" {
		if passed == digestOf(line) {
			return nil
		}
		if err == nil && e.Kind == wire.Result {
			if before, ok := mcp.Unannounced(line, &e); ok && passed == digestOf(before) {
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

// restOf is what is left of a line of which n bytes were written. Whoever has altered that
// number must not have made a message of the rest.
func restOf(line []byte, n uint64) ([]byte, error) {
	rest := line[n:]
	if n > 0 && wire.OpensMessage(rest) {
		return nil, damaged("what is left of a line that is owed would be a message of its own")
	}
	return rest, nil
}
