package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// script is a Hooks that returns what the test determines.
type script struct {
	before func(context.Context, *Call) Hooked         // nil: calls are not wanted
	after  func(context.Context, *Call, []byte) Hooked // nil: results are not wanted

	mu       sync.Mutex // guards the fields below
	revision uint64
	asked    []string // what was shown
}

func (s *script) Wants(_ *Call, after bool) bool {
	if after {
		return s.after != nil
	}
	return s.before != nil
}

func (s *script) Who(c *Call, after bool) []string {
	if s.Wants(c, after) {
		return []string{"guard"}
	}
	return nil
}

func (s *script) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

func (s *script) install() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
}

func (s *script) shown(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
}

func (s *script) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *script) Before(ctx context.Context, c *Call) Hooked {
	s.shown(string(c.Arguments()))
	return s.before(ctx, c)
}

func (s *script) After(ctx context.Context, c *Call, result []byte) Hooked {
	s.shown(string(c.Arguments()) + " " + string(result))
	return s.after(ctx, c, result)
}

// says returns a hook that returns the same for every call.
func says(h Hooked) func(context.Context, *Call) Hooked {
	return func(context.Context, *Call) Hooked { return h }
}

// saysAfter does the same for every result.
func saysAfter(h Hooked) func(context.Context, *Call, []byte) Hooked {
	return func(context.Context, *Call, []byte) Hooked { return h }
}

var goesOn = Hooked{Move: Forward}

// changes returns a hook that replaces the JSON.
func changes(with string) Hooked {
	return Hooked{Move: Forward, Changed: []byte(with), By: []string{"guard"}}
}

// pendingFirst receives the verdict that extensions are called, and returns the verdict that
// follows.
func pendingFirst(t *testing.T, c <-chan Verdict) Verdict {
	t.Helper()
	if v := <-c; v.Move != Ask || v.Approval != "" {
		t.Fatalf("at first: got %v (%s), %q", v.Move, v.Approval, v.Reason)
	}
	return <-c
}

