package sampling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/provider"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// fixture is a fixture: a gate whose stages the test plays, with extensions.
type fixture struct {
	answerer *Answerer
	cfg      config.Sampling
	says     []string // the provider's answers, in order
	hangs    bool     // it does not answer
	rule     map[string]gate.Ruling
	hooks    bool   // an extension rewrites arguments and results of tools
	hidden   string // a tool that agents may not see

	mu      sync.Mutex
	asked   []string // requests to the provider
	called  []string // arguments of called tools
	records []string
	heard   []string
	forgot  []string
	yes     chan bool // a person's answers
}

func newFixture(t *testing.T) *fixture {
	h := &fixture{yes: make(chan bool, 1), rule: map[string]gate.Ruling{}}
	h.cfg = config.Sampling{Provider: "notes/claude", When: config.SamplingAlways, MaxIterations: 3, MaxTokens: 50}
	g := &gate.Gate{
		Policy: func() gate.Policy { return h }, Facts: h, Hooks: h, Approver: h, Recorder: h, Logger: slog.New(slog.DiscardHandler),
	}
	h.answerer = &Answerer{Config: func() *config.Sampling { return &h.cfg }, Extensions: h, Gate: g, Logger: g.Logger}
	g.Sampler = h.answerer
	return h
}

func (h *fixture) tools(globs ...string) *fixture {
	for _, text := range globs {
		g, err := config.NewGlob(text)
		if err != nil {
			panic(err)
		}
		h.cfg.Tools = append(h.cfg.Tools, g)
	}
	return h
}

func (h *fixture) Models(extension, name string) ([]string, error) {
	if extension != "notes" || name != "claude" {
		return nil, errors.New("no such provider")
	}
	return []string{"large", "small"}, nil
}

func (h *fixture) Complete(ctx context.Context, extension string, p provider.Params) (provider.Result, error) {
	h.note(&h.asked, string(p.Append(nil)))
	if h.hangs {
		<-ctx.Done()
		return provider.Result{}, context.Cause(ctx)
	}
	if len(h.says) == 0 {
		return provider.Result{}, errors.New("the key sk-1 is wrong")
	}
	raw := h.says[0]
	h.says = h.says[1:]
	return provider.ReadResult([]byte(raw))
}

func (h *fixture) Offers() []Offer { return []Offer{{Name: "notes", Extension: h}} }
func (h *fixture) Version() string { return "1.0" }
func (h *fixture) Tools() []protocol.Tool {
	return []protocol.Tool{one("add"), one("wipe"), one("taken")}
}

func one(name string) protocol.Tool {
	return protocol.Tool{Name: name, Description: "does " + name, InputSchema: []byte(`{"type":"object"}`)}
}

func (h *fixture) Call(_ context.Context, tool string, input []byte) ([]byte, error) {
	h.note(&h.called, tool+" "+string(input))
	if tool == "wipe" {
		return nil, errors.New("cannot wipe")
	}
	return []byte(`{"content":[{"type":"text","text":"added"}]}`), nil
}

func (h *fixture) Rule(_ context.Context, c *gate.Call, _ []gate.Fact) (gate.Ruling, error) {
	if r, ok := h.rule[c.Server+"/"+c.Subject]; ok {
		return r, nil
	}
	return gate.Ruling{Move: gate.Forward, Gate: "rule"}, nil
}
func (h *fixture) Visible(_ *gate.Call, _, name string) bool  { return name != h.hidden }
func (h *fixture) Whom(*gate.Ruling)                          {}
func (h *fixture) Profile() gate.Profile                      { return gate.Production }
func (h *fixture) Digest() string                             { return "set-1" }
func (h *fixture) Of(context.Context, *gate.Call) []gate.Fact { return nil }
func (h *fixture) Observe(m *gate.Observation)                { h.note(&h.heard, fmt.Sprint(m.Server, " ", m.Method)) }
func (h *fixture) Forwarded(*gate.Call)                       {}
func (h *fixture) Forget(session, attachment string)          { h.note(&h.forgot, session+"/"+attachment) }

func (h *fixture) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	h.note(&h.records, fmt.Sprintf("%s %s %s %s %s", r.Kind, r.Server, r.Method, r.Tool, r.Verdict))
	return nil
}

func (h *fixture) Ask(context.Context, *gate.Question) (gate.Held, error) { return h, nil }
func (h *fixture) ID() string                                             { return "A-1" }
func (h *fixture) Wait(ctx context.Context) (gate.Answer, error) {
	select {
	case yes := <-h.yes:
		return gate.Answer{ID: "A-1", Approved: yes, State: "rejected"}, nil
	case <-ctx.Done():
		return gate.Answer{}, context.Cause(ctx)
	}
}

