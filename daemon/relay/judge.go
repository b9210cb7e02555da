package relay

import (
	"context"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Judge is what decides about the lines of one session, and takes note of those
// that pass undecided. It is a [gate.Attachment].
type Judge interface {
	// SubmitFor judges one line, which belongs to the judge from here on. The verdict
	// goes to the sink, before SubmitFor returns unless somebody is asked.
	SubmitFor(ctx context.Context, s gate.Submission)
	Cancel(seq uint64)
	Bind(sink func(gate.Verdict))
	DeliverTo(deliver func(line []byte))

	Hear(side wire.Side, method string, line []byte, missing uint64)
	Message(ctx context.Context, side wire.Side, method string, line []byte)
	Refused(ctx context.Context, side wire.Side, reason string, prefix []byte)
	Read(side wire.Side, method string, n uint64)
	Ended(seq uint64)
	Outcome(ctx context.Context, seq uint64, outcome string)
	Profile() gate.Profile
}

var _ Judge = (*gate.Attachment)(nil)

// judging is a line that a pump is having judged. The sink gives the verdict to it
// as long as the pump has not noted what becomes of the line.
type judging struct {
	seq      uint64
	verdicts []gate.Verdict // the first may be that somebody is asked
}

// verdict takes a verdict. It is called with locks of the judge held, and does not
// block.
func (s *Session) verdict(v gate.Verdict) {
	s.verdicts.Lock()
	defer s.verdicts.Unlock()
	if j := s.judging[sideOf(v.Seq)]; j != nil && j.seq == v.Seq {
		j.verdicts = append(j.verdicts, v)
		return
	}
	s.late = append(s.late, v)
	s.changed.Broadcast()
}

// judge has one line of side judged, and returns the verdict on it; Ask means that
// another one follows. The line is copied. The caller calls settled when it has
// noted what becomes of the line.
func (s *Session) judge(ctx context.Context, w *waiting) gate.Verdict {
	j := &judging{seq: w.seq}
	s.verdicts.Lock()
	s.judging[w.side] = j
	s.verdicts.Unlock()
	s.gate.SubmitFor(ctx, gate.Submission{
		Seq: w.seq, Side: w.side, Line: w.line, Answers: w.answers, Call: w.call, Modern: w.modern, Request: w.request, About: w.about,
	})
	s.verdicts.Lock()
	defer s.verdicts.Unlock()
	if len(j.verdicts) == 0 { // nobody waits for it any more: the session is ending
		return gate.Verdict{Seq: w.seq, Move: gate.Deny, Reason: "the session has ended"}
	}
	v := j.verdicts[0]
	j.verdicts = j.verdicts[1:]
	for v.Move == gate.Ask && len(j.verdicts) > 0 && j.verdicts[0].Move == gate.Ask {
		v, j.verdicts = j.verdicts[0], j.verdicts[1:]
	}
	return v
}

// settled hands the verdicts that came after the first one on to who decides about
// held lines.
func (s *Session) settled(side wire.Side) {
	s.verdicts.Lock()
	defer s.verdicts.Unlock()
	j := s.judging[side]
	s.judging[side] = nil
	if len(j.verdicts) > 0 {
		s.late = append(s.late, j.verdicts...)
		s.changed.Broadcast()
	}
}

func other(side wire.Side) wire.Side { return 1 - side }
