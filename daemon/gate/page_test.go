package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The page of an elicitation is checked in whatever form it is given.
func TestWhereAnElicitationLeads(t *testing.T) {
	for params, why := range map[string]string{
		`{"mode":"form","message":"m"}`: "",
		`{"message":"m"}`:               "",
		`{"mode":"url","url":"https://example.com","message":"m"}`:                  "",
		`{"url":"https://example.com","message":"m"}`:                               "",
		`{"mode":"url","message":"m"}`:                                              "its address is missing",
		`{"mode":"other","message":"m"}`:                                            "its address is missing",
		`{"mode":1,"message":"m"}`:                                                  "its address is missing",
		`{"mode":"form","url":"http://example.com","message":"m"}`:                  "to another machine",
		`{"url":"http://example.com","message":"m"}`:                                "to another machine",
		`{"mode":"url","url":1,"message":"m"}`:                                      "is not a string",
		`{"mode":"url","url":["https://example.com"],"message":"m"}`:                "is not a string",
		`{"mode":"url","url":"https://example.com","url":"http://a.b","message":1}`: "given twice",
		`{"mode":"url","url":"https://a.b","u\u0072l":"http://a.b","message":1}`:    "given twice",
	} {
		c := &Call{Message: Message{Method: "elicitation/create", Side: wire.FromServer, Line: []byte(params)}}
		c.Envelope.Params = wire.Span{End: len(c.Line)}
		c.Envelope.Mode, _ = wire.Member(c.Line, c.Envelope.Params, "mode")
		got := c.page(Ruling{Move: Forward, Redact: []string{"token"}})
		if (got.Move == Deny) != (why != "") || !strings.Contains(got.Reason, why) || len(got.Redact) != 1 {
			t.Errorf("%s: got %v %s, hidden %q", params, got.Move, got.Reason, got.Redact)
		}
	}
}

// A ruling that comes too late decides nothing, except for a rule that denies anyway. What the
// rules hide stays hidden.
func TestWhatIsJudgedTooLate(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	for move, want := range map[Move]string{Forward: "too late", Ask: "too late", Deny: "not here"} {
		h := newFixture()
		h.ruling = Ruling{Move: move, Gate: "rule", Reason: "not here", Redact: []string{"token"}}
		c := beginCall(t, h, "s", "a", 1, "tools/call", `{"name":"put"}`)
		if _, r := h.gate.rule(ctx, h, c); r.Move != Deny || r.Reason != want || len(r.Redact) != 1 {
			t.Errorf("%v: got %v %s, hidden %q", move, r.Move, r.Reason, r.Redact)
		}
	}
	// The facts for hooks have the same time limit, and a list that nobody waits for has no
	// verdict.
	synctest.Test(t, func(t *testing.T) {
		h := newFixture()
		h.gate.Facts = endlessFacts{h}
		if facts := h.gate.factsOf(t.Context(), &Call{}); len(facts) > 0 {
			t.Errorf("got %v", facts)
		}
	})
	h := newFixture()
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	c, err := h.gate.Read(shimX, Submission{Seq: 1, Side: wire.FromServer, Answers: "tools/list", Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"}]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if v := h.gate.result(ctx, a, c); v.Move != 0 || h.verdicts() != "" {
		t.Errorf("got %v %s, records %s", v.Move, v.Reason, h.verdicts())
	}
}

// An approval of an error with an ask is bound to everything in the error.
func TestDigestOfAnError(t *testing.T) {
	digest := func(line string) [32]byte {
		c, err := (&Gate{}).Read(shimX, Submission{Seq: 1, Side: wire.FromServer, Answers: "tools/call", Line: []byte(line)})
		if err != nil {
			t.Fatal(err)
		}
		return c.Digest()
	}
	const line = `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://example.com","message":"m"}]}}}`
	if digest(line) == digest(strings.Replace(line, "example.com", "example.org", 1)) {
		t.Error("a yes to one page is one to another")
	}
}
