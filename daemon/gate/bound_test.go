package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// An approval is for one call, with everything that decides what the call does, and for the
// content of the rule that asks and of the workflow that says whom.
func TestWhatAYesIsBoundTo(t *testing.T) {
	fresh := func() (*Call, Basis) {
		c := &Call{
			Message: Message{Method: "tools/call", Side: wire.FromAgent, Line: []byte(aCall)},
			Case:    Case{Server: "files", Launch: "l", Cwd: "/p", Definition: [32]byte{1}},
		}
		if err := wire.Read(c.Line, c.Side, &c.Envelope); err != nil {
			t.Fatal(err)
		}
		return c, Basis{Rule: [32]byte{2}, Workflow: [32]byte{3}}
	}
	c, basis := fresh()
	was := c.subject(basis)
	for name, change := range map[string]func(*Call, *Basis){
		"the server":        func(c *Call, _ *Basis) { c.Server = "other" },
		"the launch":        func(c *Call, _ *Basis) { c.Launch = "m" },
		"the folder":        func(c *Call, _ *Basis) { c.Cwd = "/q" },
		"no folder":         func(c *Call, _ *Basis) { c.Cwd = "" },
		"the definition":    func(c *Call, _ *Basis) { c.Definition[31]++ },
		"the method":        func(c *Call, _ *Basis) { c.Method = "prompts/get" },
		"the arguments":     func(c *Call, _ *Basis) { c.Line = []byte(strings.Replace(aCall, "/x", "/y", 1)) },
		"the rule":          func(_ *Call, b *Basis) { b.Rule[0]++ },
		"the workflow":      func(_ *Call, b *Basis) { b.Workflow[0]++ },
		"both, swapped":     func(_ *Call, b *Basis) { b.Rule, b.Workflow = b.Workflow, b.Rule },
		"where a part ends": func(c *Call, _ *Basis) { c.Server, c.Launch = "filesl", "" },
		"where another does": func(c *Call, _ *Basis) {
			c.Launch, c.Cwd = "l/", "p"
		},
	} {
		c, basis := fresh()
		change(c, &basis)
		if c.subject(basis) == was {
			t.Errorf("%s: the yes is good for it still", name)
		}
	}
}

// Any change between the question and the answer makes the approval void, with the agent's
// arguments and with those of a person.
func TestAChangeBetweenQuestionAndAnswer(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(*fixture, *shelf)
		change func(*fixture, *shelf)
		edit   string
		move   Move
		reason string
	}{
		{name: "nothing", change: func(*fixture, *shelf) {}, move: Forward},
		{name: "nothing, with other arguments", change: func(*fixture, *shelf) {}, edit: `{"path":"/y"}`, move: Forward},
		{
			name:   "a fact that came after the question",
			change: func(h *fixture, _ *shelf) { h.facts = append(h.facts, Fact{Name: "secret"}) },
			move:   Deny, reason: "it has facts now that were not shown",
		},
		{
			name:   "another fact instead",
			change: func(h *fixture, _ *shelf) { h.facts = []Fact{{Name: "secret"}} },
			move:   Deny, reason: "it has facts now that were not shown",
		},
		{
			name:   "the same fact in other words",
			change: func(h *fixture, _ *shelf) { h.facts = []Fact{{Name: "acts", Detail: "in other words"}} },
			move:   Forward,
		},
		{
			name:   "its place is a new one by now",
			change: func(h *fixture, _ *shelf) { h.facts = append(h.facts, Fact{Name: "new-place"}) },
			move:   Forward,
		},
		{
			name:   "what the workflow says",
			change: func(h *fixture, _ *shelf) { h.ruling.Basis.Workflow[0]++ },
			move:   Deny, reason: "the workflow for it changed meanwhile",
		},
		{
			name:   "what the workflow says, with other arguments",
			change: func(h *fixture, _ *shelf) { h.ruling.Basis.Workflow[0]++ },
			edit:   `{"path":"/y"}`, move: Deny, reason: "the workflow for it changed meanwhile",
		},
		{
			name:   "the workflow",
			change: func(h *fixture, _ *shelf) { h.ruling.Workflow = "boss" },
			move:   Deny, reason: "the workflow for it changed meanwhile",
		},
		{
			name:   "what the rule says",
			change: func(h *fixture, _ *shelf) { h.ruling.Basis.Rule[0]++ },
			move:   Deny, reason: "another rule or policy asks about it",
		},
		{
			// Nothing asks any more, so the subject is not compared: a definition that no list
			// has shown is not the one that was shown.
			name:   "its definition is known by now, and a rule forwards it",
			before: func(_ *fixture, s *shelf) { s.digest = 0 },
			change: func(h *fixture, s *shelf) { s.digest, h.ruling = 2, Ruling{Move: Forward} },
			move:   Deny, reason: "not what was shown to the person",
		},
		{
			name:   "its definition is known by now, and it has other arguments",
			before: func(_ *fixture, s *shelf) { s.digest = 0 },
			change: func(_ *fixture, s *shelf) { s.digest = 2 },
			edit:   `{"path":"/y"}`, move: Deny, reason: "not what was shown to the person",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture()
			h.facts = []Fact{{Name: "acts", Detail: "it removes"}}
			h.ruling = Ruling{Move: Ask, Workflow: "ops", Gate: "rule", Basis: Basis{Rule: [32]byte{1}, Workflow: [32]byte{2}}}
			s := withPins(h)
			if test.before != nil {
				test.before(h, s)
			}
			v, a := submitTo(h, shimX, aCall)
			defer a.Close(true)
			if v.Move != Ask {
				t.Fatalf("got %v (%s)", v.Move, v.Reason)
			}
			c := collect(a)
			h.set(func() { test.change(h, s) })
			answer := Answer{ID: "A-1", Approved: true, State: "approved", Level: LevelWatch, Decider: "uid 1"}
			if test.edit != "" {
				answer.Edit = []byte(test.edit)
			}
			h.answers <- answer
			if v := <-c; v.Move != test.move || !strings.Contains(v.Reason, test.reason) {
				t.Errorf("got %v (%s), want %v (%s)", v.Move, v.Reason, test.move, test.reason)
			}
		})
	}
}

