package api

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// hear handles a line to be judged, or the word on one, and what was said with it.
// What that leads to goes down together, but a few at a time: the shim goes on with
// those while the others are judged.
func hear(ctx context.Context, a *gate.Attachment, up *pb.Up, out *outbox, shared *wayOf) error {
	more := up.GetMore()
	if len(more) > maxMore {
		return fmt.Errorf("%d messages in one; %d are the most: %w", len(more), maxMore, gate.ErrInvalid)
	}
	var room [8]*pb.Observe
	over := room[:0]
	defer func() { // nobody waits for these, and the agent waits for what was flushed
		for _, o := range over {
			a.Outcome(ctx, o.GetCall(), outcomes[o.GetOutcome()])
		}
	}()
	out.cork()
	err := hearOne(ctx, a, up, out, shared, &over)
	begun := time.Now()
	for i := 0; i < len(more) && err == nil; i++ {
		if i%handful == handful-1 || time.Since(begun) > shortly {
			out.flush()
			out.cork()
			begun = time.Now()
		}
		if len(more[i].GetMore()) > 0 {
			err = fmt.Errorf("a message with more within another: %w", gate.ErrInvalid)
			break
		}
		err = hearOne(ctx, a, more[i], out, shared, &over)
	}
	out.flush()
	return err
}

const (
	maxMore = 64 // messages within one, beside the first
	handful = 16 // of them are answered together, at most

	// shortly is how long an answer waits for the next one to be found.
	shortly = time.Millisecond
)

// hearOne handles one message. Calls that have come to their end are added to over,
// and are still to be told.
func hearOne(ctx context.Context, a *gate.Attachment, up *pb.Up, out *outbox, shared *wayOf, over *[]*pb.Observe) error {
	switch m := up.GetMsg().(type) {
	case *pb.Up_Submit:
		s := submission(m.Submit)
		if err := shared.submitted(s); err != nil {
			return err
		}
		a.SubmitFor(ctx, s)
	case *pb.Up_Observe:
		if observe(ctx, a, m.Observe) {
			*over = append(*over, m.Observe)
		}
		if echo := m.Observe.GetEcho(); echo > 0 {
			out.heard(echo)
		}
	default:
		return fmt.Errorf("a message that is not said with others: %w", gate.ErrInvalid)
	}
	return nil
}

func submission(m *pb.Submit) gate.Submission {
	return gate.Submission{
		Seq: m.GetSeq(), Side: side(m.GetDirection()), Line: m.GetLine(),
		Answers: m.GetAnswers(), Call: m.GetCall(), Modern: m.GetModern(),
		Request: m.GetRequest(), About: m.GetAbout(),
	}
}

func side(d pb.Direction) wire.Side {
	if d == pb.Direction_DIRECTION_SERVER_TO_AGENT {
		return wire.FromServer
	}
	return wire.FromAgent
}

var outcomes = map[pb.Outcome]string{
	pb.Outcome_OUTCOME_OK:             "ok",
	pb.Outcome_OUTCOME_TOOL_ERROR:     "tool_error",
	pb.Outcome_OUTCOME_PROTOCOL_ERROR: "protocol_error",
	pb.Outcome_OUTCOME_CANCELLED:      "cancelled",
	pb.Outcome_OUTCOME_LOST:           "lost",
	pb.Outcome_OUTCOME_NOT_WRITTEN:    "not_written",
}

// maxCounts bounds how many counts a shim may tell at once.
const maxCounts = 256

// observe takes note of what a shim tells. What was said is in the memory when it
// returns, so that it counts for whatever the shim submits next. It reports whether a
// call has come to its end, whose outcome is still to be told.
func observe(ctx context.Context, a *gate.Attachment, m *pb.Observe) (over bool) {
	from := side(m.GetDirection())
	if m.GetRefused() != "" {
		a.Refused(ctx, from, m.GetRefused(), m.GetLine())
		return false
	}
	for _, c := range m.GetCounts()[:min(len(m.GetCounts()), maxCounts)] {
		a.Read(side(c.GetDirection()), c.GetMethod(), min(c.GetMessages(), math.MaxUint32))
	}
	if u := m.GetUnanswered(); u != nil {
		a.Unanswered(unanswered(u), int(u.GetMore()))
		return false
	}
	if len(m.GetLine()) > 0 || m.GetMissing() > 0 {
		a.Hear(from, m.GetMethod(), m.GetLine(), m.GetMissing())
	}
	if m.GetOutcome() != pb.Outcome_OUTCOME_UNSPECIFIED {
		a.Ended(m.GetCall(), outcomes[m.GetOutcome()])
		return true
	}
	if !m.GetUnrecorded() {
		a.Message(ctx, from, m.GetMethod(), m.GetLine())
	}
	return false
}

// maxUnanswered bounds the requests without an answer that a shim may tell of, and
// maxNamed what it tells of one, in bytes.
const (
	maxUnanswered = 1024
	maxNamed      = 128
)

func unanswered(m *pb.Unanswered) []gate.Unanswered {
	var all []gate.Unanswered
	now := time.Now()
	for _, r := range m.GetRequests()[:min(len(m.GetRequests()), maxUnanswered)] {
		method, id := r.GetMethod(), string(r.GetId())
		all = append(all, gate.Unanswered{
			Call: r.GetCall(), Side: side(r.GetDirection()), Method: method[:min(len(method), maxNamed)], ID: id[:min(len(id), maxNamed)],
			Since: now.Add(-max(0, r.GetOpen().AsDuration())),
		})
	}
	return all
}
