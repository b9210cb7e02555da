package mcp

import (
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	agent  = wire.FromAgent
	server = wire.FromServer
)

// want is the treatment in the legacy and in the modern era.
type want struct{ legacy, modern Treatment }

func same(t Treatment) want { return want{t, t} }

// unknown is the expected treatment of a method that is not in the table.
const unknown = Treatment(100)

func treatment(r Rule) Treatment {
	if r.Unknown {
		if r.Treatment != Judge {
			return r.Treatment
		}
		return unknown
	}
	return r.Treatment
}

// All rows of the method table: requests with the treatment of their results, then
// notifications.
var requestRows = []struct {
	method  string
	side    wire.Side
	request want
	result  want
	subject Subject
	record  bool
}{
	{"initialize", agent, want{Pass, unknown}, same(Inspect), None, true},
	{"server/discover", agent, same(Pass), same(Inspect), None, true},
	{"ping", agent, want{Pass, unknown}, same(Inspect), None, false},
	{"tools/list", agent, same(Filter), same(Filter), None, false},
	{"tools/call", agent, same(Judge), same(Inspect), Tool, false},
	{"resources/list", agent, same(Filter), same(Filter), None, false},
	{"resources/templates/list", agent, same(Filter), same(Filter), None, false},
	{"resources/read", agent, same(Judge), same(Inspect), Resource, false},
	{"resources/subscribe", agent, want{Judge, unknown}, same(Inspect), Resource, false},
	{"resources/unsubscribe", agent, want{Pass, unknown}, same(Inspect), None, false},
	{"subscriptions/listen", agent, want{unknown, Judge}, same(Inspect), Listen, false},
	{"prompts/list", agent, same(Filter), same(Filter), None, false},
	{"prompts/get", agent, same(Judge), same(Inspect), Prompt, false},
	{"completion/complete", agent, same(Judge), same(Inspect), Reference, false},
	{"logging/setLevel", agent, want{Pass, unknown}, same(Inspect), None, true},
	{"tasks/get", agent, same(Pass), same(Inspect), None, false},
	{"tasks/result", agent, want{Pass, unknown}, same(Inspect), None, false},
	{"tasks/update", agent, same(Judge), same(Inspect), Task, false},
	{"tasks/cancel", agent, same(Pass), same(Inspect), None, false},
	{"tasks/list", agent, want{Pass, unknown}, same(Inspect), None, false},
	{"skills/list", agent, same(Filter), same(Filter), None, false},
	{"skills/get", agent, same(Judge), same(Inspect), Resource, false},
	{"resources/directory/read", agent, same(Judge), same(Inspect), Resource, false},
	{"acme/frobnicate", agent, same(unknown), same(Inspect), None, false},
	{"tools/Call", agent, same(unknown), same(Inspect), None, false},
	{"", agent, same(unknown), same(Inspect), None, false},

	{"sampling/createMessage", server, want{Judge, Refuse}, want{Inspect, Refuse}, None, false},
	{"elicitation/create", server, want{Judge, Refuse}, want{Inspect, Refuse}, None, false},
	{"roots/list", server, want{Judge, Refuse}, want{Inspect, Refuse}, None, false},
	{"ping", server, want{Pass, Refuse}, want{Inspect, Refuse}, None, false},
	{"tasks/get", server, want{Pass, Refuse}, want{Inspect, Refuse}, None, false},
	{"tasks/result", server, want{Pass, Refuse}, want{Inspect, Refuse}, None, false},
	{"tasks/list", server, want{Pass, Refuse}, want{Inspect, Refuse}, None, false},
	{"tasks/cancel", server, want{Pass, Refuse}, want{Inspect, Refuse}, None, false},
	{"acme/ask", server, want{unknown, Refuse}, want{Inspect, Refuse}, None, false},

	// Methods of the other side, and notifications with an id.
	{"prompts/get", server, same(Refuse), want{Inspect, Refuse}, None, false},
	{"tools/call", server, same(Refuse), want{Inspect, Refuse}, None, false},
	{"initialize", server, same(Refuse), want{Inspect, Refuse}, None, false},
	{"sampling/createMessage", agent, same(Refuse), same(Inspect), None, false},
	{"elicitation/create", agent, same(Refuse), same(Inspect), None, false},
	{"roots/list", agent, same(Refuse), same(Inspect), None, false},
	{"notifications/cancelled", agent, same(Refuse), same(Inspect), None, false},
	{"notifications/message", server, same(Refuse), want{Inspect, Refuse}, None, false},
}