// The strictest profile of session, set and shim counts: what a shim requests never loosens.
func TestProfilesOnlyTighten(t *testing.T) {
	all := []Profile{"", Production, Development}
	for _, limit := range all {
		for _, set := range []Profile{Production, Development} {
			for _, asked := range all {
				want := set
				if limit != "" {
					want = limit
				}
				if asked == Production {
					want = Production
				}
				t.Run(fmt.Sprintf("session %q, set %q, shim %q", limit, set, asked), func(t *testing.T) {
					h := newFixture()
					h.profile, h.ruling = set, denies
					shim := shimX
					shim.Limit, shim.Requested = limit, asked
					v, a := submitTo(h, shim, aCall)
					defer a.Close(true)
					if got := h.records[0].Profile; got != string(want) || a.Profile() != want || (v.Move == Deny) != (want == Production) {
						t.Errorf("judged under %q, said to be %q: %v; want %q", got, a.Profile(), v.Move, want)
					}
				})
			}
		}
	}
	for _, test := range []struct{ p, q, want Profile }{
		{"", "", Production}, {"", Production, Production}, {"", Development, Development}, {Production, Development, Production},
		{Development, Development, Development}, {Production, Production, Production},
	} {
		if test.p.Tighter(test.q) != test.want || test.q.Tighter(test.p) != test.want {
			t.Errorf("the tighter of %q and %q is %q, and the other way round %q", test.p, test.q, test.p.Tighter(test.q), test.q.Tighter(test.p))
		}
	}
}

