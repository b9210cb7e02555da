package approval

import (
	"errors"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// colleagues can always be asked, and sign one word.
type colleagues struct{}

func (colleagues) Able() error { return nil }

func (colleagues) Unreachable() string { return "" }

func (colleagues) Statement(*Question, [32]byte) (statement, shown []byte, err error) {
	return []byte("statement"), []byte("shown"), nil
}

// A decision counts for the question on which it was made, and only where the workflow names colleagues.
func TestAColleagueMustBeNamed(t *testing.T) {
	h := newFixture(t, Options{Colleagues: colleagues{}})
	defer func() { h.close() }()
	named, unnamed := asked("a", 1), asked("b", 2)
	named.Ruling.Surfaces = []string{"terminal", gate.SurfaceColleague}
	for _, q := range []*gate.Question{named, unnamed} {
		if _, err := h.q.Ask(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	// Even if something has stored a statement with a question that is not for colleagues.
	h.q.open["A-2"].q.Statement = []byte("statement")
	yes := gate.Signed{Statement: []byte("statement"), Approve: true, Approver: "ann", Key: "SHA256:x"}
	for name, c := range map[string]struct {
		change func(*gate.Signed)
		err    error
	}{
		"not for colleagues": {func(s *gate.Signed) { s.ID = "A-2" }, gate.ErrForbidden},
		"another statement":  {func(s *gate.Signed) { s.ID, s.Statement = "A-1", []byte("other") }, gate.ErrChanged},
		"no statement":       {func(s *gate.Signed) { s.ID, s.Statement = "A-1", nil }, gate.ErrChanged},
		"no question":        {func(s *gate.Signed) { s.ID = "A-9" }, gate.ErrNotFound},
	} {
		s := yes
		c.change(&s)
		if got, err := h.q.DecideSigned(ctx, s); !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	h.restart() // what was signed for counts for the next daemon, too
	yes.ID = "A-1"
	got, err := h.q.DecideSigned(ctx, yes)
	if err != nil || got.State != store.StateApproved || got.Proved != gate.ProvedAccount {
		t.Errorf("%+v, %v", got, err)
	}
	stored, err := h.db.Question(ctx, "A-1")
	if err != nil || string(stored.Statement) != "statement" || stored.Shown != nil || stored.Proved != gate.ProvedAccount {
		t.Errorf("stored %+v, %v", stored, err)
	}
}
