package gate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// rounds plays an agent and a server that needs several rounds for one call.
type rounds struct {
	t    *testing.T
	h    *fixture
	a    *Attachment
	c    <-chan Verdict
	seq  uint64
	call uint64 // seq of the last call
}

func newRounds(t *testing.T) *rounds {
	h := newFixture()
	h.ruling = Ruling{Move: Ask, Gate: "rule", Rule: "r", Workflow: "ops", Validity: 10 * time.Minute}
	a := h.gate.Attach(context.Background(), shimX, nil)
	return &rounds{t: t, h: h, a: a, c: collect(a)}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

// calls has the agent call. extra are further members of params, each with its comma. It
// reports whether a person was asked, and approves.
func (r *rounds) calls(extra string) (asked bool) {
	r.t.Helper()
	return r.callsWith("rm", `{"path":"/x"}`, extra)
}

func (r *rounds) callsWith(tool, arguments, extra string) (asked bool) {
	r.t.Helper()
	before := r.h.asked
	r.seq++
	r.call = r.seq
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,%s"name":%q,"arguments":%s}}`, r.seq, modernMeta, extra, tool, arguments)
	r.a.Submit(Submission{Seq: r.seq, Side: wire.FromAgent, Line: []byte(line)})
	v := <-r.c
	if v.Move == Ask {
		r.h.answers <- Answer{ID: "A-1", Approved: true}
		v = <-r.c
	}
	if v.Move != Forward || string(v.Line) != line || v.Approval != "A-1" {
		r.t.Fatalf("got %+v", v)
	}
	return r.h.asked > before
}

// answers has the server ask for another round of the last call.
func (r *rounds) answers(extra string) {
	r.t.Helper()
	r.seq++
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required",%s"inputRequests":{}}}`, r.call, extra)
	r.a.Submit(Submission{Seq: r.seq, Side: wire.FromServer, Line: []byte(line), Answers: "tools/call", Call: r.call, Modern: true})
	if v := <-r.c; v.Move != Forward {
		r.t.Fatalf("the server's answer: %+v", v)
	}
}

func TestRetriedCalls(t *testing.T) {
	const (
		state = `"requestState":"s",`
		given = `"inputResponses":{"a":{"action":"accept"}},`
	)
	begin := func(t *testing.T, extra string) *rounds {
		r := newRounds(t)
		if !r.calls("") {
			t.Fatal("nobody was asked")
		}
		r.answers(extra)
		return r
	}
	for _, tt := range []struct {
		name  string
		given string // the server's answer
		retry func(r *rounds) bool
		asked bool
	}{
		{"with the state that was given", state, func(r *rounds) bool { return r.calls(state + given) }, false},
		{"without answers", state, func(r *rounds) bool { return r.calls(state) }, false},
		{"with another state", state, func(r *rounds) bool { return r.calls(`"requestState":"t",` + given) }, true},
		{"with the same state in other bytes", state, func(r *rounds) bool { return r.calls(`"requestState":"\u0073",` + given) }, true},
		{"without the state", state, func(r *rounds) bool { return r.calls(given) }, true},
		{"without a state where none was given", "", func(r *rounds) bool { return r.calls(given) }, false},
		{"with one that was not given", "", func(r *rounds) bool { return r.calls(state + given) }, true},
		{"as if it were the first", "", func(r *rounds) bool { return r.calls("") }, true},
		{"with other arguments", state, func(r *rounds) bool { return r.callsWith("rm", `{"path":"/y"}`, state+given) }, true},
		{"with the same arguments in other bytes", state, func(r *rounds) bool { return r.callsWith("rm", `{"path": "/x"}`, state+given) }, true},
		{"of another tool", state, func(r *rounds) bool { return r.callsWith("rmdir", `{"path":"/x"}`, state+given) }, true},
		{"twice with one state", state, func(r *rounds) bool { r.calls(state + given); return r.calls(state + given) }, true},
		{"with something beside it", state, func(r *rounds) bool { return r.calls(state + given + `"destination":"prod",`) }, true},
		{"as a task", state, func(r *rounds) bool { return r.calls(state + given + `"task":{"ttl":1},`) }, true},
		{"when more is true of it", state, func(r *rounds) bool {
			r.h.set(func() { r.h.facts = []Fact{{Name: "secret"}} })
			return r.calls(state + given)
		}, true},
		{"for another reason", state, func(r *rounds) bool {
			r.h.set(func() { r.h.ruling.Rule = "secrets" })
			return r.calls(state + given)
		}, true},
		{"of somebody else", state, func(r *rounds) bool {
			r.h.set(func() { r.h.ruling.Workflow = "boss" })
			return r.calls(state + given)
		}, true},
		{"elsewhere", state, func(r *rounds) bool {
			r.a.Close(true)
			r.a = r.h.gate.Attach(context.Background(), Shim{Attachment: "fedcba9876543210", Server: shimX.Server}, nil)
			r.c = collect(r.a)
			return r.calls(state + given)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := begin(t, tt.given)
			defer func() { r.a.Close(true) }()
			if got := tt.retry(r); got != tt.asked {
				t.Errorf("a person was asked: %v, want %v", got, tt.asked)
			}
		})
	}
}

// The other gates judge each round separately.
func TestRetriedCallsAreJudged(t *testing.T) {
	r := newRounds(t)
	defer r.a.Close(true)
	r.calls("")
	r.answers("")
	r.h.set(func() { r.h.ruling = denies })
	r.a.Submit(Submission{Seq: 99, Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{` + modernMeta + `,"inputResponses":{},"name":"rm","arguments":{"path":"/x"}}}`)})
	if v := <-r.c; v.Move != Deny || !strings.Contains(string(v.Answer), "not here") {
		t.Errorf("got %+v", v)
	}
}

// A call that nobody was asked about, or that the server did not ask to repeat, continues
// nothing.
func TestRetriesNeedAYes(t *testing.T) {
	r := newRounds(t)
	defer r.a.Close(true)
	r.h.set(func() { r.h.ruling.Move = Forward })
	r.a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + modernMeta + `,"name":"rm","arguments":{"path":"/x"}}}`)})
	<-r.c
	r.seq, r.call = 1, 1
	r.answers("")
	r.h.set(func() { r.h.ruling.Move = Ask })
	if !r.calls(`"inputResponses":{},`) {
		t.Error("a call that was forwarded is carried on as if a person had approved it")
	}
	if !r.calls(`"inputResponses":{},`) {
		t.Error("a call is carried on before the server has asked for it")
	}
}

// One approval covers a limited number of rounds and a limited time.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(t)
		defer r.a.Close(true)
		r.calls("")
		for round := 1; round <= mostRounds; round++ {
			r.answers(fmt.Sprintf(`"requestState":%d,`, round))
			if r.calls(fmt.Sprintf(`"requestState":%d,`, round)) {
				t.Fatalf("round %d: a person was asked again", round)
			}
		}
		r.answers("")
		if !r.calls(`"inputResponses":{},`) {
			t.Errorf("nobody was asked after %d rounds", mostRounds)
		}
		r.answers("")
		time.Sleep(10*time.Minute + time.Second)
		if !r.calls(`"inputResponses":{},`) {
			t.Error("nobody was asked when the yes had grown old")
		}
		for i := range 2 * mostYeses {
			r.callsWith("rm", fmt.Sprintf(`{"path":"/%d"}`, i), "")
		}
		if n := len(r.a.retries.yeses); n != mostYeses {
			t.Errorf("%d yeses are remembered, want %d", n, mostYeses)
		}
	})
}
