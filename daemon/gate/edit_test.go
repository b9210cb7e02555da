package gate

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A call that is approved with other arguments is judged again and sent with them, and the
// agent is told. Both versions are recorded.
func TestOtherArguments(t *testing.T) {
	for _, test := range []struct {
		name, edit string
		ruling     Ruling // of the changed call
		move       Move
		reason     string
	}{
		{"forwarded", `{"path":"/y"}`, Ruling{Move: Forward}, Forward, ""},
		{"asked of the same", `{"path":"/y","n":1.0}`, Ruling{Move: Ask, Workflow: "ops"}, Forward, ""},
		{"asked of others", `{"path":"/y"}`, Ruling{Move: Ask, Workflow: "strict"}, Deny, "the workflow for it changed"},
		{"refused", `{"path":"/y"}`, Ruling{Move: Deny, Gate: "rule", Reason: "never there"}, Deny, "never there"},
		{"no object", `[]`, Ruling{Move: Forward}, Deny, "not an object"},
		{"not JSON", `{"path":`, Ruling{Move: Forward}, Deny, "can't be used"},
		{"a name twice", `{"path":1,"path":2}`, Ruling{Move: Forward}, Deny, "can't be used"},
		{"more than arguments", `{},"task":{}`, Ruling{Move: Forward}, Deny, "not one object"},
		{"more than params", `{}},"more":{"x":{}`, Ruling{Move: Forward}, Deny, "can't be used"},
		{"another tool", `{},"name":"ls"`, Ruling{Move: Forward}, Deny, "can't be used"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture()
			h.ruling = Ruling{Move: Ask, Workflow: "ops"}
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
			<-c
			h.set(func() { h.ruling = test.ruling })
			h.answers <- Answer{ID: "A-1", Approved: true, State: "approved", Decider: "uid 1", Edit: []byte(test.edit)}
			v := <-c
			if v.Move != test.move || !strings.Contains(v.Reason, test.reason) {
				t.Fatalf("got %v, %q", v.Move, v.Reason)
			}
			if test.move == Deny {
				return
			}
			want := strings.Replace(aCall, `{"path":"/x"}`, test.edit, 1)
			if string(v.Line) != want || !v.Replaced || !strings.Contains(v.Notice, "A-1") {
				t.Errorf("got %+v\nline %s", v, v.Line)
			}
		})
	}
}
