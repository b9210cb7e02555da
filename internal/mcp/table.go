package mcp

import "github.com/thoughtgate/thoughtgated/internal/wire"

// key is the lookup key of a message.
type key struct {
	method       string
	side         wire.Side
	notification bool
	modern       bool
}

// row is one row of the table. result is the rule for the result of the request; a result
// that passes is inspected, see [LookupResult].
type row struct {
	method string
	eras   eras
	rule   Rule
	result Rule
}

type eras uint8

const (
	legacy eras = 1 << iota
	modern
	always = legacy | modern
)

var (
	passes   = Rule{Treatment: Pass}
	observed = Rule{Treatment: Pass, Observe: true}
	recorded = Rule{Treatment: Pass, Observe: true, Record: true}
	filtered = Rule{Treatment: Filter}
	inspects = Rule{Treatment: Inspect, Observe: true}
)

func acts(on Subject) Rule { return Rule{Treatment: Judge, Subject: on, Acting: true} }

var asks = Rule{Treatment: Judge, Ask: true}

// agentRequests are the requests that an agent may send to a server.
var agentRequests = []row{
	{"initialize", legacy, recorded, recorded},
	{"server/discover", always, recorded, recorded},
	{"ping", legacy, passes, passes},
	{"tools/list", always, filtered, filtered},
	{"tools/call", always, acts(Tool), observed},
	{"resources/list", always, filtered, filtered},
	{"resources/templates/list", always, filtered, filtered},
	{"resources/read", always, acts(Resource), observed},
	{"resources/subscribe", legacy, acts(Resource), passes},
	{"resources/unsubscribe", legacy, passes, passes},
	{"subscriptions/listen", modern, acts(Listen), observed},
	{"prompts/list", always, filtered, filtered},
	{"prompts/get", always, acts(Prompt), observed},
	{"completion/complete", always, acts(Reference), observed},
	{"logging/setLevel", legacy, recorded, passes},
	{"tasks/get", always, passes, observed},
	{"tasks/result", legacy, passes, observed},
	{"tasks/update", always, acts(Task), observed},
	{"tasks/cancel", always, observed, observed},
	{"tasks/list", legacy, observed, observed},
	{"skills/list", always, filtered, filtered},
	{"skills/get", always, acts(Resource), observed},
	{"resources/directory/read", always, acts(Resource), observed},
}

// serverRequests are the requests that a server may send to an agent. They belong to the
// legacy era: a modern server puts what it asks into a result.
var serverRequests = []row{
	{"sampling/createMessage", legacy, asks, observed},
	{"elicitation/create", legacy, asks, observed},
	{"roots/list", legacy, asks, observed},
	{"ping", legacy, passes, passes},
	{"tasks/get", legacy, passes, passes},
	{"tasks/result", legacy, passes, passes},
	{"tasks/list", legacy, passes, passes},
	{"tasks/cancel", legacy, passes, passes},
}

var agentNotifications = []row{
	{method: "notifications/initialized", eras: always, rule: passes},
	{method: "notifications/cancelled", eras: always, rule: recorded},
	{method: "notifications/progress", eras: always, rule: passes},
	{method: "notifications/roots/list_changed", eras: always, rule: recorded},
	{method: "notifications/tasks/status", eras: legacy, rule: observed},
}

var serverNotifications = []row{
	{method: "notifications/cancelled", eras: always, rule: recorded},
	{method: "notifications/progress", eras: always, rule: passes},
	{method: "notifications/message", eras: always, rule: observed},
	{method: "notifications/tools/list_changed", eras: always, rule: recorded},
	{method: "notifications/prompts/list_changed", eras: always, rule: recorded},
	{method: "notifications/resources/list_changed", eras: always, rule: recorded},
	{method: "notifications/resources/updated", eras: always, rule: passes},
	{method: "notifications/subscriptions/acknowledged", eras: always, rule: observed},
	{method: "notifications/elicitation/complete", eras: legacy, rule: passes},
	{method: "notifications/tasks/status", eras: legacy, rule: observed},
	{method: "notifications/tasks", eras: always, rule: inspects},
}

// rules and results are the table in lookup form. methods reports for each known method
// whether a request for it acts or asks, in any era and from either side.
var rules, results, methods = index()

func index() (rules, results map[key]Rule, methods map[string]bool) {
	rules, results, methods = map[key]Rule{}, map[key]Rule{}, map[string]bool{}
	add := func(rows []row, side wire.Side, notification bool) {
		for _, r := range rows {
			methods[r.method] = methods[r.method] || !notification && (r.rule.Acting || r.rule.Ask)
			for _, era := range []eras{legacy, modern} {
				if r.eras&era == 0 {
					continue
				}
				k := key{r.method, side, notification, era == modern}
				rules[k] = r.rule
				if r.result != (Rule{}) {
					results[k] = r.result
				}
			}
		}
	}
	add(agentRequests, wire.FromAgent, false)
	add(serverRequests, wire.FromServer, false)
	add(agentNotifications, wire.FromAgent, true)
	add(serverNotifications, wire.FromServer, true)
	return rules, results, methods
}
