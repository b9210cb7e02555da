package relay

import (
	"context"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Judge decides about the lines of one session, and is told of those that pass without a
// decision. It is a [gate.Attachment].
type Judge interface {
	// SubmitFor judges one line, which must not be changed any more. The verdict goes to the
	// sink, before SubmitFor returns unless the line is held.
	SubmitFor(ctx context.Context, s gate.Submission)
	Cancel(seq uint64)
	Bind(sink func(gate.Verdict))
	DeliverTo(deliver func(line []byte))

	ObserveMessage(side wire.Side, method string, line []byte, missing uint64)
	RecordMessage(ctx context.Context, side wire.Side, method string, line []byte)
	Refused(ctx context.Context, side wire.Side, reason string, prefix []byte)
	CountMessages(side wire.Side, method string, n uint64)
	SetUnanswered(open []gate.Unanswered, more int)
	CloseCall(seq uint64, outcome string)
	RecordOutcome(ctx context.Context, seq uint64, outcome string)
	Profile() gate.Profile
}

var _ Judge = (*gate.Attachment)(nil)

// judging is a line on which a pump waits for a verdict. Verdicts on it belong to the pump
// until settled is called.
type judging struct {
	seq      uint64         // 0: the pump waits for none
	verdicts []gate.Verdict // the first may say that the line is held
}

// verdict receives a verdict. It is called with locks of the judge held and does not block.
func (s *Session) verdict(v gate.Verdict) {
	s.verdicts.Lock()
	defer s.verdicts.Unlock()
	if j := &s.judging[sideOf(v.Seq)]; j.seq == v.Seq {
		j.verdicts = append(j.verdicts, v)
		return
	}
	s.queueLateVerdicts(v)
}

// queueLateVerdicts passes verdicts on to applyVerdicts. s.verdicts must be held.
func (s *Session) queueLateVerdicts(v ...gate.Verdict) {
	s.lateVerdicts = append(s.lateVerdicts, v...)
	select {
	case s.verdictsCame <- struct{}{}:
	default: // already signalled
	}
}

// judge judges one line of side and returns the last verdict on it. Ask means that another one
// follows, and no move that there is none because ctx has ended. The caller must call settled
// when it has committed the result.
func (s *Session) judge(ctx context.Context, line gate.Submission) gate.Verdict {
	j := &s.judging[line.Side]
	s.verdicts.Lock()
	j.seq = line.Seq
	s.verdicts.Unlock()
	s.gate.SubmitFor(ctx, line)
	s.verdicts.Lock()
	defer s.verdicts.Unlock()
	if len(j.verdicts) == 0 { // nobody waits for it any more
		return gate.Verdict{Seq: line.Seq}
	}
	v := j.verdicts[len(j.verdicts)-1]
	j.clear()
	return v
}

// submission returns w in the form that the judge takes.
func (w *waiting) submission() gate.Submission {
	return gate.Submission{
		Seq: w.seq, Side: w.side, Line: w.line[:len(w.line):len(w.line)], Answers: w.answers, Call: w.call, Modern: w.modern, Request: w.request, About: w.about,
	}
}

// settled passes verdicts that came after the first one on to applyVerdicts.
func (s *Session) settled(side wire.Side) {
	s.verdicts.Lock()
	defer s.verdicts.Unlock()
	j := &s.judging[side]
	j.seq = 0
	if len(j.verdicts) > 0 {
		s.queueLateVerdicts(j.verdicts...)
		j.clear()
	}
}

// clear removes the verdicts and keeps their memory.
func (j *judging) clear() {
	clear(j.verdicts)
	j.verdicts = j.verdicts[:0]
}

// applyVerdicts applies verdicts on held lines until the session ends.
func (s *Session) applyVerdicts() {
	for {
		select {
		case <-s.verdictsCame:
		case <-s.ctx.Done():
			return
		}
		s.applyLate()
	}
}

func (s *Session) applyLate() {
	s.verdicts.Lock()
	verdicts := s.lateVerdicts
	s.lateVerdicts = nil
	s.verdicts.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range verdicts {
		w := s.state.waiting[v.Seq]
		switch {
		case v.Move == gate.Ask && w != nil:
			s.startReminder(w, v.Approval)
		case v.Move == gate.Ask:
		case w != nil:
			s.endReminder(w.seq)
			s.commit(append(s.consequences(w, v), &decided{w.seq})...)
		case v.Move == gate.Forward: // it was cancelled meanwhile
			s.commit(&ended{v.Seq, "not_written"})
		}
	}
	s.awaitAnswers()
	s.wakeWriters()
	s.noteChange()
	if len(s.state.out[fromAgent].items)+len(s.state.out[fromServer].items) == 0 {
		s.recordOutcomes()
	}
}

func other(side wire.Side) wire.Side { return 1 - side }