var notificationRows = []struct {
	method string
	side   wire.Side
	want   want
	record bool
}{
	{"notifications/initialized", agent, same(Pass), false},
	{"notifications/cancelled", agent, same(Pass), true},
	{"notifications/cancelled", server, same(Pass), true},
	{"notifications/progress", agent, same(Pass), false},
	{"notifications/progress", server, same(Pass), false},
	{"notifications/message", server, same(Pass), false},
	{"notifications/tools/list_changed", server, same(Pass), true},
	{"notifications/prompts/list_changed", server, same(Pass), true},
	{"notifications/resources/list_changed", server, same(Pass), true},
	{"notifications/resources/updated", server, same(Pass), false},
	{"notifications/subscriptions/acknowledged", server, same(Pass), false},
	{"notifications/roots/list_changed", agent, same(Pass), true},
	{"notifications/elicitation/complete", server, want{Pass, unknown}, false},
	{"notifications/tasks/status", agent, want{Pass, unknown}, false},
	{"notifications/tasks/status", server, want{Pass, unknown}, false},
	{"notifications/tasks", server, same(Inspect), false},
	{"notifications/acme", agent, same(unknown), false},
	{"notifications/acme", server, same(unknown), false},

	// Methods of the other side, and requests without an id.
	{"notifications/initialized", server, same(Refuse), false},
	{"notifications/tools/list_changed", agent, same(Refuse), false},
	{"notifications/message", agent, same(Refuse), false},
	{"tools/call", agent, same(Refuse), false},
	{"tools/list", agent, same(Refuse), false},
	{"ping", agent, same(Refuse), false},
	{"initialize", agent, same(Refuse), false},
	{"resources/subscribe", agent, same(Refuse), false},
	{"subscriptions/listen", agent, same(Refuse), false},
	{"sampling/createMessage", server, same(Refuse), false},
}

func TestLookupRequests(t *testing.T) {
	for _, row := range requestRows {
		for _, modern := range []bool{false, true} {
			name := fmt.Sprintf("%s/side %d/modern %v", row.method, row.side, modern)
			request, result := row.request.legacy, row.result.legacy
			if modern {
				request, result = row.request.modern, row.result.modern
			}
			rule := Lookup(row.side, &wire.Envelope{Kind: wire.Request, Method: row.method, Modern: modern})
			if got := treatment(rule); got != request {
				t.Errorf("%s: request: %d, want %d", name, got, request)
			}
			if got := treatment(LookupResult(1-row.side, row.method, modern)); got != result {
				t.Errorf("%s: result: %v, want %v", name, got, result)
			}
			if rule.Unknown || rule.Treatment == Refuse {
				continue
			}
			if rule.Subject != row.subject || rule.Acting != (row.subject != None) {
				t.Errorf("%s: subject %d, acting %v", name, rule.Subject, rule.Acting)
			}
			if rule.Record != row.record {
				t.Errorf("%s: record is %v", name, rule.Record)
			}
			if ask := row.side == server && rule.Treatment == Judge; rule.Ask != ask || ask && !IsAsk(row.method) {
				t.Errorf("%s: ask is %v", name, rule.Ask)
			}
		}
	}
}

func TestLookupNotifications(t *testing.T) {
	for _, row := range notificationRows {
		for _, modern := range []bool{false, true} {
			name := fmt.Sprintf("%s/side %d/modern %v", row.method, row.side, modern)
			want := row.want.legacy
			if modern {
				want = row.want.modern
			}
			rule := Lookup(row.side, &wire.Envelope{Kind: wire.Notification, Method: row.method, Modern: modern})
			if got := treatment(rule); got != want {
				t.Errorf("%s: %d, want %d", name, got, want)
			}
			if rule.Record != row.record && !rule.Unknown {
				t.Errorf("%s: record is %v", name, rule.Record)
			}
		}
	}
}