// Several asks in one answer become one question only if the same people are asked in the same
// way. The question is as strict as the strictest ask.
func TestJoinedAsksAreAsStrictAsTheStrictest(t *testing.T) {
	const line = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":` + sampling + `,"b":` + page + `}}}`
	for _, test := range []struct {
		name   string
		change func(first, second *Ruling)
		move   Move
		reason string
		want   func(Ruling) bool
	}{
		{name: "alike", change: func(_, _ *Ruling) {}, move: Ask, want: func(r Ruling) bool { return r.Level == LevelWatch }},
		{name: "workflows of one name that say different things", change: func(_, r *Ruling) { r.Basis.Workflow[0]++ }, move: Deny, reason: "workflows differ"},
		{name: "answered in different places", change: func(_, r *Ruling) { r.Surfaces = []string{"terminal"} }, move: Deny, reason: "workflows differ"},
		{name: "the second has less time", change: func(_, r *Ruling) { r.Timeout = time.Second }, move: Ask, want: func(r Ruling) bool { return r.Timeout == time.Second }},
		{name: "the first has less time", change: func(r, _ *Ruling) { r.Timeout = time.Second }, move: Ask, want: func(r Ruling) bool { return r.Timeout == time.Second }},
		{name: "the second is stricter", change: func(_, r *Ruling) { r.Level = LevelPresence }, move: Ask, want: func(r Ruling) bool { return r.Level == LevelPresence }},
		{name: "the first is stricter", change: func(r, _ *Ruling) { r.Level = LevelPresence }, move: Ask, want: func(r Ruling) bool { return r.Level == LevelPresence }},
		{name: "the second reaches nobody", change: func(_, r *Ruling) { r.Unable = "nobody is there" }, move: Deny, reason: "nobody is there"},
		{name: "the first reaches nobody", change: func(r, _ *Ruling) { r.Unable = "nobody is there" }, move: Deny, reason: "nobody is there"},
		{name: "other rules ask", change: func(_, r *Ruling) { r.Basis.Rule[0]++ }, move: Ask, want: func(r Ruling) bool { return r.Basis.Rule != [32]byte{1} && r.Basis.Rule != [32]byte{2} }},
		{name: "what is not shown", change: func(_, _ *Ruling) {}, move: Ask, want: func(r Ruling) bool { return slices.Equal(r.Redact, []string{"key"}) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := Ruling{
				Move: Ask, Gate: "rule", Rule: "r", Workflow: "ops", Reason: "why", Timeout: time.Minute, Redact: []string{"key"},
				Basis: Basis{Rule: [32]byte{1}, Workflow: [32]byte{2}},
			}
			second := first
			test.change(&first, &second)
			h := newFixture()
			h.gate.Presence = enrolled(true)
			h.rule = byMethod(map[string]Ruling{"sampling/createMessage": first, "elicitation/create": second})
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(line), Answers: "tools/call", Modern: true})
			v := <-c
			if v.Move != test.move || !strings.Contains(v.Reason, test.reason) {
				t.Fatalf("got %v (%s), want %v (%s)", v.Move, v.Reason, test.move, test.reason)
			}
			if test.want != nil && !test.want(h.question.Ruling) {
				t.Errorf("asked %+v", h.question.Ruling)
			}
		})
	}
}

// factsOf is a Facts that depends on the method.
type factsOf struct {
	*fixture
	by map[string][]Fact // by method
}

func (f factsOf) Of(_ context.Context, c *Call) []Fact { return f.by[c.Method] }

// The facts of each ask in an answer are shown with the question, and count for its level.
func TestEveryAskBringsItsFacts(t *testing.T) {
	for _, secret := range []string{"sampling/createMessage", "elicitation/create"} {
		h := newFixture()
		h.gate.Presence = enrolled(true)
		h.gate.Facts = factsOf{h, map[string][]Fact{secret: {{Name: "secret"}}}}
		h.rule = byMethod(map[string]Ruling{"sampling/createMessage": opsAsks, "elicitation/create": opsAsks})
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		line := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":` + sampling + `,"b":` + page + `}}}`
		a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(line), Answers: "tools/call", Modern: true})
		if v := <-c; v.Move != Ask || len(h.question.Facts) != 1 || h.question.Ruling.Level != LevelPresence {
			t.Errorf("%s has a secret: got %v, asked with %+v at %q", secret, v.Move, h.question.Facts, h.question.Ruling.Level)
		}
		a.Close(true)
	}
}

// Each fact of high risk requires presence, if presence is set up.
func TestEachFactOfHighRisk(t *testing.T) {
	for _, fact := range HighRisk {
		h := newFixture()
		h.gate.Presence, h.facts = enrolled(true), []Fact{{Name: "acts"}, {Name: fact}}
		h.ruling = Ruling{Move: Ask, Workflow: "ops", Gate: "rule"}
		_, a := submitTo(h, shimX, aCall)
		if h.question == nil || h.question.Ruling.Level != LevelPresence {
			t.Errorf("%s: asked %+v", fact, h.question)
		}
		a.Close(true)
	}
}

