package approval

import (
	"os"
	"regexp"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What makes a call dangerous comes first, in words; a detail of the daemon's says more than ours, and what
// is unknown is shown as it is.
func TestDanger(t *testing.T) {
	for _, test := range []struct {
		facts []string
		want  display.Safe
	}{
		{nil, ""},
		{[]string{"sends", "secret (content.0)"}, "secret: carries what looks like a key, token or password (content.0); sends: sends something"},
		{[]string{"outside (path)", "destroys: deletes 3 files (command)"}, "destroys: deletes 3 files (command); outside: leads out of the project (path)"},
		{[]string{"brand-new: \x1b[2J"}, `brand-new: \u{1b}[2J`},
		{[]string{"secretive (x)"}, "secretive (x)"},
	} {
		if got := Danger(test.facts); got != test.want {
			t.Errorf("%q: %q, want %q", test.facts, got, test.want)
		}
	}
}

// Each fact of docs/facts.md has words, and no other.
func TestFactsHaveWords(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/facts.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"undo": true, "no-undo": true} // they are found when a rule asks
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			listed[name[1]] = true
		}
	}
	for name := range listed {
		if factWords[name] == "" {
			t.Errorf("%s has no words", name)
		}
	}
	for name := range factWords {
		if !listed[name] {
			t.Errorf("%s is no fact", name)
		}
	}
}

// A question whose agent was told to repeat the call has moved on, unless an equal call waits.
func TestMovedOnWaitsNoLonger(t *testing.T) {
	q := &pb.Approval{State: pb.ApprovalState_APPROVAL_STATE_OPEN}
	if MovedOn(q) {
		t.Error("a call that waits has moved on")
	}
	q.Parked = true
	if !MovedOn(q) {
		t.Error("a parked call still waits")
	}
	if q.Waiting = 1; MovedOn(q) {
		t.Error("an equal call waits")
	}
}