// kinds lists the records in short form, with the extensions involved.
func (h *fixture) kinds() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, r := range h.records {
		s := string(r.Kind)
		for _, part := range []string{r.Verdict, r.Would, strings.Join(r.Extensions, "+")} {
			if part != "" {
				s += ":" + part
			}
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

// A call that hooks want is held at once, and the verdict is about what they return. An
// unusable change is a denial.
func TestHooksBefore(t *testing.T) {
	by := []string{"words", "guard"}
	for _, test := range []struct {
		name   string
		said   Hooked
		line   string // that is forwarded; empty: nothing
		told   string // text for the agent, or why nothing is forwarded
		record string
	}{
		{"goes on", goesOn, aCall, "", "call:forward"},
		{"changed", Hooked{Move: Forward, Changed: []byte(` {"path":"/y"} `), By: by}, strings.Replace(aCall, `{"path":"/x"}`, ` {"path":"/y"} `, 1),
			"Extensions words, guard changed the arguments", "hook:changed:words+guard call:forward:words+guard"},
		{"refused", Hooked{Move: Deny, By: by, Reason: "not outside"}, "",
			"Not executed. Not outside. Repeating the call will not help; ask the user.", "call:deny:words+guard"},
		{"nothing said", Hooked{}, "", "Not executed. An extension denied it. Repeating", "call:deny"},
		{"no move", Hooked{Move: Ask, By: by[1:]}, "", "Extension guard denied it", "call:deny:guard"},
		{"no object", changes(`[]`), "", "not an object", "call:deny:guard"},
		{"not JSON", changes(`{"path":`), "", "can't be used", "call:deny:guard"},
		{"nothing", changes(``), "", "can't be used", "call:deny:guard"},
		{"a name twice", changes(`{"path":1,"path":2}`), "", "can't be used", "call:deny:guard"},
		{"more than arguments", changes(`{},"task":{}`), "", "not one object", "call:deny:guard"},
		{"more than params", changes(`{}},"more":{"x":{}`), "", "can't be used", "call:deny:guard"},
		{"another tool", changes(`{},"name":"ls"`), "", "can't be used", "call:deny:guard"},
		{"two lines", changes("{}}}\n{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\",\"params\":{\"x\":{"), "", "can't be used", "call:deny:guard"},
		{"too long", changes(`{"path":"` + strings.Repeat("x", wire.MaxMessage) + `"}`), "", "longer than", "call:deny:guard"},
		{"a long reason", Hooked{Move: Deny, By: by[1:], Reason: strings.Repeat("no ", 1<<20)}, "", "no no", "call:deny:guard"},
		{"not asked", Hooked{Move: Forward, Failed: []string{"guard (no answer)"}}, aCall, "", "call:forward"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture()
			h.gate.Hooks = &script{before: says(test.said)}
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
			v := pendingFirst(t, c)
			if goes := v.Move == Forward; goes != (test.line != "") || goes && (string(v.Line) != test.line || v.Replaced != (test.line != aCall)) {
				t.Fatalf("got %v %.200s (%.200s), replaced %v", v.Move, v.Line, v.Reason, v.Replaced)
			}
			if told := v.Notice + string(v.Answer); !strings.Contains(told, test.told) || len(told) > 2<<10 {
				t.Errorf("the agent is told %.300s", told)
			}
			if v.Move == Deny && !strings.Contains(string(v.Answer), `"isError":true`) {
				t.Errorf("not as a tool's result: %s", v.Answer)
			}
			if got := h.kinds(); got != test.record {
				t.Errorf("records: got %q, want %q", got, test.record)
			}
			last := h.records[len(h.records)-1]
			if len(test.said.Failed) > 0 && !strings.Contains(last.Reason, "not called: guard (no answer)") {
				t.Errorf("recorded %q", last.Reason)
			}
			if v.Move == Deny && (last.Gate != "extension" || len(test.said.By) > 0 && last.Rule != "extension guard") {
				t.Errorf("recorded %q, %q", last.Gate, last.Rule)
			}
		})
	}
}

// Arguments are added if a call has none but accepts some.
func TestHooksGiveArguments(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"rm"}}`:                    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{"n":1},"name":"rm"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"rm","arguments":{}}}`:    `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"rm","arguments":{"n":1}}}`,
		`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`: "",
	} {
		h := newFixture()
		h.gate.Hooks = &script{before: says(changes(`{"n":1}`))}
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(line)})
		if v := pendingFirst(t, c); string(v.Line) != want {
			t.Errorf("%s\nbecame %s\n  want %s (%s)", line, v.Line, want, v.Reason)
		}
		a.Close(true)
	}
}

// What hooks make of a call is judged by all gates as if the agent had made it, and is what a
// person sees.
func TestHookedIsJudgedAfresh(t *testing.T) {
	changed := `{"path":"/y"}`
	for _, test := range []struct {
		name string
		rule func(c *Call) Ruling
		yes  bool
		move Move
	}{
		{"forwarded only as the agent made it", func(c *Call) Ruling {
			if string(c.Arguments()) == changed {
				return Ruling{Move: Deny, Gate: "rule", Reason: "never there"}
			}
			return Ruling{Move: Forward}
		}, false, Deny},
		{"forwarded only as it is now", func(c *Call) Ruling {
			if string(c.Arguments()) == changed {
				return Ruling{Move: Forward}
			}
			return Ruling{Move: Deny, Gate: "rule"}
		}, false, Forward},
		{"approved", func(*Call) Ruling { return Ruling{Move: Ask, Workflow: "ops"} }, true, Forward},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture()
			h.rule = test.rule
			hooks := &script{before: says(changes(changed))}
			h.gate.Hooks = hooks
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
			v := pendingFirst(t, c)
			if test.yes {
				if v.Move != Ask || v.Approval != "A-1" {
					t.Fatalf("got %v %s", v.Move, v.Reason)
				}
				if got := string(h.question.Call.Arguments()); got != changed || !strings.Contains(h.question.Ruling.Reason, "extension guard changed") {
					t.Errorf("a person sees %s: %s", got, h.question.Ruling.Reason)
				}
				h.answers <- Answer{ID: "A-1", Approved: true, State: "approved"}
				v = <-c
			}
			if v.Move != test.move || v.Move == Forward && string(v.Line) != strings.Replace(aCall, `{"path":"/x"}`, changed, 1) {
				t.Errorf("got %v %s, %s", v.Move, v.Line, v.Reason)
			}
			if got := len(hooks.all()); got != 1 {
				t.Errorf("hooks were asked %d times", got)
			}
		})
	}
}

