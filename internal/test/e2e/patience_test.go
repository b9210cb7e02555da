package e2e

import (
	"strings"
	"testing"
	"time"
)

// The gate is told that a client gives a call up after five seconds. A decision that
// comes after eight is not lost: the client was told to repeat the call, and the
// repetition is let through, once, also by another daemon than was asked. The client, of
// the official SDK, waits longer here, since a busy machine may be late with the answer.
func TestDecisionAfterTheClientsTime(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(askBeforeWriting)
	one := h.fakeServer("one")
	one.Env["THOUGHTGATE_PATIENCE"] = "5s"
	config := h.servers(0o600, map[string]entry{"one": one})
	h.startDaemon()
	a := h.wrap(config)
	call := order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": "late", "text": "and not lost"}, Patience: 30 * time.Second} // less than the gate would wait if it were not told
	begun := time.Now()
	_, result := a.begin(call)
	first := a.await(result, "the first call")
	if !first.IsError || !strings.Contains(first.Text, "Waiting for a person (A-1). Repeat the same call") {
		t.Fatalf("after %v: %+v", time.Since(begun), first)
	}
	h.stopDaemon()
	h.startDaemon()
	time.Sleep(time.Until(begun.Add(8 * time.Second))) // the time that is promised is the clock's
	h.tgctl("approvals", "approve", h.question().ID)
	var second reply
	if !eventually(func() bool { // the shim comes back to the daemon when it notices
		_, again := a.begin(call)
		second = a.await(again, "the repetition")
		return !strings.Contains(second.Text, "gate unavailable") && second.Error == ""
	}, patience) || second.IsError {
		t.Errorf("repeated: %+v", second)
	}
	_, result = a.begin(call)
	if third := a.await(result, "one too many"); !third.IsError || !strings.Contains(third.Text, "A-2") {
		t.Errorf("once more: %+v", third)
	}
	a.leave()
	if n := count(h.log(), "outcome", "write_note", "ok"); n != 1 {
		t.Errorf("%d calls have run, want one", n)
	}
}

// A call of such a client that is held goes on waiting while the daemon is
// replaced, and is answered by the next one.
func TestHeldCallSurvivesTheDaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(askBeforeWriting)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	_, result := a.begin(order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": "x", "text": "y"}})
	before := h.question()
	h.killDaemon()
	h.startDaemon()
	after := h.question()
	if after.ID != before.ID {
		t.Errorf("the question %s has become %s", before.ID, after.ID)
	}
	if !eventually(func() bool { return strings.Contains(h.tgctl("status"), "1 server governed") }, patience) {
		t.Error("the shim does not come back")
	}
	h.tgctl("approvals", "approve", after.ID)
	if r := a.await(result, "the held call"); r.IsError || r.Error != "" {
		t.Errorf("approved after a restart: %+v", r)
	}
	a.leave()
	if n := count(h.log(), "outcome", "write_note", "ok"); n != 1 {
		t.Errorf("%d calls have run, want one", n)
	}
}
