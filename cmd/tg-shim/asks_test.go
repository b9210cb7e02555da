package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// desk is a pair with a client that answers the questions.
type desk struct {
	*pair
	fixture *rig.Fixture
	c       *client.Client
}

// startDesk starts a pair whose tg-shim is not a child of the test: the parent of a tg-shim
// counts as an agent, and agents may not decide.
func startDesk(t *testing.T, configuration string) *desk {
	t.Helper()
	h := newFixture(t, configuration)
	h.StartDaemon()
	d := &desk{pair: startPair(t, h, rig.Options{Agent: true}), fixture: h}
	d.dial()
	return d
}

// dial connects to the current daemon.
func (d *desk) dial() {
	d.t.Helper()
	c, err := client.Dial(d.t.Context(), client.WithSocket(d.fixture.Path("run/thoughtgate/control.sock")))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	d.c = c
}

// questions waits until that many questions are waiting, and returns them.
func (d *desk) questions(n int) []*pb.Approval {
	d.t.Helper()
	var open []*pb.Approval
	eventually(d.t, fmt.Sprintf("%d questions are open", n), func() bool {
		var err error
		if open, err = d.c.ListApprovals(d.t.Context(), false); err != nil {
			d.t.Fatal(err)
		}
		return len(open) == n
	})
	return open
}

// decide answers the only waiting question, which must be about method.
func (d *desk) decide(method string, answer pb.Answer) *pb.Approval {
	d.t.Helper()
	q := d.questions(1)[0]
	if q.GetMethod() != method {
		d.t.Errorf("a person is asked about %s, want %s", q.GetMethod(), method)
	}
	if _, err := d.c.Decide(d.t.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: answer, Note: "so be it", Surface: "terminal"}); err != nil {
		d.t.Fatal(err)
	}
	return q
}

// crosses has the agent write a line, which the server must read next; returns is the reverse.
func (d *desk) crosses(line string) { d.t.Helper(); d.agent(line); d.serverReads(line) }
func (d *desk) returns(line string) { d.t.Helper(); d.server(line); d.agentReads(line) }