// The rounds of a call have everything in common except input and state.
func TestRoundsOfOneCall(t *testing.T) {
	read := func(method, params string) *Call {
		c := &Call{Message: Message{Method: method, Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`)}}
		if err := wire.Read(c.Line, c.Side, &c.Envelope); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const params = `"name":"rm","uri":"x:y","arguments":{"a":1},"task":{"ttl":1}`
	was := read("tools/call", params).round()
	if read("tools/call", params+`,"requestState":"s","inputResponses":{}`).round() != was {
		t.Error("the next round is another call")
	}
	defined := read("tools/call", params)
	defined.Definition[0]++
	others := map[string]*Call{"definition": defined, "method": read("prompts/get", params)}
	for _, old := range []string{`"rm"`, `"x:y"`, `{"a":1}`, `{"ttl":1}`} {
		others[old] = read("tools/call", strings.Replace(params, old, strings.Replace(strings.Replace(old, "1", "2", 1), `"`, `"z`, 1), 1))
	}
	for name, c := range others {
		if c.round() == was {
			t.Errorf("%s: another one is taken for a round of it", name)
		}
	}
}

// An approval is continued only if the person would be asked for the same reason and in the
// same way.
func TestWhatAYesCarriesOn(t *testing.T) {
	given := Ruling{Workflow: "ops", Rule: "r", Policies: []string{"p"}, Surfaces: []string{"terminal"}, Level: LevelWatch, Basis: Basis{Rule: [32]byte{1}, Workflow: [32]byte{2}}}
	y := &retryApproval{asked: given}
	if !y.covers(given, nil) {
		t.Error("nothing has changed, and it is not carried on")
	}
	for name, change := range map[string]func(*Ruling){
		"the workflow":           func(r *Ruling) { r.Workflow = "boss" },
		"what the workflow says": func(r *Ruling) { r.Basis.Workflow[0]++ },
		"what the rule says":     func(r *Ruling) { r.Basis.Rule[0]++ },
		"the rule":               func(r *Ruling) { r.Rule = "s" },
		"the policies":           func(r *Ruling) { r.Policies = []string{"p", "q"} },
		"the surfaces":           func(r *Ruling) { r.Surfaces = nil },
		"the level":              func(r *Ruling) { r.Level = LevelPresence },
	} {
		now := given
		change(&now)
		if y.covers(now, nil) {
			t.Errorf("%s: carried on", name)
		}
	}
}

// A text of _meta is transport only if it can't carry much content: everything else is shown
// and compared.
func TestWhatOnlyCarriesAMessage(t *testing.T) {
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, test := range []struct {
		name, value string
		want        bool
	}{
		{"progressToken", text(maxToken), true},
		{"progressToken", text(maxToken + 1), false},
		{"progressToken", strings.Repeat("1", maxToken), true},
		{"progressToken", strings.Repeat("1", maxToken+1), false},
		{"progressToken", `"a\u0062"`, false},
		{"progressToken", `"a b"`, false},
		{"progressToken", `"café"`, false},
		{"progressToken", "\"a\x7f\"", false},
		{"progressToken", `["a"]`, false},
		{"traceparent", text(maxTraceparent), true},
		{"traceparent", text(maxTraceparent + 1), false},
		{"tracestate", text(maxTracestate), true},
		{"tracestate", text(maxTracestate + 1), false},
		{"baggage", text(maxBaggage), true},
		{"baggage", text(maxBaggage + 1), false},
		{"baggage", `1`, false},
		{"other", `"a"`, false},
	} {
		if got := isTransport([]byte(test.name), []byte(test.value)); got != test.want {
			t.Errorf("%s of %d bytes, %.20s: %v", test.name, len(test.value), test.value, got)
		}
	}
	for _, test := range []struct {
		agent, name, value string
		want               bool
	}{
		{"claude-code", "claudecode/toolUseId", `"toolu_1-aB"`, true},
		{"claude-code", "claudecode/toolUseId", `"delete everything"`, false},
		{"claude-code", "claudecode/toolUseId", `"rm"`, false},
		{"claude-code", "claudecode/toolUseId", `"toolu_` + strings.Repeat("x", maxCallID) + `"`, false},
		{"claude-code", "claudecode/toolUseId", `"toolu_/etc"`, false},
		{"claude-code", "vscode.requestId", `"1"`, false},
		{"cursor", "claudecode/toolUseId", `"toolu_1"`, false},
		{"", "claudecode/toolUseId", `"toolu_1"`, false},
		{"vscode", "vscode.requestId", `"1-2"`, true},
	} {
		c := &Call{Case: Case{Agent: test.agent}}
		if got := c.isCallID([]byte(test.name), []byte(test.value)); got != test.want {
			t.Errorf("%s of %q, %s: %v", test.name, test.agent, test.value, got)
		}
	}
}

// What stands beside the arguments distinguishes calls, and the arguments do not. That
// includes the arguments of a completion, which have another name.
func TestBesideTheArguments(t *testing.T) {
	beside := func(method, params string) [32]byte {
		c := &Call{Message: Message{Method: method, Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)}}
		if err := wire.Read(c.Line, c.Side, &c.Envelope); err != nil {
			t.Fatal(err)
		}
		return c.BesideDigest()
	}
	const ref = `"ref":{"type":"ref/prompt","name":"p"}`
	if beside("completion/complete", `{`+ref+`,"argument":{"name":"a","value":"x"}}`) != beside("completion/complete", `{`+ref+`,"argument":{"name":"a","value":"y"}}`) {
		t.Error("another argument of a completion is another thing beside it")
	}
	if beside("tools/call", `{"name":"t","argument":{"value":"x"}}`) == beside("tools/call", `{"name":"t","argument":{"value":"y"}}`) {
		t.Error("a member of a tool's call is taken for an argument, since completions call theirs so")
	}
	if beside("completion/complete", `{`+ref+`,"context":{"a":"x"}}`) == beside("completion/complete", `{`+ref+`,"context":{"a":"y"}}`) {
		t.Error("the context of a completion counts for nothing")
	}
}

// A name that its server lists in another case is denied by a built-in rule, and a review of
// the definition does not help.
func TestANameThatIsNone(t *testing.T) {
	p := Pinned{Held: "there is none", Final: true}
	if r := p.over(Ruling{Move: Forward}); r.Move != Deny || r.Gate != "rule" || r.Rule != "built in: names" {
		t.Errorf("got %+v", r)
	}
	p.Final = false
	if r := p.over(Ruling{Move: Forward}); r.Move != Deny || r.Gate != gatePin {
		t.Errorf("got %+v", r)
	}
}

// destroying finds that calls destroy as much as the test says.
type destroying struct {
	*fixture
	extent *Extent
}

func (d destroying) Of(ctx context.Context, c *Call) []Fact {
	d.set(func() { c.Extent = *d.extent })
	return []Fact{{Name: FactDestroys, Detail: "deletes files"}}
}

// An approval is of no more destruction than was shown, counted when the call is about to be forwarded.
func TestApprovedWhenItDestroyedLess(t *testing.T) {
	shown := Extent{"files": 3}
	for _, test := range []struct {
		now  Extent
		rule Move
		move Move
	}{
		{shown, Ask, Forward},
		{Extent{"files": 2}, Ask, Forward},
		{nil, Ask, Forward},
		{Extent{"files": 4}, Ask, Deny},
		{Extent{"files": 3, "not counted in time": 1}, Ask, Deny},
		{Extent{"commits": 1}, Ask, Deny},
		{Extent{"files": 4}, Forward, Forward}, // nobody is asked about it any more
	} {
		h := newFixture()
		extent := shown
		h.gate.Facts = destroying{h, &extent}
		h.ruling = Ruling{Move: Ask, Workflow: "ops"}
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
		<-c
		h.set(func() { extent, h.ruling.Move = test.now, test.rule })
		h.answers <- Answer{ID: "A-1", Approved: true, State: "approved", Decider: "uid 1", Extent: shown}
		v := <-c
		if v.Move != test.move || v.Move == Deny && !strings.Contains(v.Reason, "it was approved (A-1), but it destroys more than was shown: it now deletes files; repeat the call") {
			t.Errorf("%v, by a rule that says %v: %v, %q", test.now, test.rule, v.Move, v.Reason)
		}
		a.Close(true)
	}
}
