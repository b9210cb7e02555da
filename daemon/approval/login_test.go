package approval

import (
	"errors"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// askLogin asks whether a person logs in.
func (h *fixture) askLogin(seq uint64) gate.Held {
	h.t.Helper()
	q := asked("login", 1)
	q.Call.Seq, q.Call.Method, q.Call.Session = seq, gate.MethodLogin, ""
	held, err := h.q.Ask(ctx, q)
	if err != nil {
		h.t.Fatal(err)
	}
	return held
}

func (h *fixture) subject(id string) []byte {
	h.t.Helper()
	q, err := h.q.Get(ctx, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return q.Subject[:]
}

// Nobody can approve a login, whatever they prove; it is answered by the login, once, and anybody may deny it.
func TestLoginIsNotApproved(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	held := h.askLogin(7)
	_, err := h.q.Decide(ctx, Decision{ID: held.ID(), Subject: h.subject(held.ID()), Approve: true, Decider: "ana", Surface: "terminal"})
	if !errors.Is(err, gate.ErrInvalid) || !strings.Contains(err.Error(), "tgctl login db") {
		t.Errorf("an approval: %v", err)
	}
	if err := h.q.LoggedIn(ctx, held.ID(), "ana", "terminal"); err != nil {
		t.Fatal(err)
	}
	answer, err := held.Wait(ctx)
	if err != nil || !answer.Approved || answer.Decider != "ana" {
		t.Errorf("after the login: %+v, %v", answer, err)
	}
	next := h.askLogin(8)
	if next.ID() == held.ID() {
		t.Error("one login answers the next question")
	}
	if err := h.q.LoggedIn(ctx, held.ID(), "ana", "terminal"); err != nil {
		t.Error(err)
	}
	if _, err := h.q.Decide(ctx, Decision{ID: next.ID(), Subject: h.subject(next.ID()), Note: "no", Decider: "ana", Surface: "terminal"}); err != nil {
		t.Fatal(err)
	}
	if answer, err := next.Wait(ctx); err != nil || answer.Approved || answer.Note != "no" {
		t.Errorf("after a denial: %+v, %v", answer, err)
	}
	if got := h.rec.verdicts(); strings.Join(got, ", ") != "A-1 approved, A-2 rejected" {
		t.Errorf("recorded %q", got)
	}
}

// A login answers no question about a call.
func TestLoginAnswersNoCall(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	held, err := h.q.Ask(ctx, asked("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.q.LoggedIn(ctx, held.ID(), "ana", "terminal"); err != nil {
		t.Fatal(err)
	}
	if q, err := h.q.Get(ctx, held.ID()); err != nil || q.State != store.StateOpen {
		t.Errorf("the question is %v, %v", q.State, err)
	}
}

// A question that nobody needs any more is withdrawn, and no other. The question of a daemon that has ended is
// joined by the next one that needs the login.
func TestLoginQuestionEnds(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	held := h.askLogin(7)
	call, err := h.q.Ask(ctx, asked("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	h.restart()
	again := h.askLogin(9)
	if again.ID() != held.ID() {
		t.Errorf("the next daemon asks %s, not %s", again.ID(), held.ID())
	}
	h.q.WithdrawQuestion(again.ID(), "the sessions have ended")
	if answer, err := again.Wait(ctx); err != nil || answer.Approved || answer.State != string(store.StateWithdrawn) {
		t.Errorf("withdrawn: %+v, %v", answer, err)
	}
	if q, err := h.q.Get(ctx, call.ID()); err != nil || q.State != store.StateOpen {
		t.Errorf("the other question is %v, %v", q.State, err)
	}
}
