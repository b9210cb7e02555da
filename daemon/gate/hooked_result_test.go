package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The result of a call that an after-hook wants is submitted and held while hooks are called.
// It is then what they made of it, or withheld; the agent is told that the call was executed.
func TestHooksAfter(t *testing.T) {
	const (
		read     = `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///x"}}`
		task     = `{"jsonrpc":"2.0","id":9,"result":{"taskId":"t","status":"completed","result":{"content":[]}}}`
		unended  = `{"jsonrpc":"2.0","id":9,"result":{"taskId":"t","status":"working"}}`
		told     = `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","result":{"content":[]}}}`
		early    = `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t"}}`
		clean    = `{"content":[{"type":"text","text":"..."}]}`
		withheld = "Executed, but its result is withheld: no keys. Repeating the call would execute it again"
	)
	refuses := Hooked{Move: Deny, By: []string{"guard"}, Reason: "no keys"}
	inner := func(line string) string { return strings.Replace(line, `{"content":[]}`, clean, 1) }
	for _, test := range []struct {
		name    string
		call    string
		answers string
		line    string
		said    Hooked
		want    string // what is forwarded; empty: nothing
		told    string // the agent's text in that case
		shown   string // to the hook; empty: the content of result
	}{
		{name: "goes on", said: goesOn, want: aResult},
		{name: "changed", said: changes(clean), want: `{"jsonrpc":"2.0","id":7,"result":` + clean + `}`},
		{name: "withheld", said: refuses, told: withheld},
		{name: "no object", said: changes(`"x"`), told: "not one object"},
		{name: "not JSON", said: changes(`{`), told: "can't be used"},
		{name: "nothing", said: changes(``), told: "can't be used"},
		{name: "another id", said: changes(`{},"id":8`), told: "can't be used"},
		{name: "an error beside it", said: changes(`{},"error":{"code":1,"message":""}`), told: "can't be used"},
		{name: "two lines", said: changes("{}}\n{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}"), told: "can't be used"},
		{name: "too long", said: changes(`{"x":"` + strings.Repeat("x", wire.MaxMessage) + `"}`), told: "longer than"},
		{name: "nothing said", said: Hooked{}, told: "Executed, but its result is withheld: an extension denied it. "},
		{name: "a resource", call: read, answers: "resources/read", said: refuses, told: `"error":{"code":-31005`},
		{name: "a task", call: strings.Replace(aCall, `"name"`, `"task":{},"name"`, 1), said: refuses, told: `"error":{"code":-31005`},
		{name: "a task's result", answers: "tasks/result", said: refuses, told: `"isError":true`},
		{name: "a task's end", answers: "tasks/get", line: task, said: changes(clean), want: inner(task), shown: `{"content":[]}`},
		{name: "a task's end, withheld", answers: "tasks/get", line: task, said: refuses, told: `"error":{"code":-31005`, shown: `{"content":[]}`},
		{name: "a task's state", answers: "tasks/get", line: unended, said: goesOn, want: unended},
		{name: "of a task", answers: " ", line: told, said: changes(clean), want: inner(told), shown: `{"content":[]}`},
		{name: "of a task, withheld", answers: " ", line: told, said: refuses, shown: `{"content":[]}`},
		{name: "of a task without a result", answers: " ", line: early, said: refuses, want: early, shown: "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.call == "" {
				test.call = aCall
			}
			if test.answers == "" {
				test.answers = "tools/call"
			}
			if test.line == "" {
				test.line = aResult
			}
			h := newFixture()
			hooks := &script{after: saysAfter(test.said)}
			h.gate.Hooks = hooks
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(test.call)})
			if v := <-c; v.Move != Forward || !v.Inspect {
				t.Fatalf("the call: got %+v", v)
			}
			a.Submit(Submission{
				Seq: 2, Side: wire.FromServer, Line: []byte(test.line), Answers: strings.TrimSpace(test.answers), Request: []byte(test.call), About: 1,
			})
			v := <-c
			if test.shown != "-" {
				if v.Move != Ask {
					t.Fatalf("not held: got %+v", v)
				}
				v = <-c
			}
			if goes := v.Move == Forward; goes != (test.want != "") || goes && string(v.Line) != test.want {
				t.Errorf("got %v %.300s (%s), want %s", v.Move, v.Line, v.Reason, test.want)
			}
			if !strings.Contains(string(v.Answer), test.told) || strings.Contains(string(v.Answer), "Not executed") {
				t.Errorf("the agent is told %s, want %s", v.Answer, test.told)
			}
			if len(v.Answer) > 0 && !strings.Contains(string(v.Answer), `"id":`) {
				t.Errorf("nobody waits for %s", v.Answer)
			}
			if shown := hooks.all(); test.shown == "-" {
				if len(shown) > 0 {
					t.Errorf("shown: %q", shown)
				}
			} else if test.shown != "" && !strings.HasSuffix(shown[0], " "+test.shown) || test.call == aCall && !strings.HasPrefix(shown[0], `{"path":"/x"} `) {
				t.Errorf("shown: %q, want %s", shown, test.shown)
			}
			// Whatever happens to it, Facts has observed the server's text.
			if !slices.ContainsFunc(h.noted, func(n string) bool { return strings.HasPrefix(n, "heard ") && strings.HasSuffix(n, test.line) }) {
				t.Errorf("the memory holds %q", h.noted)
			}
			if n := len(slices.DeleteFunc(slices.Clone(h.noted), func(n string) bool { return !strings.HasPrefix(n, "heard ") })); n != 1 {
				t.Errorf("heard %d times", n)
			}
		})
	}
}

