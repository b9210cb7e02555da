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

// Earlier looks up what previous daemons recorded of the lines with these numbers. passed
// holds the hex SHA-256 of each forwarded line, recorded the lines whose outcome is recorded.
// A session's memory is compared with that, because other processes of the same user may have
// altered it.
type Earlier func(seqs []uint64) (passed map[uint64]string, recorded map[uint64]bool)

// verify checks the pending output of a restored session, and notes which outcomes are
// recorded already.
func (s *Session) verify() error {
	if s.ends.Earlier == nil {
		if len(s.state.out[fromAgent].items)+len(s.state.out[fromServer].items)+len(s.state.waiting)+len(s.state.outcomes) > 0 {
			return corruptError("a new session has a history")
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

// verifyOwed returns an error if a line can't be pending output of a side: a line that must be
// judged may only be written as it was judged. passed is the digest of the line forwarded
// under its number, empty for none.
func (s *Session) verifyOwed(to wire.Side, line []byte, seq uint64, passed string) error {
	line = bytes.TrimSuffix(line, []byte("\n"))
	var e wire.Envelope
	err := wire.Read(line, other(to), &e)
	if passed != "" {
		if passed == digestOf(line) {
			return nil
		}
		if err == nil && e.Kind == wire.Result {
			if before, ok := mcp.WithoutAnnouncement(line, &e); ok && passed == digestOf(before) {
				return nil
			}
		}
		return corruptError("line %d is not what was forwarded", seq)
	}
	if err != nil {
		if s.gate.Profile() == gate.Development {
			return nil // it may have been passed by that profile
		}
		return corruptError("a pending line can't be read: %v", err)
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
		return corruptError("a pending line must be judged, and it has no record of a verdict that forwards it")
	}
	return nil
}

// digestOf returns the digest of a line in the form that records use.
func digestOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// restOf returns the rest of a line of which n bytes were written. It fails if the rest looks
// like a message: somebody may have altered n.
func restOf(line []byte, n uint64) ([]byte, error) {
	rest := line[n:]
	if n > 0 && wire.OpensMessage(rest) {
		return nil, corruptError("the rest of a pending line would be a message of its own")
	}
	return rest, nil
}
