package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var ownTools = Shim{Attachment: "0123456789abcdef", Server: agenthook.Server, Agent: "claude-code", Host: true}

const shellCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"shell","arguments":{"command":"rm -r notes"}}}`

// natively returns a fixture whose policy leaves a question to Claude Code, and the submission of a
// call about which that can ask.
func natively() (*fixture, Submission) {
	h := newFixture()
	h.ruling = Ruling{Move: Ask, Gate: "rule", Rule: "r", Workflow: "default", Reason: "it destroys 2 files", Natively: []string{"claude-code"}}
	h.facts = []Fact{{Name: FactDestroys, Detail: "2 files"}, {Name: FactSecret, Detail: "a token\x1b[2J"}}
	return h, Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(shellCall), CanAsk: true}
}

// A question is left to the agent only if nothing depends on who answers it.
func TestAsksNatively(t *testing.T) {
	question := "ThoughtGate asks: it destroys 2 files\nsecret: a token"
	for name, tt := range map[string]struct {
		change func(*fixture, *Submission)
		move   Move
		asks   bool
	}{
		"as it should be":                     {func(*fixture, *Submission) {}, Forward, true},
		"the agent can't ask":                 {func(_ *fixture, s *Submission) { s.CanAsk = false }, Ask, false},
		"another agent may":                   {func(h *fixture, _ *Submission) { h.ruling.Natively = []string{"gemini"} }, Ask, false},
		"the workflow is particular":          {func(h *fixture, _ *Submission) { h.ruling.Natively = nil }, Ask, false},
		"presence is required":                {func(h *fixture, _ *Submission) { h.ruling.Level, h.gate.Presence = LevelPresence, enrolled(true) }, Ask, false},
		"presence for what is of high risk":   {func(h *fixture, _ *Submission) { h.gate.Presence = enrolled(true) }, Ask, false},
		"presence is required, there is none": {func(h *fixture, _ *Submission) { h.ruling.Level = LevelPresence }, Deny, false},
		"our own files":                       {func(h *fixture, _ *Submission) { h.facts = append(h.facts, Fact{Name: FactOurs, Detail: "x"}) }, Ask, false},
		"an extension changed it": {func(h *fixture, _ *Submission) {
			h.gate.Hooks = &native{Hooked{Move: Forward, Changed: []byte(`{"command":"rm -r a"}`), By: []string{"e"}}}
		}, Ask, false},
		"an extension has seen it": {func(h *fixture, _ *Submission) { h.gate.Hooks = &native{Hooked{Move: Forward}} }, Forward, true},
		"a grant covers it":        {func(h *fixture, _ *Submission) { h.gate.Grants = granting{} }, Forward, false},
		"it is denied":             {func(h *fixture, _ *Submission) { h.ruling.Move = Deny }, Deny, false},
		"it is forwarded":          {func(h *fixture, _ *Submission) { h.ruling.Move = Forward }, Forward, false},
		"nobody can be asked":      {func(h *fixture, _ *Submission) { h.ruling.Unable = "no" }, Deny, false},
		"it can't be recorded":     {func(h *fixture, _ *Submission) { h.full = errors.New("disk full") }, Deny, false},
		"development":              {func(h *fixture, _ *Submission) { h.profile = Development }, Forward, false},
		"a canary": {func(_ *fixture, s *Submission) {
			s.Line = []byte(strings.Replace(shellCall, "rm -r notes", record.CanaryCommand, 1))
		}, Deny, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, s := natively()
			tt.change(h, &s)
			a := h.gate.Attach(context.Background(), ownTools, nil)
			verdicts := collect(a)
			a.Submit(s)
			v := <-verdicts
			for v.Reason == hookReason {
				v = <-verdicts
			}
			a.Close(true)
			if v.Move != tt.move || (v.Question != "") != tt.asks || tt.asks && !strings.HasPrefix(v.Question, question) {
				t.Errorf("%v, asks %q; want %v, asks: %v", v.Move, v.Question, tt.move, tt.asks)
			}
			if strings.ContainsRune(v.Question, '\x1b') {
				t.Errorf("what an agent wrote reaches a terminal as it is: %q", v.Question)
			}
			asks := slices.ContainsFunc(h.records, func(r *record.Record) bool { return r.Surface == record.SurfaceHost })
			if forwarded := slices.Contains(h.noted, "forwarded shell"); asks != tt.asks || forwarded == (tt.asks || v.Move != Forward) {
				t.Errorf("the record says that the agent asks: %v; the call counts as forwarded: %v", asks, forwarded)
			}
			if tt.asks && h.asked > 0 {
				t.Error("a person is asked as well")
			}
		})
	}
}

// What the agent reports is on record as its claim, and that it reported nothing is, too.
func TestNativeOutcome(t *testing.T) {
	for outcome, want := range map[string]string{
		"":           "unknown: nothing is known of whether the user of claude-code allowed it",
		"ok":         "ok: claude-code says that its user allowed it",
		"tool_error": "tool_error: claude-code says that its user allowed it",
	} {
		h, s := natively()
		a := h.gate.Attach(context.Background(), ownTools, nil)
		verdicts := collect(a)
		a.Submit(s)
		if v := <-verdicts; v.Question == "" {
			t.Fatalf("not asked: %v %s", v.Move, v.Reason)
		}
		if outcome != "" {
			a.RecordOutcome(t.Context(), 1, outcome)
		}
		a.Close(true)
		call, last := h.records[0], h.records[len(h.records)-1]
		if call.Verdict != "forward" || call.Gate != "ask" || call.Surface != record.SurfaceHost || call.Approval != "" || call.Decider != "" || call.Level != "" ||
			call.Reason != "claude-code is told to ask its own user: it destroys 2 files" {
			t.Errorf("the call is on record as %+v", call)
		}
		if len(h.records) != 2 || last.Kind != record.KindOutcome || last.Surface != record.SurfaceHost || last.Verdict+": "+last.Reason != want {
			t.Errorf("the outcome is on record as %+v, want %s", last, want)
		}
	}
}

// What is destroyed is copied before the agent asks, and no copy means no call.
func TestNativeCopy(t *testing.T) {
	for _, failed := range []error{nil, errors.New("disk full")} {
		h, s := natively()
		h.ruling.Undo = true
		copies := &keeping{err: failed}
		h.gate.Copies, h.gate.Facts = copies, losing{h}
		a := h.gate.Attach(context.Background(), ownTools, nil)
		verdicts := collect(a)
		a.Submit(s)
		v := <-verdicts
		a.Close(true)
		if copies.id != "c-01234567-1" || (v.Move == Forward) != (failed == nil) || failed == nil && !strings.Contains(v.Question, "a copy of 2 files will be kept") {
			t.Errorf("%v: kept as %q: %v %s, asks %q", failed, copies.id, v.Move, v.Reason, v.Question)
		}
		if r := h.records[0]; failed != nil && r.Surface != "" {
			t.Errorf("denied, and on record as %+v", r)
		}
	}
}

type native struct{ says Hooked }

func (n *native) Wants(_ *Call, after bool) bool              { return !after }
func (n *native) Who(*Call, bool) []string                    { return []string{"e"} }
func (n *native) Revision() uint64                            { return 1 }
func (n *native) Before(context.Context, *Call) Hooked        { return n.says }
func (n *native) After(context.Context, *Call, []byte) Hooked { return Hooked{Move: Forward} }

type granting struct{}

func (granting) Use(context.Context, *Question) (*Grant, error) {
	return &Grant{ID: "G-1", Approval: "A-1"}, nil
}

type losing struct{ *fixture }

func (l losing) Of(ctx context.Context, c *Call) []Fact {
	c.Loses = &Loss{Root: "/w", Names: []string{"a", "b"}}
	return slices.Clone(l.fixture.Of(ctx, c))
}

type keeping struct {
	id  string
	err error
}

func (k *keeping) Check(context.Context, *Loss) (Copied, error) { return Copied{Files: 2}, nil }
func (k *keeping) Keep(_ context.Context, id string, _ *Loss, _ bool) error {
	k.id = id
	return k.err
}