// Every row of the table has a test.
func TestEveryRowIsTested(t *testing.T) {
	tested := map[key]bool{}
	for _, row := range requestRows {
		tested[key{row.method, row.side, false, false}] = true
	}
	for _, row := range notificationRows {
		tested[key{row.method, row.side, true, false}] = true
	}
	for k := range rules {
		k.modern = false
		if !tested[k] {
			t.Errorf("%+v is in the table and in no test", k)
		}
	}
	for k := range results {
		if _, ok := rules[k]; !ok {
			t.Errorf("%+v has a result and no request", k)
		}
	}
}

func TestListOf(t *testing.T) {
	tests := map[string][2]string{
		"tools/list": {"tools", "tools"}, "prompts/list": {"prompts", "prompts"}, "resources/list": {"resources", "resources"},
		"resources/templates/list": {"resourceTemplates", "resources"}, "skills/list": {"skills", "resources"}, "tools/call": {"", ""},
	}
	for method, want := range tests {
		if member, kind := ListOf(method); member != want[0] || kind != want[1] {
			t.Errorf("%s: %q, %q", method, member, kind)
		}
	}
	for k, rule := range rules {
		if member, _ := ListOf(k.method); (member != "") != (rule.Treatment == Filter) {
			t.Errorf("%s is %v and its list is %q", k.method, rule.Treatment, member)
		}
	}
}

func TestListChanged(t *testing.T) {
	for notification, want := range map[string]string{
		"notifications/tools/list_changed": "tools/list", "notifications/prompts/list_changed": "prompts/list",
		"notifications/resources/list_changed": "resources/templates/list", "notifications/message": "", "tools/list": "",
	} {
		if got := ListChanged(notification); got != want {
			t.Errorf("%s: got %q, want %q", notification, got, want)
		}
		if want != "" {
			if member, _ := ListOf(want); member == "" {
				t.Errorf("%s is no list", want)
			}
		}
	}
}

// What a model may read is observed before it is forwarded: all results that are not
// submitted anyway, except those that never contain text.
func TestObserved(t *testing.T) {
	silent := map[string]bool{"ping": true, "resources/subscribe": true, "resources/unsubscribe": true, "logging/setLevel": true}
	for _, row := range requestRows {
		for _, modern := range []bool{false, true} {
			writer := wire.FromServer
			if row.side == wire.FromServer {
				writer = wire.FromAgent
			}
			rule := LookupResult(writer, row.method, modern)
			_, known := results[key{row.method, row.side, false, modern}]
			submitted := rule.Treatment == Filter || rule.Treatment == Judge || rule.Treatment == Refuse
			if !rule.Observe && !submitted && !(known && silent[row.method]) && row.side == wire.FromAgent {
				t.Errorf("the result of %s (modern: %v) is not observed: %+v", row.method, modern, rule)
			}
		}
	}
	for method, want := range map[string]bool{"notifications/message": true, "notifications/progress": false} {
		if rule := Lookup(wire.FromServer, &wire.Envelope{Kind: wire.Notification, Method: method}); rule.Observe != want {
			t.Errorf("%s: observed %v, want %v", method, rule.Observe, want)
		}
	}
	for _, method := range []string{"sampling/createMessage", "elicitation/create"} {
		if !LookupResult(wire.FromAgent, method, false).Observe {
			t.Errorf("what an agent answers to %s is not observed", method)
		}
	}
}

// Any request of an agent is judged if it carries a user's answers, since a server may
// have asked for them in any result.
func TestAnswersAreJudged(t *testing.T) {
	for _, row := range requestRows {
		if row.side != agent || row.method == "" {
			continue
		}
		for _, modern := range []bool{false, true} {
			e := wire.Envelope{Kind: wire.Request, Method: row.method, Modern: modern}
			without := Lookup(agent, &e)
			if without.Treatment == Refuse {
				continue
			}
			e.InputResponses = wire.Span{Start: 1, End: 3}
			rule := Lookup(agent, &e)
			if passes := without.Treatment != Judge; rule.Treatment != Judge || rule.Answers != passes || !passes && rule != without {
				t.Errorf("%s, modern %v: %+v, and %+v without answers", row.method, modern, rule, without)
			}
		}
	}
}
