package sharing

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// remembered is how many submissions are remembered past their final verdict. It is
// more than the gate remembers: what it tells again has to be known here as used.
const remembered = 8192

// verdicts knows which lines verdicts have let through that were not written yet.
type verdicts struct {
	by    map[uint64]*submitted
	order []uint64              // those of by with a final verdict, oldest first
	back  []uint64              // those that were taken back before they had one, oldest first
	open  map[[32]byte][]uint64 // SHA-256 of lines that may be written, each with whose verdicts let it through
}

type submitted struct {
	side   wire.Side
	digest [32]byte // of what may be written
	let    bool     // it may be, and was not yet
	used   bool
	over   bool // it is in order
	back   bool // it is in back
}

func newVerdicts() verdicts {
	return verdicts{by: map[uint64]*submitted{}, open: map[[32]byte][]uint64{}}
}

func (v *verdicts) submitted(seq uint64, side wire.Side) error {
	if s := v.by[seq]; s != nil {
		if s.side != side {
			return fmt.Errorf("line %d was submitted as that of another side: %w", seq, gate.ErrForbidden)
		}
		return nil
	}
	v.by[seq] = &submitted{side: side}
	return nil
}

// cancelled notes that a submission was taken back. Its verdict may be on the way
// still; but what has one is not pushed out by any number of those.
func (v *verdicts) cancelled(seq uint64) {
	s := v.by[seq]
	if s == nil || s.over || s.back {
		return
	}
	s.back = true
	if v.back = append(v.back, seq); len(v.back) > remembered {
		old := v.back[0]
		v.back = v.back[1:]
		if s := v.by[old]; s != nil && !s.over {
			delete(v.by, old)
		}
	}
}

// over notes that nothing new is to be expected of a submission.
func (v *verdicts) over(seq uint64) {
	s := v.by[seq]
	if s == nil || s.over {
		return
	}
	s.over = true
	if v.order = append(v.order, seq); len(v.order) > remembered {
		old := v.order[0]
		v.order = v.order[1:]
		v.revoke(old, v.by[old])
		delete(v.by, old)
	}
}

// verdict notes what may be written by its word. A later word on the same
// submission stands in the place of an earlier one, unless that was made use of.
func (v *verdicts) verdict(w gate.Verdict) {
	s := v.by[w.Seq]
	if s == nil || w.Move == gate.Ask {
		return
	}
	defer v.over(w.Seq)
	if s.side != wire.FromAgent || s.used {
		return
	}
	v.revoke(w.Seq, s)
	if w.Move == gate.Forward {
		s.digest, s.let = sha256.Sum256(w.Line), true
		v.open[s.digest] = append(v.open[s.digest], w.Seq)
	}
}

func (v *verdicts) revoke(seq uint64, s *submitted) {
	if !s.let {
		return
	}
	s.let = false
	seqs := slices.DeleteFunc(v.open[s.digest], func(other uint64) bool { return other == seq })
	if v.open[s.digest] = seqs; len(seqs) == 0 {
		delete(v.open, s.digest)
	}
}

// permit reports why a line may not be written, nil when it may be; a verdict that
// let it through is used up.
func (v *verdicts) permit(line []byte) error {
	if bytes.IndexByte(line, '\n') >= 0 {
		return fmt.Errorf("what came for the server is more than one line: %w", gate.ErrForbidden)
	}
	var e wire.Envelope
	if err := wire.Read(line, wire.FromAgent, &e); err != nil {
		return fmt.Errorf("a line for the server is no message (%w): %w", err, gate.ErrForbidden)
	}
	judged, err := needsVerdict(&e, line)
	if err != nil {
		return fmt.Errorf("a line for the server may not cross (%w): %w", err, gate.ErrForbidden)
	}
	if !judged {
		return nil
	}
	digest := sha256.Sum256(line)
	seqs := v.open[digest]
	if len(seqs) == 0 {
		return fmt.Errorf("a line for the server (%s, method %q) that no verdict let through: %w", e.Kind, e.Method, gate.ErrForbidden)
	}
	s := v.by[seqs[0]]
	s.used = true
	v.revoke(seqs[0], s)
	return nil
}

// needsVerdict reports whether a message of an agent may be written on only when
// it was judged, by the rules that shims go by. The error says why it may not be
// at all.
func needsVerdict(e *wire.Envelope, line []byte) (bool, error) {
	switch e.Kind {
	case wire.Result, wire.Error:
		if !e.ID.Present() {
			return false, fmt.Errorf("it answers nothing")
		}
		return mcp.Asks(line, e), nil
	}
	if refusal := mcp.Check(wire.FromAgent, e, line); refusal != nil {
		return false, refusal
	}
	rule := mcp.Lookup(wire.FromAgent, e)
	if rule.Treatment == mcp.Refuse {
		return false, fmt.Errorf("an agent does not send %s", e.Method)
	}
	if e.Kind == wire.Request {
		return rule.Treatment == mcp.Judge || !mcp.KnownRevision(e, line), nil
	}
	return rule.Treatment != mcp.Pass, nil
}