// reload puts a configuration in force, by a call or by a signal.
func (d *desk) reload(configuration string, signal bool) {
	d.t.Helper()
	before, err := d.c.PolicySet(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	d.fixture.Configure(configuration)
	if !signal {
		if _, err := d.c.Reload(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
		return
	}
	d.fixture.Daemon.Signal(syscall.SIGHUP)
	eventually(d.t, "the set is in force", func() bool {
		now, err := d.c.PolicySet(d.t.Context())
		return err == nil && now.GetDigest() != before.GetDigest()
	})
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

// When a reload changes what an agent may see, or a person accepts a definition, the agent is
// notified that its list has changed: in the legacy era if the server announced such
// notifications, in the modern one on each subscription to them that the server has
// acknowledged. Otherwise it gets no notification.
func TestAgentIsToldOfItsLists(t *testing.T) {
	const (
		base   = "schema: 1\ngovernance: {defaults: {action: forward, asks: forward}}\n"
		hides  = base + "sources: [{id: x, kind: mcp, expose: {mode: blocklist, tools: [a]}}]\n"
		other  = base + "limits: {pending: 99}\n"
		prompt = base + "sources: [{id: x, kind: mcp, expose: {mode: blocklist, prompts: [p]}}]\n"
		legacy = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		modern = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`
	)
	for _, tt := range []struct {
		name   string
		params string // of a request without others
		begin  func(d *desk)
		told   []string
	}{
		{"legacy", ``, func(d *desk) {
			d.crosses(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
			d.returns(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{}}}}`)
		}, []string{legacy}},
		{"legacy, without the capability", ``, func(d *desk) {
			d.crosses(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
			d.returns(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}`)
		}, nil},
		{"modern", `,"params":{` + modernMeta + `}`, func(d *desk) {
			for id, types := range map[string]string{`1`: `"toolsListChanged":true,"promptsListChanged":true`, `"two"`: `"promptsListChanged":true`, `3`: `"toolsListChanged":true`} {
				d.crosses(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{` + modernMeta + `,"notifications":{` + types + `}}}`)
			}
			// One subscription is acknowledged, one is for something else, and one has ended.
			d.returns(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}}`)
			d.returns(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"two"},"notifications":{"promptsListChanged":false}}}`)
			d.returns(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3},"notifications":{"toolsListChanged":true}}}`)
			d.returns(`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete"}}`)
		}, []string{fmt.Sprintf(modern, `1`)}},
		{"modern, without a subscription", `,"params":{` + modernMeta + `}`, func(d *desk) {}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := startDesk(t, base)
			tt.begin(d)
			n := 0
			// lists has the agent list the tools, of which the server has these.
			lists := func(tools, seen string) {
				t.Helper()
				n++
				d.crosses(fmt.Sprintf(`{"jsonrpc":"2.0","id":"l%d","method":"tools/list"%s}`, n, tt.params))
				d.server(fmt.Sprintf(`{"jsonrpc":"2.0","id":"l%d","result":{"tools":[%s]}}`, n, tools))
				if got := d.next(); !strings.Contains(got, `"tools":[`+seen+`]`) {
					t.Fatalf("the agent is shown %s, want %s", got, seen)
				}
			}
			// told expects one notification and nothing else.
			told := func() {
				t.Helper()
				d.agentReads(tt.told...)
				n++
				d.crosses(fmt.Sprintf(`{"jsonrpc":"2.0","id":"d%d","method":"server/discover"%s}`, n, tt.params))
				d.returns(fmt.Sprintf(`{"jsonrpc":"2.0","id":"d%d","error":{"code":-32601,"message":"Method not found"}}`, n))
			}
			const a, b, a2 = `{"name":"a","inputSchema":{}}`, `{"name":"b","inputSchema":{}}`, `{"name":"a","description":"another","inputSchema":{}}`
			lists(a+`,`+b, a+`,`+b)
			d.reload(other, false) // changes nothing that an agent sees
			d.reload(prompt, true) // changes only what nobody has listed
			d.reload(hides, false)
			told()
			lists(a+`,`+b, b)
			d.reload(base, true)
			told()
			lists(a+`,`+b, a+`,`+b)

			// The definition of a changes; it is withheld until a person accepts it.
			lists(a2+`,`+b, b)
			pins, err := d.c.ListPins(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range pins {
				if p.GetHeld() {
					if _, err := d.c.AcceptPins(t.Context(), &pb.AcceptPinsRequest{Pins: []*pb.PinAcceptance{{Ref: p.GetRef(), Definition: p.GetWaiting()}}, Surface: "terminal"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			told()
			lists(a2+`,`+b, a2+`,`+b)
		})
	}
}

// A question in a server's result is held like a question in a request of the server:
// everything else is forwarded, an approval forwards the exact bytes, a denial replaces them
// with an error, and no question outlives the call.
func TestAnswersAreHeld(t *testing.T) {
	t.Parallel()
	d := startDesk(t, strings.NewReplacer("asks: forward", "asks: approve", "reattach: 1s", "reattach: 1m").Replace(forwardAll))
	const (
		call = `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{` + modernMeta + `,"name":"t","arguments":{}}}`
		asks = `{"jsonrpc":"2.0" ,"id":%q,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}},"f":{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object"}}}},"requestState":"s\u0074"}}`
		ping = `{"jsonrpc":"2.0","id":%q,"method":"tasks/cancel","params":{` + modernMeta + `,"taskId":"t"}}`
		pong = `{"jsonrpc":"2.0","id":%q,"result":{"resultType":"complete"}}`
	)
	// held has the server answer a call with its questions, and checks that others are not
	// blocked.
	held := func(id string) {
		t.Helper()
		d.crosses(fmt.Sprintf(call, id))
		d.server(fmt.Sprintf(asks, id))
		if reason := d.questions(1)[0].GetReason(); !strings.HasSuffix(reason, "; part of the server's answer to t") {
			t.Errorf("the question does not name the tool: %q", reason)
		}
		d.crosses(fmt.Sprintf(ping, id+"p"))
		d.returns(fmt.Sprintf(pong, id+"p"))
	}
	held("yes")
	d.decide("sampling/createMessage, elicitation/create", pb.Answer_ANSWER_APPROVE)
	d.agentReads(fmt.Sprintf(asks, "yes"))

	held("no")
	d.decide("sampling/createMessage, elicitation/create", pb.Answer_ANSWER_DENY)
	if got := d.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"no","result":{"content":[{"type":"text","text":"Not executed. `) || !strings.Contains(got, "so be it") || !strings.HasSuffix(got, `"isError":true,"resultType":"complete"}}`) {
		t.Errorf("after a no the agent reads %s", got)
	}

	held("gone")
	d.agent(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"gone"}}`)
	d.questions(0)

	held("kept") // over a restart of the daemon
	d.fixture.StopDaemon()
	d.fixture.StartDaemon()
	d.dial()
	d.decide("sampling/createMessage, elicitation/create", pb.Answer_ANSWER_APPROVE)
	d.agentReads(fmt.Sprintf(asks, "kept"))
	d.crosses(fmt.Sprintf(ping, "last")) // nothing that was cancelled or denied has reached anybody
	d.returns(fmt.Sprintf(pong, "last"))
}

// A result with a forbidden question is replaced as a whole. Allowed questions beside it, and
// other results, are not changed.
func TestForbiddenAskBesideAnAllowedOne(t *testing.T) {
	t.Parallel()
	d := startDesk(t, strings.Replace(forwardAll, "asks: forward", "asks: deny", 1))
	const (
		form     = `"f":{"method":"elicitation/create","params":{"mode":"form","message":"m\u0065","requestedSchema":{"type":"object"}}}`
		sampling = `"s":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1.0}}`
	)
	for id, tt := range []struct{ asks, told string }{
		{form, ""},
		{form + `, ` + sampling, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Not executed. Denied by rule defaults.asks`},
		{form, ""},
	} {
		d.crosses(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"name":"t"}}`, id, modernMeta))
		answer := fmt.Sprintf(`{"jsonrpc":"2.0" ,"id":%d,"result":{ "resultType":"input_required","inputRequests":{%s},"requestState":"x"}}`, id, tt.asks)
		if tt.told == "" {
			d.returns(answer)
			continue
		}
		d.server(answer)
		if got := d.next(); !strings.HasPrefix(got, tt.told) || strings.Contains(got, "inputRequests") {
			t.Errorf("got %s, want %s", got, tt.told)
		}
	}
}

// In whatever result a server puts a question, it reaches the agent only according to the
// rules, with a server of the session and with a shared server.
func TestForbiddenAskInAnyAnswer(t *testing.T) {
	t.Parallel()
	const sampling = `"inputRequests":{"s":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}`
	params := map[string]string{
		"resources/read": `"uri":"file:///a"`, "skills/get": `"uri":"skill://a"`, "resources/directory/read": `"uri":"file:///a"`,
		"prompts/get": `"name":"p"`, "tools/call": `"name":"t"`, "tasks/get": `"taskId":"t"`, "tasks/update": `"taskId":"t"`, "tasks/cancel": `"taskId":"t"`,
		"subscriptions/listen": `"notifications":{}`, "completion/complete": `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}`,
		"tasks/result": `"taskId":"t"`, "resources/subscribe": `"uri":"file:///a"`, "resources/unsubscribe": `"uri":"file:///a"`, "logging/setLevel": `"level":"info"`,
	}
	play := func(t *testing.T, p *pair, modern bool, but ...string) {
		n := 0
		for _, method := range mcp.Methods(wire.FromAgent) {
			rule := mcp.Lookup(wire.FromAgent, &wire.Envelope{Kind: wire.Request, Method: method, Modern: modern})
			if rule.Unknown || rule.Treatment == mcp.Refuse || method == "initialize" || slices.Contains(but, method) {
				continue
			}
			all := []string{params[method]}
			if modern {
				all = append(all, modernMeta)
			}
			all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
			for _, result := range []string{`{"resultType":"input_required",` + sampling + `}`, `{` + sampling + `}`, `{"resultType":"complete",` + sampling + `}`} {
				n++
				p.agent(fmt.Sprintf(`{"jsonrpc":"2.0","id":"n%d","method":%q,"params":{%s}}`, n, method, strings.Join(all, ",")))
				p.answer(p.serverNext(method), result)
				if got := p.next(); strings.Contains(got, "inputRequests") || !strings.Contains(got, "Not executed. Denied by rule defaults.asks") || !strings.Contains(got, fmt.Sprintf(`"id":"n%d"`, n)) {
					t.Errorf("%s answered with %s: the agent reads %s", method, result, got)
				}
			}
		}
		if n < 30 {
			t.Errorf("%d answers, want one for each method", n)
		}
	}
	forbids := func(configuration string) *rig.Fixture {
		h := newFixture(t, strings.Replace(configuration, "asks: forward", "asks: deny", 1))
		h.StartDaemon()
		return h
	}
	t.Run("own/legacy", func(t *testing.T) { play(t, startPair(t, forbids(forwardAll), rig.Options{}), false) })
	t.Run("own/modern", func(t *testing.T) { play(t, startPair(t, forbids(forwardAll), rig.Options{}), true) })
	t.Run("shared", func(t *testing.T) {
		p := &pair{Shim: forbids(shareAll).Shim(t, rig.Options{}), t: t}
		p.greet()
		// The pool answers these itself or does not know them, so the results do not come from
		// the server.
		play(t, p, false, "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel")
	})
}

// The error by which a server of the legacy era sends a person to a page is a question like any
// other.
func TestPagesAreAsks(t *testing.T) {
	t.Parallel()
	d := startDesk(t, strings.Replace(forwardAll, "asks: forward", "asks: approve", 1))
	const page = `{"jsonrpc":"2.0","id":%d,"error":{"code":-32042,"message":"first","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://example.com","message":"m"}]}}}`
	for id, answer := range []pb.Answer{pb.Answer_ANSWER_APPROVE, pb.Answer_ANSWER_DENY} {
		d.crosses(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, id))
		d.server(fmt.Sprintf(page, id))
		d.decide("elicitation/create", answer)
		if got := d.next(); (got == fmt.Sprintf(page, id)) != (answer == pb.Answer_ANSWER_APPROVE) || !strings.Contains(got, fmt.Sprintf(`"id":%d,`, id)) {
			t.Errorf("after %v the agent reads %s", answer, got)
		}
	}
}

// A form is forwarded if no rule names forms, unless it asks for credentials by name: then a
// person is asked first.
func TestFormForCredentials(t *testing.T) {
	t.Parallel()
	d := startDesk(t, strings.Replace(forwardAll, "asks: forward", "asks: approve", 1))
	const form = `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{%q:{"type":"string"}}}}}`
	d.returns(fmt.Sprintf(form, 1, "branch"))
	d.server(fmt.Sprintf(form, 2, "github_password"))
	if q := d.decide("elicitation/create", pb.Answer_ANSWER_DENY); !strings.Contains(strings.Join(q.GetFacts(), "; "), "asks the user for credentials by name (password)") {
		t.Errorf("the question knows %q", q.GetFacts())
	}
	d.serverReads(`{"jsonrpc":"2.0","id":2,"result":{"action":"decline"}}`)
}

// A retried call asks the person once; with another requestState, again; after a change of the
// policy it is denied.
func TestRetriedCallAsksOnce(t *testing.T) {
	t.Parallel()
	d := startDesk(t, forwardAll)
	call := func(id, extra string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{%s,%s"name":"held","arguments":{"a":1}}}`, id, modernMeta, extra)
	}
	again := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"resultType":"input_required","inputRequests":{},"requestState":"round-%s"}}`, id, id)
	}
	d.agent(call("1", ""))
	first := d.decide("tools/call", pb.Answer_ANSWER_APPROVE)
	d.serverReads(call("1", ""))
	d.returns(again("1"))

	const given = `"inputResponses":{"q":{"action":"accept"}},"requestState":"round-%s",`
	d.crosses(call("2", fmt.Sprintf(given, "1"))) // no question
	d.returns(again("2"))

	d.agent(call("3", fmt.Sprintf(given, "1"))) // that round is over
	if q := d.decide("tools/call", pb.Answer_ANSWER_APPROVE); q.GetId() == first.GetId() {
		t.Errorf("the question is the first again")
	}
	d.serverReads(call("3", fmt.Sprintf(given, "1")))
	d.returns(again("3"))

	d.reload(strings.Replace(forwardAll, "action: approve", "action: deny", 1), false)
	d.agent(call("4", fmt.Sprintf(given, "3")))
	if got := d.next(); !strings.Contains(got, `"id":"4"`) || !strings.Contains(got, "Not executed. Denied by rule") {
		t.Errorf("under a rule that denies it: %s", got)
	}
	d.questions(0)
}