// In development hooks are called and nothing is changed. What they would have done is
// recorded, and what the gates would have done with the result.
func TestHooksInDevelopment(t *testing.T) {
	for _, test := range []struct {
		said Hooked
		want string
	}{
		{goesOn, "call:forward"},
		{changes(`{"path":"/y"}`), "hook:WOULD_REDACT:guard call:forward:WOULD_REDACT:guard"},
		{changes(`{"path":"/forbidden"}`), "hook:WOULD_REDACT:guard call:forward:WOULD_BLOCK:guard"},
		{changes(`[`), "call:forward:WOULD_BLOCK:guard"},
		{Hooked{Move: Deny, By: []string{"guard"}, Reason: "no"}, "call:forward:WOULD_BLOCK:guard"},
	} {
		h := newFixture()
		h.profile = Development
		h.rule = func(c *Call) Ruling {
			if strings.Contains(string(c.Arguments()), "forbidden") {
				return Ruling{Move: Deny, Gate: "rule"}
			}
			return Ruling{Move: Forward, Gate: "rule"}
		}
		h.gate.Hooks = &script{before: says(test.said), after: saysAfter(test.said)}
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
		if v := pendingFirst(t, c); v.Move != Forward || string(v.Line) != aCall || v.Replaced || v.Notice != "" || !v.Inspect {
			t.Errorf("%s: got %+v", test.want, v)
		}
		if got := h.kinds(); got != test.want {
			t.Errorf("records: got %q, want %q", got, test.want)
		}
		a.Submit(Submission{Seq: 2, Side: wire.FromServer, Line: []byte(aResult), Answers: "tools/call", Call: 1, Request: []byte(aCall), About: 1})
		if v := pendingFirst(t, c); v.Move != Forward || string(v.Line) != aResult || v.Replaced {
			t.Errorf("%s, its result: got %+v", test.want, v)
		}
		a.Close(true)
	}
}

// Hooks that want nothing cost nothing.
func TestNoHooksNoAllocations(t *testing.T) {
	measure := func(hooks Hooks) float64 {
		h := newFixture()
		h.gate.Hooks = hooks
		return h.allocationsOfCall()
	}
	none, idle := fewest(func() float64 { return measure(nil) }, func() float64 { return measure(&script{}) })
	if idle > none+room {
		t.Errorf("%v allocations with hooks that want nothing, %v without", idle, none)
	}
}

// The canary shows that the gates work: no hook sees it.
func TestNoHookSeesTheCanary(t *testing.T) {
	h := newFixture()
	hooks := &script{before: says(Hooked{Move: Deny}), after: saysAfter(Hooked{Move: Deny})}
	h.gate.Hooks = hooks
	v, a := submitTo(h, Shim{Attachment: "0123456789abcdef", Server: record.CanaryServer}, aCall)
	a.Close(true)
	if v.Move != Deny || h.records[0].Rule != record.CanaryRule || len(hooks.all()) > 0 {
		t.Errorf("got %v by %q; shown %q", v.Move, h.records[0].Rule, hooks.all())
	}
}

