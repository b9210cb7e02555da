package approval

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// On Slack only the named approvers can approve or deny, and every other attempt is
// recorded.
func TestApproversOnSlack(t *testing.T) {
	approvers := []string{"U1"}
	h := newFixture(t, Options{Approves: func(workflow, user string) bool { return workflow == "ops" && slices.Contains(approvers, user) }})
	defer h.close()
	q := asked("a", 1)
	q.Ruling.Workflow, q.Ruling.Surfaces = "ops", []string{"terminal", "slack"}
	held, err := h.q.Ask(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	decide := func(approve bool, surface, approver string) error {
		_, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: q.Subject[:], Approve: approve, Surface: surface, Approver: approver})
		return err
	}
	for _, test := range []struct {
		name              string
		approve           bool
		surface, approver string
		want              error
	}{
		{"a yes of somebody else", true, "slack", "U2", gate.ErrForbidden},
		{"a no of somebody else", false, "slack", "U2", gate.ErrForbidden},
		{"of nobody", true, "slack", "", gate.ErrForbidden},
		{"of somebody with a long id", true, "slack", strings.Repeat("U", 65), gate.ErrInvalid},
		{"an approver in a terminal", true, "terminal", "U1", gate.ErrInvalid},
	} {
		if err := decide(test.approve, test.surface, test.approver); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	var refused []string
	for _, rec := range h.rec.records {
		if rec.Kind == record.KindDenied && rec.Approval == "A-1" && rec.Surface == "slack" {
			refused = append(refused, rec.Approver)
		}
	}
	if !slices.Equal(refused, []string{"U2", "U2", ""}) {
		t.Errorf("refused on record: %q", refused)
	}
	if err := decide(true, "slack", "U1"); err != nil {
		t.Fatal(err)
	}
	if a := wait(t, held); !a.Approved {
		t.Errorf("got %+v", a)
	}
	h.restart()
	ended, err := h.q.Get(ctx, "A-1")
	if err != nil || ended.Approver != "U1" || ended.Surface != "slack" {
		t.Errorf("kept: approver %q on %q, %v", ended.Approver, ended.Surface, err)
	}
	if last := h.rec.records[len(h.rec.records)-1]; last.Approver != "U1" || last.Verdict != "approved" {
		t.Errorf("the last record is %+v", last)
	}
}

// A user who was removed from the configuration can't answer earlier questions.
func TestAnApproverWhoIsNoneAnyMore(t *testing.T) {
	approvers := []string{"U1", "U2"}
	h := newFixture(t, Options{Approves: func(_, user string) bool { return slices.Contains(approvers, user) }})
	defer h.close()
	q := asked("a", 1)
	if _, err := h.q.Ask(ctx, q); err != nil {
		t.Fatal(err)
	}
	approvers = approvers[:1]
	d := Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Surface: "slack", Approver: "U2"}
	if _, err := h.q.Decide(ctx, d); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("got %v", err)
	}
}
