package extension_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// gated is a gate with the extensions of a fixture. It forwards everything except one forbidden
// word.
type gated struct {
	*gate.Attachment
	verdicts chan gate.Verdict
	gate.Approver

	mu     sync.Mutex // guards the fields below
	judged []string   // the arguments that the gate judged
}

func (g *gated) Rule(_ context.Context, c *gate.Call, _ []gate.Fact) (gate.Ruling, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.judged = append(g.judged, string(c.Arguments()))
	return gate.Ruling{Move: gate.Forward, Gate: "rule"}, nil
}
func (*gated) Visible(*gate.Call, string, string) bool    { return true }
func (*gated) Whom(*gate.Ruling)                          {}
func (*gated) Profile() gate.Profile                      { return gate.Production }
func (*gated) Digest() string                             { return "set" }
func (*gated) Of(context.Context, *gate.Call) []gate.Fact { return nil }
func (*gated) Observe(*gate.Observation)                  {}
func (*gated) Forwarded(*gate.Call)                       {}
func (*gated) Forget(string, string)                      {}

// gate returns a gate with the extensions of h.
func (h *fixture) gate() *gated {
	g := &gated{verdicts: make(chan gate.Verdict, 16)}
	judge := &gate.Gate{
		Policy: func() gate.Policy { return g }, Hooks: h.Registry, Facts: g, Approver: g, Recorder: &h.records, Logger: slog.New(slog.DiscardHandler),
	}
	g.Attachment = judge.Attach(context.Background(), gate.Shim{Attachment: "0123456789abcdef", Server: "files"}, nil)
	g.Bind(func(v gate.Verdict) {
		if v.Move != gate.Ask {
			g.verdicts <- v
		}
	})
	h.t.Cleanup(func() { g.Close(true) })
	return g
}

// submit returns the last verdict on a line.
func (g *gated) submit(s gate.Submission) gate.Verdict {
	g.Submit(s)
	return <-g.verdicts
}

// Whatever an extension does, no call passes without a verdict of the gate, and neither calls
// nor results pass that it had to see and did not judge.
func TestNothingPassesThoseThatMisbehave(t *testing.T) {
	for mode, want := range map[string]gate.Move{ // 0: either
		"good": gate.Forward, "modify": gate.Forward, "block": gate.Deny, "malformed": gate.Deny, "hang": gate.Deny, "crash": gate.Deny,
		"garbage": gate.Deny, "too-long": gate.Deny, "version": gate.Deny, "twice": 0, "flood": 0, "flood-host": 0,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.hurried = mode == "hang" || want == 0 // these may not answer
			h.start()
			h.install(fake.Extension{
				Name: "x", Modes: []string{mode}, Manifest: "hooks: {before: {tools: 'b_*'}, after: {tools: 'a_*'}}\nrestart: {first: 10ms, most: 50ms}\n",
			})
			g := h.gate()
			line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b_write","arguments":{"path":"/x"}}}`
			v := g.submit(gate.Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(line)})
			checkGated(t, mode, v, want, "Not executed. ")
			if v.Move == gate.Forward {
				var e wire.Envelope
				if err := wire.Read(v.Line, wire.FromAgent, &e); err != nil || !slices.Contains(g.judged, string(e.Arguments.Of(v.Line))) {
					t.Errorf("went on unjudged: %s; judged were %q (%v)", v.Line, g.judged, err)
				}
			}
			line = strings.Replace(line, "b_write", "a_write", 1)
			v = g.submit(gate.Submission{Seq: 2, Side: wire.FromAgent, Line: []byte(line)})
			if v.Move != gate.Forward || !v.Inspect || string(v.Line) != line {
				t.Fatalf("the call whose result it sees: %v, %s, inspect %v", v.Move, v.Reason, v.Inspect)
			}
			v = g.submit(gate.Submission{
				Seq: 3, Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`),
				Answers: "tools/call", Call: 2, Request: []byte(line), About: 2,
			})
			checkGated(t, mode, v, want, "Executed, but its result is withheld: ")
		})
	}
}

// checkGated checks the verdict on what an extension had to see.
func checkGated(t *testing.T, mode string, v gate.Verdict, want gate.Move, told string) {
	t.Helper()
	if want != 0 && v.Move != want {
		t.Errorf("%v, %s", v.Move, v.Reason)
	}
	if answer := string(v.Answer); v.Move == gate.Deny && (!strings.Contains(answer, told) || !strings.Contains(strings.ToLower(answer), "extension")) {
		t.Errorf("the agent is told %s", answer)
	}
	if v.Move == gate.Forward && strings.Contains(string(v.Line), `"seen_by":"x"`) != (mode == "modify") {
		t.Errorf("it goes on as %s", v.Line)
	}
}