// What hooks changed must be recorded in both versions before it is forwarded.
func TestHookedButNotRecorded(t *testing.T) {
	h := newFixture()
	h.gate.Hooks, h.full = &script{before: says(changes(`{}`))}, errors.New("no space left on device")
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	if v := pendingFirst(t, c); v.Move != Deny || !strings.Contains(v.Reason, "no space left") {
		t.Errorf("got %v %q", v.Move, v.Reason)
	}
}

// The number of lines that hooks are called for at a time is limited; more are denied.
func TestHookedIsBounded(t *testing.T) {
	h := newFixture()
	release := make(chan struct{})
	h.gate.Hooks = &script{before: func(ctx context.Context, _ *Call) Hooked {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return goesOn
	}}
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	verdicts := make(chan Verdict, 4*maxHooked)
	a.Bind(func(v Verdict) { verdicts <- v })
	for seq := range uint64(maxHooked) {
		a.Submit(Submission{Seq: seq + 1, Side: wire.FromAgent, Line: []byte(aCall)})
		<-verdicts
	}
	a.Submit(Submission{Seq: maxHooked + 1, Side: wire.FromAgent, Line: []byte(aCall)})
	if v := <-verdicts; v.Move != Deny || !strings.Contains(v.Reason, "too many") {
		t.Errorf("got %v %q", v.Move, v.Reason)
	}
	close(release)
	for range maxHooked {
		if v := <-verdicts; v.Move != Forward {
			t.Errorf("got %v %q", v.Move, v.Reason)
		}
	}
	a.Submit(Submission{Seq: maxHooked + 2, Side: wire.FromAgent, Line: []byte(aCall)})
	if v := pendingFirst(t, verdicts); v.Move != Forward {
		t.Errorf("after that: got %v %q", v.Move, v.Reason)
	}
}

// Traces contain how long extensions took.
func TestTraceOfHooks(t *testing.T) {
	h, book := newFixture(), &traceBook{}
	h.gate.Tracer = book
	h.gate.Hooks = &script{before: says(goesOn)}
	a := h.gate.Attach(context.Background(), shimX, nil)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	pendingFirst(t, c)
	a.RecordOutcome(t.Context(), 1, "ok")
	a.Close(true)
	if got, want := book.all[0].stages(), []Stage{StageHooks, StageGate, StageServer}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func (t *Trace) stages() (all []Stage) {
	for _, p := range t.Parts {
		all = append(all, p.Stage)
	}
	return all
}

// The trace of a call whose result extensions want ends with their verdict on it.
func TestTraceOfHooksAfter(t *testing.T) {
	withheld := Hooked{Move: Deny, By: []string{"guard"}}
	for _, test := range []struct {
		said   Hooked
		line   string
		told   string // outcome that the shim reports
		want   string
		by     string
		stages int
	}{
		{goesOn, aResult, "ok", "1:ok", "", 3},
		{changes(`{}`), strings.Replace(aResult, `{"content"`, `{"isError":true,"content"`, 1), "tool_error", "1:tool_error", "guard", 3},
		{withheld, aResult, "ok", "1:withheld", "guard", 3},
		{withheld, "", "protocol_error", "1:protocol_error", "", 2},
		{withheld, "", "ok", "1:lost", "", 2}, // its result was never submitted
	} {
		h, book := newFixture(), &traceBook{}
		h.gate.Tracer, h.gate.Hooks = book, &script{after: saysAfter(test.said)}
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
		<-c
		a.RecordOutcome(t.Context(), 1, test.told)
		if test.line != "" {
			a.Submit(Submission{Seq: 2, Side: wire.FromServer, Line: []byte(test.line), Answers: "tools/call", Call: 1, Request: []byte(aCall), About: 1})
			pendingFirst(t, c)
		}
		a.Close(true)
		if got := book.outcomes(); got != test.want {
			t.Errorf("%s: got %q", test.want, got)
			continue
		}
		if one := book.all[0]; strings.Join(one.Extensions, ",") != test.by || len(one.stages()) != test.stages {
			t.Errorf("%s: by %q, stages %v", test.want, one.Extensions, one.stages())
		}
	}
}

const aResult = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"key-123"}]}}`
