package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	sampling = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
	page     = `{"method":"elicitation/create","params":{"mode":"url","url":"https://example.com","elicitationId":"e","message":"m"}}`
	form     = `{"method":"elicitation/create","params":{"mode":"form","message":"m"}}`
)

// byMethod forwards everything except the methods that it contains.
func byMethod(rulings map[string]Ruling) func(*Call) Ruling {
	return func(c *Call) Ruling {
		if r, ok := rulings[c.Method]; ok {
			return r
		}
		return Ruling{Move: Forward, Gate: "rule"}
	}
}

var (
	denies   = Ruling{Move: Deny, Gate: "rule", Rule: "r", Code: mcp.CodeRule, Reason: "not here"}
	opsAsks  = Ruling{Move: Ask, Gate: "rule", Rule: "r1", Workflow: "ops", Reason: "sampling costs"}
	alsoOps  = Ruling{Move: Ask, Gate: "rule", Rule: "r2", Workflow: "ops", Reason: "pages lie"}
	bossAsks = Ruling{Move: Ask, Gate: "rule", Rule: "r3", Workflow: "boss", Reason: "money"}
)

// An ask is judged in the same way wherever it occurs: as the equivalent request.
func TestAsksInsideAnswers(t *testing.T) {
	inside := func(asks ...string) string {
		var all []string
		for i, a := range asks {
			all = append(all, fmt.Sprintf(`"q%d":%s`, i, a))
		}
		return `"inputRequests":{` + strings.Join(all, ",") + `}`
	}
	result := func(asks ...string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required",` + inside(asks...) + `,"requestState":"s" }}`
	}
	task := func(asks ...string) string {
		return `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t",` + inside(asks...) + `}}`
	}
	pages := func(mode string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{` + mode + `"elicitationId":"e","url":"https://example.com","message":"m"}]}}}`
	}
	for _, tt := range []struct {
		name    string
		line    string
		answers string
		rulings map[string]Ruling
		move    Move
		told    string // part of the answer
		asked   string // method that a person is shown
		shown   string // part of the params that a person is shown
	}{
		{"none needs a word", result(sampling, form), "tools/call", nil, Forward, "", "", ""},
		{"one is refused", result(form, sampling), "tools/call", map[string]Ruling{"sampling/createMessage": denies}, Deny, `"isError":true,"resultType":"complete"`, "", ""},
		{"of a read", result(sampling), "resources/read", map[string]Ruling{"sampling/createMessage": denies}, Deny, `"error":{"code":-31001`, "", ""},
		{"of a prompt", result(sampling), "prompts/get", map[string]Ruling{"sampling/createMessage": denies}, Deny, `"error":{"code":-31001`, "", ""},
		{"of a task", result(sampling), "tasks/get", map[string]Ruling{"sampling/createMessage": denies}, Deny, `"error":{"code":-31001`, "", ""},
		{"told of a task", task(sampling), "", map[string]Ruling{"sampling/createMessage": denies}, Deny, ``, "", ""},
		{"a task tells that it works", `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t"}}`, "", map[string]Ruling{"": denies}, Forward, ``, "", ""},
		{"one needs a person", result(form, sampling), "tools/call", map[string]Ruling{"sampling/createMessage": opsAsks}, Ask, ``,
			"elicitation/create, sampling/createMessage", `{"1":{"method":"elicitation/create","params":{"mode":"form","message":"m"}},"2":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}`},
		{"the only one needs a person", result(sampling), "tools/call", map[string]Ruling{"sampling/createMessage": opsAsks}, Ask, ``, "sampling/createMessage", `{"messages":[],"maxTokens":1}`},
		{"told of a task, one needs a person", task(page), "", map[string]Ruling{"elicitation/create": alsoOps}, Ask, ``, "elicitation/create", `"url":"https://example.com"`},
		{"two need the same", result(sampling, page), "tools/call", map[string]Ruling{"sampling/createMessage": opsAsks, "elicitation/create": alsoOps}, Ask, ``,
			"sampling/createMessage, elicitation/create", `{"1":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}},"2":{"method":"elicitation/create","params":{"mode":"url",`},
		{"two need different ones", result(sampling, page), "tools/call", map[string]Ruling{"sampling/createMessage": opsAsks, "elicitation/create": bossAsks}, Deny, `their workflows differ (ops, boss)`, "", ""},
		{"one is refused beside one that needs a person", result(sampling, page), "tools/call", map[string]Ruling{"sampling/createMessage": opsAsks, "elicitation/create": denies}, Deny, `not here`, "", ""},
		{"nobody can be asked", result(sampling), "tools/call", map[string]Ruling{"sampling/createMessage": {Move: Ask, Unable: "presence"}}, Deny, `could not be asked (presence)`, "", ""},
		{"a type that nobody knows", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"acme"}}`, "tools/call", nil, Deny, `unknown type`, "", ""},
		{"a type that is no text", `{"jsonrpc":"2.0","id":1,"result":{"resultType":1}}`, "tools/call", nil, Deny, `can't be read`, "", ""},
		{"asks that can't be read", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":[]}}`, "tools/call", nil, Deny, `can't be read`, "", ""},
		{"what is no ask", result(`{"params":{}}`), "tools/call", nil, Deny, `can't be read`, "", ""},

		{"of anything else", result(sampling), "completion/complete", map[string]Ruling{"sampling/createMessage": denies}, Deny, `"error":{"code":-31001`, "", ""},
		{"of a list", result(sampling), "tools/list", map[string]Ruling{"sampling/createMessage": denies}, Deny, `"error":{"code":-31001`, "", ""},
		{"of a list, one needs a person", result(sampling), "prompts/list", map[string]Ruling{"sampling/createMessage": opsAsks}, Ask, ``, "sampling/createMessage", `{"messages":[],"maxTokens":1}`},
		{"of a list that is none", result(sampling), "tools/list", nil, Forward, ``, "", ""},
		{"of a list that is one too", strings.Replace(result(sampling), `"requestState"`, `"tools":[{"name":"a"}],"requestState"`, 1), "tools/list", nil, Deny, `is a list of tools and carries a question`, "", ""},
		{"of a list in another type", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","tools":[{"name":"a"}]}}`, "tools/list", nil, Deny, `is a list of tools and carries a question`, "", ""},
		{"of a list whose asks nobody knows of", `{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{},"Tools":[]}}`, "tools/list", nil, Deny, `is a list of tools and carries a question`, "", ""},
		{"of what a task came to", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","result":{"inputRequests":{"q":` + form + `}}}}`, "tasks/get", nil, Deny, `contains another result that carries`, "", ""},
		{"told of what a task came to", `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","result":{"resultType":"input_required"}}}`, "", nil, Deny, ``, "", ""},
		{"told with something else", `{"jsonrpc":"2.0","method":"notifications/message","params":{` + inside(sampling) + `}}`, "", map[string]Ruling{"sampling/createMessage": denies}, Deny, ``, "", ""},

		{"as many as may be", result(slices.Repeat([]string{form}, maxAsks)...), "tools/call", nil, Forward, ``, "", ""},
		{"one more", result(slices.Repeat([]string{form}, maxAsks+1)...), "tools/call", nil, Deny, `more than 64`, "", ""},

		{"a page", pages(`"mode":"url",`), "tools/call", nil, Forward, "", "", ""},
		{"a page that is refused", pages(`"mode":"url",`), "tools/call", map[string]Ruling{"elicitation/create": denies}, Deny, `"isError":true}}`, "", ""},
		{"to a read", pages(`"mode":"url",`), "resources/read", map[string]Ruling{"elicitation/create": denies}, Deny, `"error":{"code":-31001`, "", ""},
		{"a page that needs a person", pages(`"mode":"url",`), "tools/call", map[string]Ruling{"elicitation/create": bossAsks}, Ask, ``, "elicitation/create", `"url":"https://example.com"`},
		{"a page that calls itself a form", pages(`"mode":"form",`), "tools/call", nil, Deny, `without a page`, "", ""},
		{"a page that calls itself nothing", pages(``), "tools/call", nil, Deny, `without a page`, "", ""},
		{"a page that no agent should open", strings.Replace(pages(`"mode":"url",`), "https:", "http:", 1), "tools/call", nil, Deny, `to another machine`, "", ""},
		{"inside a result", result(form, strings.Replace(page, "example.com", "example.com/$(id)", 1)), "tools/call", nil, Deny, `U+0024, which must be escaped`, "", ""},
		{"told of a task", task(strings.Replace(page, "https", "file", 1)), "", nil, Deny, ``, "", ""},
		{"asked for by itself", `{"jsonrpc":"2.0","id":1,` + strings.Replace(page, "https:", "javascript:", 1)[1:], "elicitation/create", nil, Deny, `{"action":"decline"}`, "", ""},
		{"of which a person is asked", result(strings.Replace(page, "https:", "http:", 1)), "tools/call", map[string]Ruling{"elicitation/create": bossAsks}, Deny, `to another machine`, "", ""},
		{"of this machine", result(strings.Replace(page, "https://example.com", "http://localhost:8080/a", 1)), "tools/call", nil, Forward, ``, "", ""},
		{"without an address", result(strings.Replace(page, `"url":"https://example.com",`, ``, 1)), "tools/call", nil, Deny, `its address is missing`, "", ""},
		{"pages that can't be read", `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":{}}}}`, "tools/call", nil, Deny, `not an array`, "", ""},
		{"no pages", `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m"}}`, "tools/call", map[string]Ruling{"elicitation/create": denies}, Forward, ``, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture()
			h.rule = byMethod(tt.rulings)
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			s := Submission{Seq: 1, Side: wire.FromServer, Line: []byte(tt.line), Answers: tt.answers, Modern: !strings.Contains(tt.line, "-32042")}
			a.Submit(s)
			v := <-c
			if v.Move != tt.move || !strings.Contains(string(v.Answer), tt.told) || v.Move == Forward && string(v.Line) != tt.line {
				t.Fatalf("got %v %s %s, want %v with %s", v.Move, v.Line, v.Answer, tt.move, tt.told)
			}
			if tt.answers == "" && v.Answer != nil {
				t.Errorf("a notification is answered: %s", v.Answer)
			}
			if tt.asked == "" {
				return
			}
			if r := h.records[0]; r.Verdict != "hold" || r.Direction != "server_to_agent" || r.Approval != "A-1" {
				t.Errorf("recorded %+v", r)
			}
			if q := h.question.Call; q.Method != tt.asked || !strings.Contains(string(q.Params()), tt.shown) {
				t.Errorf("a person is shown %s %s", q.Method, q.Params())
			}
			h.answers <- Answer{ID: "A-1", Approved: true}
			if v := <-c; v.Move != Forward || string(v.Line) != tt.line || v.Replaced {
				t.Errorf("after a yes: got %v %s", v.Move, v.Line)
			}
			s.Seq = 2
			a.Submit(s)
			<-c
			h.answers <- Answer{ID: "A-1", State: "rejected", Note: "no"}
			if v := <-c; v.Move != Deny || tt.answers != "" && !strings.Contains(string(v.Answer), "a person denied it (A-1): no") && !strings.Contains(string(v.Answer), "A person denied it (A-1): no") {
				t.Errorf("after a no: got %v %s", v.Move, v.Answer)
			}
		})
	}
}

// A question about an answer ends like any other: it is withdrawn with its call, judged again
// by the rules then in force, and asked again by the next daemon, with the same subject.
func TestAnswersWaitLikeCalls(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":` + sampling + `}}}`)
	s := Submission{Seq: 1, Side: wire.FromServer, Line: line, Answers: "tools/call", Modern: true}
	held := func(t *testing.T) (*fixture, *Attachment, <-chan Verdict) {
		h := newFixture()
		h.rule = byMethod(map[string]Ruling{"sampling/createMessage": opsAsks})
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		a.Submit(s)
		if v := <-c; v.Move != Ask || v.Approval != "A-1" {
			t.Fatalf("got %+v", v)
		}
		return h, a, c
	}
	t.Run("taken back", func(t *testing.T) {
		h, a, c := held(t)
		a.Cancel(1)
		a.Close(false) // waits for held lines
		if len(c) > 0 || h.verdicts() != "call:hold" {
			t.Errorf("a verdict, or a record: %s", h.verdicts())
		}
	})
	t.Run("the rules change", func(t *testing.T) {
		h, a, c := held(t)
		defer a.Close(true)
		h.set(func() { h.rule = byMethod(map[string]Ruling{"sampling/createMessage": denies}) })
		h.answers <- Answer{ID: "A-1", Approved: true}
		if v := <-c; v.Move != Deny {
			t.Errorf("got %v", v.Move)
		}
	})
	t.Run("development answers yes at once", func(t *testing.T) {
		h := newFixture()
		h.profile, h.rule = Development, byMethod(map[string]Ruling{"sampling/createMessage": opsAsks})
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		c := collect(a)
		a.Submit(s)
		if v := <-c; v.Move != Forward || h.verdicts() != "call:forward:WOULD_ASK" {
			t.Errorf("got %v, %s", v.Move, h.verdicts())
		}
	})
	t.Run("the next daemon", func(t *testing.T) {
		h, a, _ := held(t)
		a.Close(false)
		before := h.question.Subject
		h2, a2, c2 := held(t)
		if h2.question.Subject != before {
			t.Error("the subject is another one")
		}
		h2.answers <- Answer{ID: "A-1", Approved: true}
		<-c2
		a2.Close(true)
		other := s
		other.Line = []byte(strings.Replace(string(line), `"maxTokens":1`, `"maxTokens":9`, 1))
		h3 := newFixture()
		h3.rule = h2.rule
		a3 := h3.gate.Attach(context.Background(), shimX, nil)
		defer a3.Close(true)
		a3.Submit(other)
		if h3.question.Subject == before {
			t.Error("another answer has the same subject")
		}
	})
}
