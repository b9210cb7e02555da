package gate

import (
	"errors"
	"testing"
)

// The question of a login names the server and its address, goes to whom a question without a rule goes, and is
// recorded. One that can't be recorded is withdrawn.
func TestAskLogin(t *testing.T) {
	of := Case{Session: "s-1", Agent: "claude-code", Server: "github"}
	ask := func(h *fixture) (Held, error) {
		return h.gate.AskLogin(t.Context(), of, `https://mcp.example/"mcp"`, "github wants a login")
	}
	h := newFixture()
	held, err := ask(h)
	if err != nil {
		t.Fatal(err)
	}
	q := h.question
	if c := q.Call; c.Method != MethodLogin || c.Server != "github" || c.Agent != "claude-code" || c.Session != "" || string(c.Params()) != `{"address":"https://mcp.example/\"mcp\""}` {
		t.Errorf("asked about %+v, %s", c.Case, c.Params())
	}
	if q.Ruling.Workflow != "whoever" || q.Ruling.Reason != "github wants a login" {
		t.Errorf("asked by %+v", q.Ruling)
	}
	if len(h.records) != 1 || h.records[0].Verdict != "hold" || h.records[0].Approval != held.ID() || h.records[0].Session != "s-1" {
		t.Errorf("recorded %+v", h.records)
	}
	subject := q.Subject
	if _, err := ask(h); err != nil || h.question.Subject != subject {
		t.Errorf("the same question has another subject: %v", err)
	}
	if h.question.Call.Seq == q.Call.Seq {
		t.Error("two questions have one number, so that the second would get the answer of the first")
	}

	h = newFixture()
	h.full = errors.New("no space")
	if _, err := ask(h); !errors.Is(err, ErrUnrecorded) {
		t.Errorf("without a record: %v", err)
	}
}
