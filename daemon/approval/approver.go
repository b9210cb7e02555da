package approval

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// surfaceSlack is where everybody who reads a channel can press a button.
const surfaceSlack = "slack"

// approverLongest is how long the id of an approver may be, in bytes.
const approverLongest = 64

// named checks that the approver of d is one of those who answer what asked asks,
// by the configuration that is in force now: who was taken out of it no longer
// answers. Yes or no, a refusal is written down.
func (q *Queue) named(ctx context.Context, asked *Question, d *Decision) error {
	if d.Surface != surfaceSlack {
		return fmt.Errorf("an approver named on %q: only Slack has any: %w", d.Surface, gate.ErrInvalid)
	}
	if len(d.Approver) > approverLongest {
		return fmt.Errorf("the approver's id has %d bytes, and %d are the most: %w", len(d.Approver), approverLongest, gate.ErrInvalid)
	}
	if d.Approver != "" && q.o.Approves != nil && q.o.Approves(asked.Workflow, d.Approver) {
		return nil
	}
	why := fmt.Sprintf("%q is none of those who answer on Slack what %s asks", d.Approver, asked.Workflow)
	rec := recordOf(asked, record.KindDenied)
	rec.Verdict, rec.Reason = "deny", "an answer to "+asked.ID+": "+why
	rec.Decider, rec.Surface, rec.Approver = d.Decider, d.Surface, d.Approver
	if err := q.o.Recorder.Record(ctx, rec, nil, nil); err != nil {
		q.o.Logger.Error("record a refused answer", "component", "approval", "approval", asked.ID, "err", err)
	}
	return fmt.Errorf("%s: %w", why, gate.ErrForbidden)
}
