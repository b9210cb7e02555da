package policy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// Arguments that a policy reads must have the types that the server declares.
func TestArgumentsFitTheirSchema(t *testing.T) {
	const schema = `
bank pay {"type":"object","properties":{"amount":{"type":"number"},"count":{"type":"integer"},"to":{"type":"string"},"urgent":{"type":"boolean"},"rates":{"type":"array","items":{"type":"number"}},"from":{"type":"object","properties":{"limit":{"type":"number"},"iban":{"type":"string"}},"required":["iban"]},"map":{"type":"object","additionalProperties":{"type":"number"}},"extra":{},"never":{"type":"string"}},"required":["amount"],"additionalProperties":false}
`
	pay := func(condition string) string {
		return "permit (principal, action == ThoughtGate::Action::\"bank/pay\", resource) when { " + condition + " };\n"
	}
	const yaml = "schema: 1\ngovernance: {defaults: {action: policy}}\n"
	const misfit = `error: policy policies/p.cedar:1 reads an argument that does not fit the tool's input schema: the argument `
	for name, test := range map[string]struct{ condition, arguments, want string }{
		"an integer is a number":      {`context.arguments.amount.lessThan(decimal("50.5"))`, `{"amount":50}`, "forward"},
		"so is a fraction":            {`context.arguments.amount.lessThan(decimal("50.5"))`, `{"amount":50.4999}`, "forward"},
		"a negative one":              {`context.arguments.amount.lessThan(decimal("-50.5"))`, `{"amount":-51}`, "forward"},
		"one that is larger":          {`context.arguments.amount.lessThan(decimal("50.5"))`, `{"amount":51}`, "deny"},
		"one that is too fine":        {`context.arguments.amount.lessThan(decimal("50.5"))`, `{"amount":1.23456}`, misfit + `"amount" is a string, or a number that is too large or too precise for Cedar, expected a number with at most four digits after the point`},
		"one that is too large":       {`context.arguments.amount.lessThan(decimal("50.5"))`, `{"amount":9223372036854775807}`, misfit + `"amount" is a number, expected a number with`},
		"a text":                      {`context.arguments.amount.lessThan(decimal("50.5"))`, `{"amount":"50"}`, misfit + `"amount" is a string`},
		"nothing":                     {`context.arguments.amount.lessThan(decimal("50.5"))`, `{}`, misfit + `"amount" is missing`},
		"null":                        {`context.arguments.amount.lessThan(decimal("50.5"))`, `{"amount":null}`, misfit + `"amount" is missing`},
		"asked for, and missing":      {`context.arguments has amount`, `{}`, misfit + `"amount" is missing`},
		"optional, and missing":       {`context.arguments has count && context.arguments.count == 2`, `{"amount":1}`, "deny"},
		"an integer with a point":     {`context.arguments has count && context.arguments.count == 2`, `{"amount":1,"count":2.0}`, "forward"},
		"an integer with an exponent": {`context.arguments has count && context.arguments.count == 200`, `{"amount":1,"count":2e2}`, "forward"},
		"no integer":                  {`context.arguments has count && context.arguments.count == 2`, `{"amount":1,"count":2.5}`, misfit + `"count" is a number, expected an integer`},
		"asked for only":              {`context.arguments has count`, `{"amount":1,"count":"2"}`, misfit + `"count" is a string`},
		"not looked at":               {`context.arguments has count && context.arguments.count == 2`, `{"amount":"x","count":2,"to":5,"from":7}`, "forward"},
		"no flag":                     {`context.arguments has urgent && context.arguments.urgent`, `{"urgent":"true"}`, misfit + `"urgent" is a string`},
		"no text":                     {`context.arguments has to && context.arguments.to like "*"`, `{"to":true}`, misfit + `"to" is true or false, expected a string`},
		"a list of numbers":           {`context.arguments has rates && context.arguments.rates.contains(decimal("2.0"))`, `{"rates":[1.5,2]}`, "forward"},
		"a list with another item":    {`context.arguments has rates && context.arguments.rates.contains(decimal("2.0"))`, `{"rates":[1,"2"]}`, misfit + `"rates[]" is a string`},
		"no list":                     {`context.arguments has rates && context.arguments.rates.contains(decimal("2.0"))`, `{"rates":2}`, misfit + `"rates" is a number, expected a list`},
		"its text":                    {`context.lists has rates && context.lists.rates == "[1,2.0]"`, `{"rates":[1,2.0]}`, "forward"},
		"no list for its text":        {`!(context.lists has rates)`, `{"rates":2}`, misfit + `"rates" is a number, expected a list`},
		"a member":                    {`context.arguments has from && context.arguments.from has limit && context.arguments.from.limit.greaterThan(decimal("1.0"))`, `{"from":{"iban":5,"limit":2}}`, "forward"},
		"a member of another kind":    {`context.arguments has from && context.arguments.from has limit && context.arguments.from.limit.greaterThan(decimal("1.0"))`, `{"from":{"iban":"x","limit":"2"}}`, misfit + `"from.limit" is a string`},
		"a member that is missing":    {`context.arguments has from && context.arguments.from.iban like "DE*"`, `{"from":{}}`, misfit + `"from.iban" is missing`},
		"no object":                   {`context.arguments has from && context.arguments.from.iban like "DE*"`, `{"from":[]}`, misfit + `"from" is a list, expected an object`},
		"as a whole":                  {`context.arguments has from && context.arguments.from == {iban: "x"}`, `{"from":{"iban":"x"}}`, "policies"},
		"a map":                       {`context.arguments has map && context.arguments.map has a && context.arguments.map.a == decimal("1.0")`, `{"map":{"a":1,"b":"x"}}`, "forward"},
		"anything":                    {`context.arguments has extra && context.arguments.extra == 1`, `{"extra":1}`, "forward"},
		"anything, else":              {`context.arguments has extra && context.arguments.extra == 1`, `{"extra":"1"}`, "deny"},
	} {
		t.Run(name, func(t *testing.T) {
			s, ds := loaded(t, yaml, pay(test.condition), WithTools(toolsOf(t, schema)))
			if s == nil {
				if !strings.HasPrefix(test.want, "policies") {
					t.Fatal(ds)
				}
				return
			}
			if got := judge(s, toolCall(t, "bank", "pay", test.arguments)); !strings.HasPrefix(got, test.want) {
				t.Errorf("%s\ngot  %s\nwant %s", test.arguments, got, test.want)
			}
		})
	}
}

