package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// Tests of tg-shim with the real daemon, whose effect only the two together show.

// A forbidden question of a server is answered on behalf of the agent, which does not see it.
func TestAsksDenied(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
schema: 1
governance:
  defaults: {action: forward, asks: deny}
  rules:
    - {match: "*", method: roots/list, source: shy, action: deny}
    - {match: "*", method: elicitation/create, source: shy, action: deny}
pins: {mode: off}
`)
	h.StartDaemon()
	const (
		sampling = `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`
		url      = `{"jsonrpc":"2.0","id":"u","method":"elicitation/create","params":{"mode":"url","url":"https://example.com","elicitationId":"e","message":"m"}}`
		form     = `{"jsonrpc":"2.0","id":"f","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`
		roots    = `{"jsonrpc":"2.0","id":2,"method":"roots/list"}`
		ping     = `{"jsonrpc":"2.0","id":3,"method":"ping"}`
	)
	wants := map[string]struct{ form, roots string }{
		"shy":  {`"id":"f","result":{"action":"decline"}}`, `"id":2,"error":{"code":-32601,`},
		"open": {"", ""}, // no rule names these two, so they are forwarded
	}
	for name, want := range wants {
		t.Run(name, func(t *testing.T) {
			p := startPair(t, h, rig.Options{Server: name})
			answered := func(ask, want string) {
				t.Helper()
				p.server(ask)
				if want == "" {
					p.agentReads(ask)
				} else if got := next(t, p.Server.Inbox, &p.seenServer); !strings.Contains(got, want) {
					t.Errorf("%s\nis answered %s\nwant %s", ask, got, want)
				}
			}
			answered(sampling, `"id":1,"error":{"code":-1,`)
			answered(url, `"id":"u","result":{"action":"decline"}}`)
			answered(form, want.form)
			answered(roots, want.roots)
			p.server(ping)
			p.agentReads(ping)
		})
	}
}

// A server of the legacy era answers server/discover with an error, and its client waits for
// that: it must arrive unchanged, within 50 ms of the server's own. One of several tries must
// succeed, since machines that run tests are busy.
func TestDiscoverIsNotHeld(t *testing.T) {
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{})
	best := time.Hour
	for i, end := 0, time.Now().Add(rig.Timeout); best > 50*time.Millisecond && time.Now().Before(end); i++ {
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, i)
		answer := fmt.Sprintf(`{"error":{"message":"Method not found","code":-32601,"data":{"x":1.0}}, "id":%d,"jsonrpc":"2.0"}`, i)
		begun := time.Now()
		p.agent(request)
		p.serverReads(request)
		p.server(answer)
		p.agentReads(answer)
		best = min(best, time.Since(begun))
	}
	if best > 50*time.Millisecond {
		t.Errorf("there and back took %v at best, want 50ms", best)
	}
}