// An error carries no result, and is not shown to hooks.
func TestErrorsPassHooks(t *testing.T) {
	h := newFixture()
	hooks := &script{after: saysAfter(Hooked{Move: Deny})}
	h.gate.Hooks = hooks
	_, a := submitTo(h, shimX, aCall)
	defer a.Close(true)
	c := collect(a)
	a.Submit(Submission{
		Seq: 2, Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}`),
		Answers: "tools/call", Call: 1, Request: []byte(aCall), About: 1,
	})
	if v := <-c; v.Move != Forward || len(hooks.all()) > 0 {
		t.Errorf("got %+v, shown %q", v, hooks.all())
	}
}

// A result is shown together with the call that was forwarded, and with no other.
func TestResultOfAnotherCall(t *testing.T) {
	for name, request := range map[string]string{
		"another":  strings.Replace(aCall, "/x", "/y", 1),
		"no call":  `{"jsonrpc":"2.0","id":7}`,
		"not JSON": `{`,
	} {
		h := newFixture()
		hooks := &script{after: saysAfter(goesOn)}
		h.gate.Hooks = hooks
		_, a := submitTo(h, shimX, aCall)
		c := collect(a)
		a.Submit(Submission{Seq: 2, Side: wire.FromServer, Line: []byte(aResult), Answers: "tools/call", Call: 1, Request: []byte(request), About: 1})
		if v := <-c; v.Move != Deny || !strings.Contains(string(v.Answer), "Executed, but") || len(hooks.all()) > 0 {
			t.Errorf("%s: got %v %s, shown %q", name, v.Move, v.Answer, hooks.all())
		}
		a.Close(true)
	}
}

// A call whose result could not be shown to the hooks that want it is denied before it is
// made.
func TestResultThatCouldNotBeSeen(t *testing.T) {
	long := strings.Replace(aCall, "/x", strings.Repeat("x", maxAskedBytes), 1)
	for _, wanted := range []bool{true, false} {
		h := newFixture()
		h.gate.Hooks = &script{}
		if wanted {
			h.gate.Hooks = &script{after: saysAfter(goesOn)}
		}
		v, a := submitTo(h, shimX, long)
		a.Close(true)
		if v.Move == Forward == wanted || wanted && !strings.Contains(string(v.Answer), "too long") {
			t.Errorf("wanted %v: got %v %s", wanted, v.Move, v.Answer)
		}
	}
}

// What a hook leaves of a result is judged for the asks in it.
func TestHookedResultWithAsks(t *testing.T) {
	asks := `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}`
	for _, refused := range []bool{true, false} {
		h := newFixture()
		h.rule = func(c *Call) Ruling {
			if refused && c.Method == "sampling/createMessage" {
				return Ruling{Move: Deny, Gate: "rule", Reason: "no sampling"}
			}
			return Ruling{Move: Forward}
		}
		h.gate.Hooks = &script{after: saysAfter(changes(asks))}
		_, a := submitTo(h, shimX, aCall)
		c := collect(a)
		a.Submit(Submission{Seq: 2, Side: wire.FromServer, Line: []byte(aResult), Answers: "tools/call", Call: 1, Request: []byte(aCall), About: 1, Modern: true})
		if v := pendingFirst(t, c); v.Move == Forward == refused {
			t.Errorf("refused %v: got %v %s", refused, v.Move, v.Reason)
		}
		a.Close(true)
	}
}

// A result may be submitted to the next daemon, which knows of its call only what is recorded.
func TestResultAfterARestart(t *testing.T) {
	h := newFixture()
	hooks := &script{after: saysAfter(Hooked{Move: Deny, By: []string{"guard"}})}
	h.gate.Hooks = hooks
	_, a := submitTo(h, shimX, aCall)
	a.Close(false)
	for _, request := range []string{aCall, strings.Replace(aCall, "/x", "/y", 1)} {
		b := h.gate.Attach(context.Background(), shimX, recordedIn(h))
		c := collect(b)
		b.Submit(Submission{Seq: 2, Side: wire.FromServer, Line: []byte(aResult), Answers: "tools/call", Call: 1, Request: []byte(request), About: 1})
		v := <-c
		if held := v.Move == Ask; held != (request == aCall) {
			t.Errorf("%s: got %v %s", request, v.Move, v.Reason)
		} else if held {
			v = <-c
		}
		if v.Move != Deny {
			t.Errorf("%s: got %v", request, v.Move)
		}
		h.set(func() { h.records = h.records[:1] })
		b.Close(true)
	}
	if shown := fmt.Sprint(hooks.all()); strings.Count(shown, "key-123") != 1 || !strings.Contains(shown, `{"path":"/x"}`) {
		t.Errorf("shown: %s", shown)
	}
}