// Requests of servers must have the types that MCP defines.
func TestAsksFit(t *testing.T) {
	s := load(t, "schema: 1\ngovernance: {defaults: {asks: policy}}\n", `
permit (principal, action == ThoughtGate::Action::"sampling/createMessage", resource)
when { context.arguments.maxTokens < 100 && (context.arguments has temperature && context.arguments.temperature.lessThan(decimal("0.5"))) };`)
	for params, want := range map[string]string{
		`{"messages":[],"maxTokens":5,"temperature":0}`:   "forward",
		`{"messages":[],"maxTokens":5,"temperature":0.4}`: "forward",
		`{"messages":[],"maxTokens":5,"temperature":1}`:   "deny",
		`{"messages":[],"maxTokens":5}`:                   "deny",
		`{"messages":[],"maxTokens":"5"}`:                 "error: policy",
		`{"messages":[]}`:                                 "error: policy",
	} {
		if got := judge(s, fromServer(t, "x", "sampling/createMessage", params)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", params, got, want)
		}
	}
}

const noEtc = `@id("no-etc")
forbid (principal, action in ThoughtGate::Action::"tools/call", resource)
when { context.arguments has path && context.arguments.path like "/etc/*" };
`

// A tool that is listed later is checked then. If a policy does not fit it, the set stays in
// force and calls of the tool are denied.
func TestToolsThatComeLater(t *testing.T) {
	tools := &listed{}
	s, ds := loaded(t, "schema: 1\n", noEtc+`
@id("small")
forbid (principal, action == ThoughtGate::Action::"bank/pay", resource) when { context.arguments.amount > 50 };`, WithTools(tools))
	if s == nil {
		t.Fatal(ds)
	}
	whole, waiting, refused := s.Checked()
	if whole != 1 || len(refused) != 0 || len(waiting) != 1 || waiting[0].Policy != "small" || strings.Join(waiting[0].Tools, " ") != "bank/pay" {
		t.Errorf("before: got %d, %+v, %+v", whole, waiting, refused)
	}
	read := toolCall(t, "fs", "read", `{"path":"/etc/x"}`)
	pay := toolCall(t, "bank", "pay", `{"amount":5}`)
	if got := judge(s, read); !strings.HasPrefix(got, "deny; permit") {
		t.Errorf("a tool that nobody has listed: got %s", got)
	}
	if got := judge(s, pay); !strings.HasPrefix(got, "forward") {
		t.Errorf("the other: got %s", got)
	}

	tools.list(t, "fs", "", "read", `{"type":"object","properties":{"path":{"type":"string"}}}`, noon)
	tools.list(t, "bank", "", "pay", `{"type":"object","properties":{"amount":{"type":"integer"}},"required":["amount"]}`, noon)
	if got := s.Check(tools.Tool("fs", "", "read")); len(got) != 0 {
		t.Errorf("a tool that fits: got %+v", got)
	}
	if got := judge(s, read); !strings.HasPrefix(got, "deny; permit") {
		t.Errorf("the same, listed: got %s", got)
	}
	if whole, waiting, refused = s.Checked(); whole != 2 || len(waiting) != 0 || len(refused) != 0 {
		t.Errorf("listed: got %d, %+v, %+v", whole, waiting, refused)
	}

	// The server changes the definition.
	tools.list(t, "fs", "", "read", `{"type":"object","properties":{"path":{"type":"array","items":{"type":"string"}}}}`, noon)
	tools.list(t, "bank", "", "pay", `{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}`, noon)
	const want = "error: policy \"no-etc\" (p.cedar:1) does not fit the tool: in a call of fs/read: expected String, found Set<String> in `context.arguments.path like \"/etc/*\"`"
	if got := judge(s, read); got != want {
		t.Errorf("a tool that a policy doesn't fit:\ngot  %s\nwant %s", got, want)
	}
	if got := judge(s, pay); got != `error: policy "small" (p.cedar:5) does not fit the tool: bank/pay has no argument "amount"` {
		t.Errorf("a tool whose argument has another name: got %s", got)
	}
	if got := judge(s, toolCall(t, "fs", "write", `{}`)); !strings.HasPrefix(got, "forward") {
		t.Errorf("another tool of the server: got %s", got)
	}
	whole, waiting, refused = s.Checked()
	if whole != 2 || len(waiting) != 0 || len(refused) != 2 || refused[1].Tool != "fs/read" || refused[1].Policy != "no-etc" || refused[1].Place.Line != 3 {
		t.Errorf("after: got %d, %+v, %+v", whole, waiting, refused)
	}
	if got := s.Check(tools.Tool("fs", "", "read")); len(got) != 1 || got[0].Policy != "no-etc" {
		t.Errorf("Check: got %+v", got)
	}

	// It changes the definition back.
	tools.list(t, "fs", "", "read", `{"type":"object","properties":{"path":{"type":"string"}}}`, noon)
	if got := judge(s, read); !strings.HasPrefix(got, "deny; permit") {
		t.Errorf("the first schema again: got %s", got)
	}
}