// Only elements are removed from a list: every other byte stays, and an empty page keeps its
// cursor. A page without removed elements arrives as the server wrote it.
func TestListsAreTrimmed(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
schema: 1
sources:
  - {id: x, kind: mcp, expose: {mode: blocklist, tools: ["secret_*"]}}
governance:
  defaults: {action: forward}
pins: {mode: off}
`)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{})
	for i, c := range []struct{ name, result, want string }{
		{"untouched", `{ "tools":[ {"x":1.0, "name":"a"} ,{"name":"b\u0062"}], "nextCursor":"\u0063" }`, ``},
		{"first", `{"tools":[{"name":"secret_1"}, {"name":"b", "n":1E5}],"nextCursor":"c"}`, `{"tools":[{"name":"b", "n":1E5}],"nextCursor":"c"}`},
		{"last", `{"nextCursor":"c","tools":[{"name":"a"} , {"name":"secret_1"}],"z":0}`, `{"nextCursor":"c","tools":[{"name":"a"}],"z":0}`},
		{"middle", `{"tools":[{"name":"a"},{"name":"s\u0065cret_1"},{"name":"b"}]}`, `{"tools":[{"name":"a"},{"name":"b"}]}`},
		{"emptied", `{"tools":[{"name":"secret_1"},{"name":"secret_2"}],"nextCursor":"n"}`, `{"tools":[],"nextCursor":"n"}`},
	} {
		p.agent(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i))
		p.serverReads(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i))
		answer := func(result string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, i, result) }
		if c.want == "" {
			c.want = c.result
		}
		p.server(answer(c.result))
		if got := p.next(); got != answer(c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, answer(c.want))
		}
	}
}

// A hundred calls wait for approval. Pings are still answered, and a cancellation withdraws a
// call: its question disappears, and the server sees nothing of it.
func TestHundredHeldByTheDaemon(t *testing.T) {
	t.Parallel()
	const held = 100
	h := newFixture(t, forwardAll+"limits: {pending_per_server: 128, pending: 128}\n")
	h.StartDaemon()
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	questions := func() int { // as many as calls wait: equal calls share one
		all, err := c.ListApprovals(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, q := range all {
			n += int(q.GetWaiting())
		}
		return n
	}
	p := startPair(t, h, rig.Options{})
	for id := range held { // a few at a time: on a busy machine the daemon can't answer many within two seconds
		p.agent(calls("held", fmt.Sprint(id))...)
		if (id+1)%4 == 0 {
			eventually(t, "each call is a question", func() bool { return questions() == id+1 })
		}
	}
	p.agent(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	p.serverReads(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	p.server(`{"jsonrpc":"2.0","id":"p","result":{}}`)
	p.agentReads(`{"jsonrpc":"2.0","id":"p","result":{}}`)
	for id := range held / 2 {
		p.agent(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 2*id))
	}
	eventually(t, "half of the questions are withdrawn", func() bool { return questions() == held/2 })
	p.agent(calls("echo", `"e"`)...)
	p.serverReads(calls("echo", `"e"`)...)
	p.HangUp()
	eventually(t, "the other half is withdrawn when the agent has left", func() bool { return questions() == 0 })
}

// With a configuration that forwards everything, each line arrives byte for byte and in order,
// in both directions and both eras, and tg-shim starts and ends as the server alone would.
func TestForwardsEverything(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	for era, params := range map[string]string{"legacy": ``, "modern": meta + `,`} {
		t.Run(era, func(t *testing.T) {
			h := newFixture(t, strings.Replace(forwardAll, "production", "development", 1)+"unknown: {requests: forward, notifications: forward, revisions: forward}\n")
			h.StartDaemon()
			p := startPair(t, h, rig.Options{Stays: true})
			var asks, answers, notes []string
			for id := range 200 {
				asks = append(asks,
					fmt.Sprintf(`{"jsonrpc":"2.0" ,"id":%d,"method":"tools/call","params":{%s"name":"t\u0065st","arguments":{"n":%[1]d.0,"t":"é\/"}}}`, id, params),
					fmt.Sprintf(`{"params":{%s"uri":"file:///%d"},"method":"resources/read","id":"%[2]d","jsonrpc":"2.0"}`, params, id),
					fmt.Sprintf(`{"jsonrpc":"2.0","id":"u%d","method":"acme/run","params":{%s"x":[]}}`, id, params),
					`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
				answers = append(answers,
					fmt.Sprintf(`{"result":{"content":[ ]},"jsonrpc":"2.0","id":%d}`, id),
					fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","error":{"code":-32002,"message":"no"}}`, id),
					fmt.Sprintf(`{"jsonrpc":"2.0","id":"u%d","result":{}}`, id))
				notes = append(notes, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, id),
					`{"jsonrpc":"2.0","method":"notifications/acme"}`)
			}
			go func() { _ = p.Server.Send([]byte(strings.Join(notes, "\n") + "\n")) }() // checked by what arrives
			p.agent(asks...)
			p.serverReads(asks...)
			p.agentReads(notes...)
			slices.Reverse(answers)
			p.server(answers...)
			p.agentReads(answers...)

			p.HangUp()
			eventually(t, "the server's input has ended", p.Server.Ended)
			const last = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"bye"}}`
			p.server(last)
			p.must(p.Server.Exit(9))
			p.agentReads(last)
			p.ends(9, rig.Timeout)
			if text := p.Stderr(); text != "" {
				t.Errorf("the server said nothing, the shim did:\n%s", text)
			}
		})
	}
}