func (h *fixture) Wants(c *gate.Call, _ bool) bool { return h.hooks && c.Method == "tools/call" }
func (h *fixture) Revision() uint64                { return 1 }
func (h *fixture) Who(*gate.Call, bool) []string   { return []string{"hook"} }
func (h *fixture) Before(context.Context, *gate.Call) gate.Hooked {
	return gate.Hooked{Move: gate.Forward, Changed: []byte(`{"by":"hook"}`), By: []string{"hook"}}
}
func (h *fixture) After(_ context.Context, c *gate.Call, result []byte) gate.Hooked {
	if strings.Contains(string(result), "isError") {
		return gate.Hooked{Move: gate.Deny, By: []string{"hook"}, Reason: "it says too much"}
	}
	return gate.Hooked{Move: gate.Forward, Changed: []byte(`{"content":[{"type":"text","text":"less"}]}`), By: []string{"hook"}}
}

func (h *fixture) note(to *[]string, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*to = append(*to, what)
}

// ask submits a sampling request of a server and returns the last verdict.
func (h *fixture) ask(t *testing.T, params string) gate.Verdict {
	t.Helper()
	a := h.answerer.Gate.Attach(context.Background(), gate.Shim{Attachment: "attachment-0001", Server: "srv", Session: "s-1"}, nil)
	defer a.Close(true)
	verdicts := make(chan gate.Verdict, 8)
	a.Bind(func(v gate.Verdict) { verdicts <- v })
	a.Submit(gate.Submission{Seq: 1, Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{` + params + `}}`)})
	for {
		select {
		case v := <-verdicts:
			if v.Move != gate.Ask {
				return v
			}
		case <-time.After(time.Minute):
			t.Fatal("no verdict")
		}
	}
}

const (
	ends = `{"content":[{"type":"text","text":"done"}],"stop_reason":"end_turn"}`
	done = `{"jsonrpc":"2.0","id":5,"result":{"content":{"text":"done","type":"text"},"model":"claude/large","role":"assistant","stopReason":"endTurn"}}`
)

func use(name, input string) string {
	return `{"content":[{"type":"tool_use","id":"u1","name":"` + name + `","input":` + input + `}],"stop_reason":"tool_use"}`
}

// TestAnswer follows a server's request from the gate to a provider and back, with and without
// tools.
func TestAnswer(t *testing.T) {
	deny := gate.Ruling{Move: gate.Deny, Gate: "rule", Rule: `"add"`, Reason: "not today"}
	person := gate.Ruling{Move: gate.Ask, Gate: "rule", Reason: "a person must agree"}
	tests := []struct {
		name   string
		set    func(h *fixture)
		params string
		says   []string
		want   string // the answer
		in     string // part of the last request to the model
		called string
	}{
		{name: "text", says: []string{ends}, want: done, in: `"provider_id":"claude","model_id":"large","model":"claude/large"`},
		{name: "no more tokens than allowed", params: `,"maxTokens":1000`, says: []string{ends}, want: done, in: `"max_tokens":50`},
		{name: "a hint", params: `,"modelPreferences":{"hints":[{"name":"small"}]}`, says: []string{ends}, want: `"model":"claude/small"`},
		{name: "a model that is configured", set: func(h *fixture) { h.cfg.Provider = "notes/claude:large" }, params: `,"modelPreferences":{"hints":[{"name":"small"}]}`, says: []string{ends}, want: done},
		{name: "no tools of ours", says: []string{use("add", "{}"), ends}, want: done, in: "Unknown tool: add"},
		{name: "a tool of ours", set: func(h *fixture) { h.tools("notes/*") }, says: []string{use("add", `{"n":1}`), ends}, want: done,
			in: `"tool_use_id":"u1","content":"added"}`, called: `add {"n":1}`},
		{name: "a tool that is not named", set: func(h *fixture) { h.tools("notes/w*") }, says: []string{use("add", `{}`), ends}, want: done, in: "Unknown tool: add"},
		{name: "a tool that agents may not see", set: func(h *fixture) { h.tools("notes/*"); h.hidden = "add" }, says: []string{use("add", `{}`), ends}, want: done, in: "Unknown tool: add"},
		{name: "a tool that is refused", set: func(h *fixture) { h.tools("notes/*"); h.rule["ext-notes/add"] = deny }, says: []string{use("add", `{}`), ends}, want: done,
			in: `"content":"Not executed. Denied by rule \"add\": not today. Repeating the call will not help; ask the user.`},
		{name: "a tool that a person refuses", set: func(h *fixture) { h.tools("notes/*"); h.rule["ext-notes/add"] = person; h.yes <- false }, says: []string{use("add", `{}`), ends}, want: done,
			in: `Not executed. A person denied it (A-1)`},
		{name: "a tool that a person permits", set: func(h *fixture) { h.tools("notes/*"); h.rule["ext-notes/add"] = person; h.yes <- true }, says: []string{use("add", `{}`), ends}, want: done,
			in: `"content":"added"}`, called: `add {}`},
		{name: "a tool that fails", set: func(h *fixture) { h.tools("notes/*") }, says: []string{use("wipe", `{}`), ends}, want: done,
			in: `"content":"Tool execution failed: cannot wipe","is_error":true}`, called: `wipe {}`},
		{name: "a tool that a hook changes", set: func(h *fixture) { h.tools("notes/*"); h.hooks = true }, says: []string{use("add", `{}`), ends}, want: done,
			in: `this is the result of the changed call.\nless"}`, called: `add {"by":"hook"}`},
		{name: "a result that a hook withholds", set: func(h *fixture) { h.tools("notes/*"); h.hooks = true }, says: []string{use("wipe", `{}`), ends}, want: done,
			in: `it says too much`, called: `wipe {"by":"hook"}`},
		{name: "a tool of the server", set: func(h *fixture) { h.tools("notes/*") }, params: `,"tools":[{"name":"taken"}]`, says: []string{use("taken", `{"a":1}`)},
			want: `{"jsonrpc":"2.0","id":5,"result":{"content":{"id":"u1","input":{"a":1},"name":"taken","type":"tool_use"},"model":"claude/large","role":"assistant","stopReason":"toolUse"}}`},
		{name: "tools without end", set: func(h *fixture) { h.tools("notes/*") }, says: []string{use("add", `{}`), use("add", `{}`), use("add", `{}`)}, want: `"code":-31005`, called: `add {} add {}`},
		{name: "a provider that fails", want: `"code":-31005`},
		{name: "a provider that is not there", set: func(h *fixture) { h.cfg.Provider = "notes/gone" }, want: `"code":-31005`},
		{name: "a question that is none", params: `,"toolChoice":{"mode":"some"}`, want: `"error":{"code":-32602,"message":"invalid: invalid params of sampling/createMessage: a toolChoice with an unknown mode"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t)
			h.says = test.says
			if test.set != nil {
				test.set(h)
			}
			params := hi
			if strings.Contains(test.params, "maxTokens") {
				params = strings.Replace(hi, `,"maxTokens":9`, "", 1)
			}
			v := h.ask(t, params+test.params)
			if v.Move != gate.Deny || !strings.Contains(string(v.Answer), test.want) || strings.Contains(string(v.Answer), "sk-1") {
				t.Errorf("got  %v %s\nwant %s", v.Move, v.Answer, test.want)
			}
			if n := len(h.asked); n > 0 && !strings.Contains(h.asked[n-1], test.in) {
				t.Errorf("the last question is\n%s\nwhich has no\n%s", h.asked[n-1], test.in)
			}
			if got := strings.Join(h.called, " "); got != test.called {
				t.Errorf("called %q, want %q", got, test.called)
			}
		})
	}
}

// TestOnRecord: a model's calls of tools are judged, recorded and heard like an agent's.
func TestOnRecord(t *testing.T) {
	h := newFixture(t).tools("notes/add")
	h.says = []string{use("add", `{}`), ends}
	h.ask(t, hi)
	want := []string{
		"call srv sampling/createMessage  forward",
		"call ext-notes tools/list  forward",
		"call ext-notes tools/call add forward",
		"outcome ext-notes tools/call add ok",
		"outcome srv sampling/createMessage  ok",
	}
	if got := strings.Join(h.records, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("records\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got := strings.Join(h.heard, ", "); got != "srv sampling/createMessage, ext-notes tools/list, ext-notes tools/call, srv sampling/createMessage" {
		t.Errorf("heard %s", got)
	}
	if len(h.forgot) != 0 {
		t.Errorf("forgot %v, and the session goes on", h.forgot)
	}
}

// TestGivenUp: after a cancellation neither the model nor tools are called.
func TestGivenUp(t *testing.T) {
	h := newFixture(t).tools("notes/*")
	h.hangs = true
	a := h.answerer.Gate.Attach(context.Background(), gate.Shim{Attachment: "attachment-0001", Server: "srv"}, nil)
	a.Bind(func(gate.Verdict) {})
	a.Submit(gate.Submission{Seq: 1, Side: wire.FromServer, Line: []byte(`{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{` + hi + `}}`)})
	a.Cancel(1)
	a.Close(true) // returns when nothing runs any more
	if len(h.asked) > 1 || len(h.called) != 0 {
		t.Errorf("asked %d times, called %v", len(h.asked), h.called)
	}
	if len(h.asked) == 1 && len(h.forgot) != 1 {
		t.Errorf("forgot %v; a client without a session has a memory of its own", h.forgot)
	}
}

func TestWho(t *testing.T) {
	tests := []struct {
		provider string
		when     config.SamplingWhen
		rule     string
		unable   bool
		want     string
	}{
		{"", config.SamplingAlways, gate.AnswerProvider, true, ""},
		{"n/p", config.SamplingUnable, "", false, ""},
		{"n/p", config.SamplingUnable, "", true, "n/p"},
		{"n/p", config.SamplingUnable, gate.AnswerAgent, true, ""},
		{"n/p", config.SamplingAlways, "", false, "n/p"},
		{"n/p", config.SamplingAlways, gate.AnswerAgent, false, ""},
		{"n/p", config.SamplingNever, "", true, ""},
		{"n/p", config.SamplingNever, gate.AnswerProvider, false, "n/p"},
	}
	for _, test := range tests {
		a := &Answerer{Config: func() *config.Sampling { return &config.Sampling{Provider: test.provider, When: test.when} }}
		if got := a.Who(nil, test.rule, test.unable); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