// If the tool is listed, a single type must fit all conditions that read a value of unknown type.
// Otherwise a condition that cannot be evaluated in a call denies the call.
func TestValuesOfUnknownType(t *testing.T) {
	const contradicts = `forbid (principal, action == ThoughtGate::Action::"mail/send", resource)
when { context.arguments has a && context.arguments.a like "x*" && context.arguments.a > 5 };`
	tools := &listed{}
	s, ds := loaded(t, "schema: 1\ngovernance: {}\n", contradicts, WithTools(tools))
	if s == nil || len(ds) > 0 {
		t.Fatal(ds)
	}
	for arguments, want := range map[string]string{`{}`: "forward", `{"a":"y"}`: "forward", `{"a":"x"}`: "error: evaluate policy", `{"a":7}`: "error: evaluate policy"} {
		if got := judge(s, toolCall(t, "mail", "send", arguments)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
	tools.list(t, "mail", "", "send", `{"type":"object","properties":{"a":{}}}`, noon)
	if got := judge(s, toolCall(t, "mail", "send", `{}`)); got != "error: policy policies/p.cedar:1 does not fit the tool: in a call of mail/send: context.arguments.a is read as values of different types" {
		t.Errorf("listed: got %s", got)
	}
	if s, ds := loaded(t, "schema: 1\n", contradicts, WithTools(tools)); s != nil || len(ds) != 1 || ds[0].Line != 2 {
		t.Errorf("loaded again: got %v", ds)
	}
}

// A list with unknown items is still not a text.
func TestListsOfAnything(t *testing.T) {
	tools := toolsOf(t, `fs read_many {"type":"object","properties":{"path":{"type":"array"}},"required":["path"]}`)
	s, ds := loaded(t, "schema: 1\n", `forbid (principal, action == ThoughtGate::Action::"fs/read_many", resource) when { context.arguments.path == "/x" };`, WithTools(tools))
	if s != nil || len(ds) != 1 || !strings.Contains(ds[0].Message, "the types String and Set<String> are not compatible") {
		t.Errorf("got %v", ds)
	}
}

// A server's listing must not prevent a set from coming into force again after a restart. A new
// set must fit.
func TestStandingSets(t *testing.T) {
	tools := toolsOf(t, `fs read_many {"type":"object","properties":{"path":{"type":"array"}}}`)
	cfg, ds := config.Load(folder(t, map[string]string{config.FileName: "schema: 1\n", "policies/p.cedar": noEtc +
		"forbid (principal, action == ThoughtGate::Action::\"fs/read_many\", resource) when { context.arguments has pat };"}), func(string) string { return "" })
	if cfg == nil {
		t.Fatal(ds)
	}
	before, ds := Load(cfg)
	if before == nil || len(ds) > 0 {
		t.Fatal(ds)
	}
	if s, ds := Load(cfg, WithTools(tools)); s != nil || len(ds) != 2 || ds[0].Severity != config.Error || ds[1].Severity != config.Error {
		t.Errorf("a new set: got %v", ds)
	}
	if s, ds := Load(cfg, WithTools(tools), WithStanding("another")); s != nil {
		t.Errorf("a changed set: got %v", ds)
	}
	s, ds := Load(cfg, WithTools(tools), WithStanding(before.Digest()))
	if s == nil || len(ds) != 2 || ds[0].Severity != config.Warning || ds[1].Severity != config.Warning {
		t.Fatalf("a standing set: got %v", ds)
	}
	if got := judge(s, toolCall(t, "fs", "read_many", `{"path":["x"]}`)); !strings.HasPrefix(got, `error: policy "no-etc"`) {
		t.Errorf("its call: got %s", got)
	}
}

// Policies must fit the launch of a server that was listed last. A call is judged by its own
// launch.
func TestLaunches(t *testing.T) {
	tools := &listed{}
	tools.list(t, "fs", "old", "read", `{"type":"object","properties":{"path":{"type":"array"}}}`, noon)
	tools.list(t, "fs", "new", "read", `{"type":"object","properties":{"path":{"type":"string"}}}`, noon.Add(time.Hour))
	s, ds := loaded(t, "schema: 1\n", noEtc, WithTools(tools))
	if s == nil || len(ds) > 0 {
		t.Fatal(ds)
	}
	for launch, want := range map[string]string{"new": "deny; permit", "old": "error: policy", "unknown": "deny; permit", "": "deny; permit"} {
		c := toolCall(t, "fs", "read", `{"path":"/etc/x"}`)
		c.Launch = launch
		if got := judge(s, c); !strings.HasPrefix(got, want) {
			t.Errorf("launch %s: got %s, want %s", launch, got, want)
		}
	}
	// A hypothetical call has no launch: the last listing counts.
	c := toolCall(t, "fs", "read", `{"path":5}`)
	if got := judge(s, c); !strings.Contains(got, "does not fit the tool's input schema") {
		t.Errorf("without a launch: got %s", got)
	}
	tools.list(t, "fs", "old", "read", `{"type":"object","properties":{"path":{"type":"array"}}}`, noon.Add(2*time.Hour))
	if s, ds := loaded(t, "schema: 1\n", noEtc, WithTools(tools)); s != nil {
		t.Errorf("the old one was listed last: got %v", ds)
	}
}

// A tool that no call can reach need not fit. So a rule can exclude a tool that does not fit.
func TestToolsOutOfReach(t *testing.T) {
	tools := toolsOf(t, `evil read_many {"type":"object","properties":{"path":{"type":"array"}}}`)
	for yaml, want := range map[string]bool{
		"schema: 1\n": false,
		"schema: 1\nsources: [{id: evil, enabled: false}]\n":                                                                                                                 true,
		"schema: 1\nsources: [{id: evil, expose: {mode: blocklist, tools: [\"read_*\"]}}]\n":                                                                                 true,
		"schema: 1\ngovernance: {rules: [{match: \"*\", source: evil, action: deny}]}\n":                                                                                     true,
		"schema: 1\ngovernance: {defaults: {action: deny}}\n":                                                                                                                true,
		"schema: 1\ngovernance: {rules: [{match: \"*\", source: evil, when: secret, action: deny}]}\n":                                                                       false,
		"schema: 1\ngovernance: {rules: [{match: \"*\", agent: cursor, action: deny}]}\n":                                                                                    false,
		"schema: 1\ngovernance: {rules: [{match: \"read_*\", when: acts, action: forward}, {match: \"*\", source: evil, action: deny}]}\n":                                   false,
		"schema: 1\ngovernance: {rules: [{match: \"*\", method: prompts/get, action: deny}, {match: \"read_*\", action: approve}, {match: \"*\", action: deny}]}\n":          false,
		"schema: 1\ngovernance: {defaults: {action: deny}, rules: [{match: \"*\", source: good, action: forward}, {match: \"*\", agent: cursor, action: deny}]}\n":           true,
		"schema: 1\ngovernance: {defaults: {action: deny}, rules: [{match: \"*\", source: \"e*\", agent: cursor, action: forward}, {match: \"read_*\", action: forward}]}\n": false,
	} {
		s, ds := loaded(t, yaml, noEtc, WithTools(tools))
		if got := s != nil; got != want {
			t.Errorf("%sgot %v %v", yaml, got, ds)
		}
		if s != nil {
			if _, _, refused := s.Checked(); len(refused) > 0 {
				t.Errorf("%sgot %+v", yaml, refused)
			}
		}
	}
}

func TestSchemasThatCantBeRead(t *testing.T) {
	tools := &listed{listings: []shape.Listing{{Server: "bank", Tools: []*shape.Tool{{Server: "bank", Name: "pay", Fault: "the input schema is too large"}}}}}
	s, ds := loaded(t, "schema: 1\n", `forbid (principal, action == ThoughtGate::Action::"bank/pay", resource) when { context.arguments.amount > 50 };`, WithTools(tools))
	if s == nil || len(ds) > 0 {
		t.Fatal(ds)
	}
	if _, waiting, _ := s.Checked(); len(waiting) != 1 || waiting[0].Tools[0] != "bank/pay (the input schema is too large)" {
		t.Errorf("got %+v", waiting)
	}
	if got := judge(s, toolCall(t, "bank", "pay", `{"amount":51}`)); !strings.HasPrefix(got, "deny") {
		t.Errorf("got %s", got)
	}
}

// A user's own schema replaces the generated one.
func TestOwnSchemaIsAllThereIs(t *testing.T) {
	cfg, ds := config.Load(folder(t, map[string]string{
		config.FileName: "schema: 1\ncedar: {schema: s.cedarschema}\n", "s.cedarschema": ownSchema,
		"policies/p.cedar": `forbid (principal, action == ThoughtGate::Action::"db/select", resource) when { context.arguments.rows < 5 };`,
	}), func(string) string { return "" })
	if cfg == nil {
		t.Fatal(ds)
	}
	s, ds := Load(cfg, WithTools(toolsOf(t, `db select {"type":"object","properties":{"rows":{"type":"number"}}}`)))
	if s == nil {
		t.Fatal(ds)
	}
	if whole, waiting, _ := s.Checked(); whole != 1 || len(waiting) != 0 {
		t.Errorf("got %d, %v", whole, waiting)
	}
	if got := judge(s, toolCall(t, "db", "select", `{"rows":3}`)); !strings.HasPrefix(got, "deny") {
		t.Errorf("got %s", got)
	}
}

// The hash of the agent's program is requested only if a policy reads it. If it is unavailable,
// the call cannot be judged.
func TestHashOfTheAgent(t *testing.T) {
	asked := 0
	k := func(*gate.Call) Known {
		return Known{User: "ann", Project: "/git", Hash: func() (string, error) {
			asked++
			return "abc", nil
		}}
	}
	s := load(t, "schema: 1\n", `forbid (principal in ThoughtGate::User::"ann", action in ThoughtGate::Action::"tools/call", resource) when { principal.cwd == "/tmp" };`, WithKnown(k))
	if got := judge(s, toolCall(t, "fs", "x", `{}`)); !strings.HasPrefix(got, "forward") || asked > 0 {
		t.Errorf("got %s, and the hash was asked for %d times", got, asked)
	}
	s = load(t, "schema: 1\ngovernance: {defaults: {action: policy}}\n", `permit (principal, action in ThoughtGate::Action::"tools/call", resource) when { principal.sha256 == "abc" && principal.project == "/git" };`, WithKnown(k))
	if got := judge(s, toolCall(t, "fs", "x", `{}`)); !strings.HasPrefix(got, "forward") || asked == 0 {
		t.Errorf("got %s, and the hash was asked for %d times", got, asked)
	}
	failing := func(*gate.Call) Known {
		return Known{Hash: func() (string, error) { return "", fmt.Errorf("it has gone") }}
	}
	s = load(t, "schema: 1\n", `forbid (principal, action in ThoughtGate::Action::"tools/call", resource) when { principal.sha256 == "bad" };`, WithKnown(failing))
	if got := judge(s, toolCall(t, "fs", "x", `{}`)); got != "error: read the agent's program: it has gone" {
		t.Errorf("got %s", got)
	}
}

// Extremely large policies are checked in bounded time, too.
func TestHugePolicies(t *testing.T) {
	for name, condition := range map[string]func(i int) string{
		"each wrong": func(i int) string {
			return fmt.Sprintf("context.arguments.a%d > 5 && context.arguments.a%d like \"x\"", i, i)
		},
		"each a guess": func(i int) string { return fmt.Sprintf("context.arguments.a%d == 5", i%30) },
		"each a guess by turn": func(i int) string {
			return fmt.Sprintf("context.arguments.a%d > 5", i%30) + fmt.Sprintf(" && context.arguments.b%d like \"x\"", i%30)
		},
	} {
		var conditions []string
		for i, length := 0, 0; length < maxFile-1000; i++ {
			conditions = append(conditions, condition(i))
			length += len(conditions[i]) + 4
		}
		began := time.Now()
		_, ds := loaded(t, "schema: 1\n", `forbid (principal, action == ThoughtGate::Action::"x/y", resource) when { `+strings.Join(conditions, " || ")+" };")
		took := time.Since(began)
		t.Logf("%s: %v", name, took)
		if took > time.Minute {
			t.Errorf("%s: it took %v: %.300v", name, took, ds)
		}
	}
}

// Tools may be listed while calls are judged.
//
//gotest:race it is used at the same time
func TestToolsConcurrently(t *testing.T) {
	text := toolsOf(t, `fs read {"type":"object","properties":{"path":{"type":"string"}}}`).listings[0].Tools[0]
	list := toolsOf(t, `fs read {"type":"object","properties":{"path":{"type":"array"}}}`).listings[0].Tools[0]
	tools := &changing{tool: text}
	s, ds := loaded(t, "schema: 1\n", noEtc, WithTools(tools))
	if s == nil {
		t.Fatal(ds)
	}
	c := toolCall(t, "fs", "read", `{"path":"/etc/x"}`)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 200 {
				got := inShort(s.Rule(context.Background(), c, nil))
				if !strings.HasPrefix(got, "deny; permit") && !strings.HasPrefix(got, "error: policy") {
					t.Errorf("got %s", got)
				}
				s.Checked()
			}
		})
	}
	wait.Go(func() {
		for i := range 400 {
			tools.set([]*shape.Tool{text, list}[i%2])
		}
	})
	wait.Wait()
}

// changing is a tool whose definition alternates.
type changing struct {
	mu   sync.Mutex
	tool *shape.Tool
}

func (c *changing) set(t *shape.Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tool = t
}

func (c *changing) Tool(string, string, string) *shape.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tool
}

func (c *changing) Listings() []shape.Listing {
	return []shape.Listing{{Server: "fs", Tools: []*shape.Tool{c.Tool("", "", "")}}}
}
