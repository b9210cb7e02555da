package gate

import (
	"context"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// strict is a policy of a project that denies, and hides a tool.
type strict struct{ Policy }

func (strict) Rule(context.Context, *Call, []Fact) (Ruling, error) {
	return Ruling{Move: Deny, Gate: "rule", Rule: "the project's", Code: mcp.CodeRule}, nil
}
func (strict) Visible(_ *Call, _, name string) bool { return name != "b" }
func (strict) Digest() string                       { return "set-1+project" }

func TestScope(t *testing.T) {
	h := newFixture()
	asked := ""
	h.gate.Scope = func(project string) func(Policy) Policy {
		asked = project
		return func(p Policy) Policy { return strict{p} }
	}
	shim := shimX
	shim.Project = "/p"
	v, a := submitTo(h, shim, aCall)
	defer a.Close(true)
	if v.Move != Deny || asked != "/p" || h.records[0].Set != "set-1+project" {
		t.Errorf("got %v in %q, recorded under %s", v.Move, asked, h.records[0].Set)
	}
	c := collect(a)
	const page = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b"}]}}`
	a.Submit(Submission{Seq: 2, Side: wire.FromServer, Line: []byte(page), Answers: "tools/list"})
	if v := <-c; string(v.Line) != `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}` {
		t.Errorf("the list: got %s", v.Line)
	}
	const ask = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}}`
	a.Submit(Submission{Seq: 3, Side: wire.FromServer, Line: []byte(ask), Answers: "tools/call", Modern: true})
	if v := <-c; v.Move != Deny {
		t.Errorf("an ask within a result: got %v", v.Move)
	}
	if v, b := submitTo(h, shimX, aCall); v.Move != Forward {
		t.Errorf("outside of a project: got %v", v.Move)
	} else {
		b.Close(true)
	}
}

// While a call waits for a person, its project's files may change: the call is judged by their
// earlier content. The user's own set may become stricter meanwhile.
func TestScopeIsKeptForACall(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fixture)
		want   Move
	}{
		{"the files tighten", func(h *fixture) {
			h.gate.Scope = func(string) func(Policy) Policy { return func(p Policy) Policy { return strict{p} } }
		}, Forward},
		{"the set tightens", func(h *fixture) { h.ruling = Ruling{Move: Deny, Code: mcp.CodeRule} }, Deny},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture()
			h.ruling = Ruling{Move: Ask, Workflow: "ops"}
			h.gate.Scope = func(string) func(Policy) Policy { return func(p Policy) Policy { return p } }
			shim := shimX
			shim.Project = "/p"
			a := h.gate.Attach(context.Background(), shim, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
			<-c
			h.set(func() { tt.change(h) })
			h.answers <- Answer{ID: "A-1", Approved: true}
			if v := <-c; v.Move != tt.want {
				t.Errorf("got %v %s, want %v", v.Move, v.Answer, tt.want)
			}
		})
	}
}
