package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
)

// The rules forward everything except names of databases.
const cedarYAML = `schema: 1
governance:
  defaults: {action: forward, asks: policy}
  rules:
    - {match: "*", source: db, action: policy, policy_id: db-rules}
    - {match: "ask_*", action: approve, approval: ops}
    - {match: "deny_*", action: deny}
    - {match: "*", method: completion/complete, source: strict, action: policy}
approval:
  ops: {destination: {type: local}, timeout: 1m}
  board: {destination: {type: local}, timeout: 2m, require: presence}
`

const cedarPolicies = `
@id("no-prod-deletes")
@reason("deletes need a person")
forbid (principal, action in ThoughtGate::Action::"tools/call", resource in ThoughtGate::Server::"prod")
when { resource.name like "delete_*" };

permit (principal == ThoughtGate::Agent::"claude-code", action == ThoughtGate::Action::"db/select", resource);

@id("writes-ask") @approval("ops")
permit (principal, action == ThoughtGate::Action::"db/update", resource);

@id("drops-ask-the-board") @approval("board")
permit (principal, action == ThoughtGate::Action::"db/update", resource) when { context.arguments.table == "users" };

@id("asks-board") @approval("board")
permit (principal, action == ThoughtGate::Action::"fs/ask_board", resource);

forbid (principal, action == ThoughtGate::Action::"fs/pay", resource) when { context.arguments.amount > 100 };

@id("no-secrets-out")
forbid (principal, action in ThoughtGate::Action::"call", resource) when { context.facts.contains("secret") && context.facts.contains("sends") };

@id("no-etc")
forbid (principal, action in [ThoughtGate::Action::"resources/read", ThoughtGate::Action::"resources/subscribe"], resource)
when { resource.scheme == "file" && resource.path like "/etc/*" };

@id("small-samples")
permit (principal == ThoughtGate::Server::"helper", action == ThoughtGate::Action::"sampling/createMessage", resource is ThoughtGate::Agent)
when { context.arguments.maxTokens <= 100 && !(context.ask.text like "*password*") };
`

func TestCedar(t *testing.T) {
	s := load(t, cedarYAML, cedarPolicies)
	read := func(uri string) *gate.Call {
		return fromAgent(t, "fs", "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
	}
	forward := "forward; rule; defaults.action (thoughtgate.yaml:3)"
	for name, test := range map[string]struct {
		call  *gate.Call
		facts []gate.Fact
		want  string
	}{
		"nothing applies":              {toolCall(t, "fs", "read", `{}`), nil, forward},
		"forbid beats forward":         {toolCall(t, "prod", "delete_db", `{}`), nil, "deny; permit; defaults.action (thoughtgate.yaml:3); no-prod-deletes"},
		"condition does not hold":      {toolCall(t, "prod", "list", `{}`), nil, forward},
		"permit where policy":          {toolCall(t, "db", "select", `{}`), nil, `forward; permit; "*" (thoughtgate.yaml:5); policies/test.cedar:7`},
		"no permit where policy":       {toolCall(t, "db", "vacuum", `{}`), nil, `deny; permit; "*" (thoughtgate.yaml:5)`},
		"permit that asks":             {toolCall(t, "db", "update", `{"table":"x"}`), nil, `ask; permit; "*" (thoughtgate.yaml:5); writes-ask; ask ops`},
		"two permits that ask":         {toolCall(t, "db", "update", `{"table":"users"}`), nil, `ask; permit; "*" (thoughtgate.yaml:5); writes-ask+drops-ask-the-board; ask ops`},
		"argument missing":             {toolCall(t, "db", "update", `{}`), nil, `error: evaluate policy "drops-ask-the-board" (test.cedar:12): record does not have the attribute ` + "`table`"},
		"a rule that asks":             {toolCall(t, "fs", "ask_me", `{}`), nil, `ask; rule; "ask_*" (thoughtgate.yaml:6); ask ops`},
		"presence is not saved":        {toolCall(t, "fs", "ask_board", `{}`), nil, `ask; rule; "ask_*" (thoughtgate.yaml:6); asks-board; ask board`},
		"a rule that denies":           {toolCall(t, "prod", "deny_delete", `{}`), nil, `deny; rule; "deny_*" (thoughtgate.yaml:7)`},
		"small amount":                 {toolCall(t, "fs", "pay", `{"amount":100}`), nil, forward},
		"large amount":                 {toolCall(t, "fs", "pay", `{"amount":101}`), nil, "deny; permit; defaults.action (thoughtgate.yaml:3); policies/test.cedar:18"},
		"amount as text":               {toolCall(t, "fs", "pay", `{"amount":"1"}`), nil, "error: evaluate policy policies/test.cedar:18: type error"},
		"amount with a fraction":       {toolCall(t, "fs", "pay", `{"amount":100.5}`), nil, "error: evaluate policy policies/test.cedar:18: type error"},
		"amount beyond 64 bits":        {toolCall(t, "fs", "pay", `{"amount":99999999999999999999}`), nil, "error: evaluate policy policies/test.cedar:18: type error"},
		"amount null":                  {toolCall(t, "fs", "pay", `{"amount":null}`), nil, "error: evaluate policy policies/test.cedar:18: record does not have the attribute `amount`"},
		"no arguments":                 {fromAgent(t, "fs", "tools/call", `{"name":"pay"}`), nil, "error: evaluate policy policies/test.cedar:18: record does not have the attribute `amount`"},
		"facts":                        {toolCall(t, "fs", "x", `{}`), []gate.Fact{{Name: "secret"}, {Name: "sends"}}, "deny; permit; defaults.action (thoughtgate.yaml:3); no-secrets-out"},
		"one fact":                     {toolCall(t, "fs", "x", `{}`), []gate.Fact{{Name: "sends"}}, forward},
		"path":                         {read("file:///etc/passwd"), nil, "deny; permit; defaults.action (thoughtgate.yaml:3); no-etc"},
		"path that goes up":            {read("file:///tmp/../etc/passwd"), nil, "deny; permit; defaults.action (thoughtgate.yaml:3); no-etc"},
		"path escaped":                 {read("file:///%65tc/passwd"), nil, "deny; permit; defaults.action (thoughtgate.yaml:3); no-etc"},
		"other scheme":                 {read("etc:///etc/passwd"), nil, forward},
		"subscribe":                    {fromAgent(t, "fs", "resources/subscribe", `{"uri":"file:///etc/x"}`), nil, "deny; permit; defaults.action (thoughtgate.yaml:3); no-etc"},
		"sampling":                     {fromServer(t, "helper", "sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":50}`), nil, "forward; permit; defaults.asks (thoughtgate.yaml:3); small-samples"},
		"sampling, large":              {fromServer(t, "helper", "sampling/createMessage", `{"messages":[],"maxTokens":5000}`), nil, "deny; permit; defaults.asks (thoughtgate.yaml:3)"},
		"sampling, what it says":       {fromServer(t, "helper", "sampling/createMessage", `{"messages":[{"role":"user","content":[{"type":"text","text":"the pass\u0077ord?"}]}],"maxTokens":5}`), nil, "deny; permit; defaults.asks (thoughtgate.yaml:3)"},
		"sampling by another":          {fromServer(t, "fs", "sampling/createMessage", `{"messages":[],"maxTokens":5}`), nil, "deny; permit; defaults.asks (thoughtgate.yaml:3)"},
		"completion is light":          {fromAgent(t, "fs", "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`), []gate.Fact{{Name: "secret"}, {Name: "sends"}}, forward},
		"completion by policy":         {fromAgent(t, "strict", "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`), nil, `deny; permit; "*" (thoughtgate.yaml:8)`},
		"a name that reads as another": {toolCall(t, "sampling", "createMessage", `{}`), nil, `error: the server id and the tool name together read as the method "sampling/createMessage"; give the server another id`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(s, test.call, test.facts...); !strings.HasPrefix(got, test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}

	r, _ := s.Rule(context.Background(), toolCall(t, "prod", "delete_db", `{}`), nil)
	if r.Code != mcp.CodePolicy || r.Reason != "deletes need a person" {
		t.Errorf("a forbid: got %+v", r)
	}
	r, _ = s.Rule(context.Background(), toolCall(t, "db", "vacuum", `{}`), nil)
	if r.Code != mcp.CodePolicy || r.Reason != "no policy permits it" {
		t.Errorf("no permit: got %+v", r)
	}
	r, _ = s.Rule(context.Background(), toolCall(t, "db", "update", `{"table":"x"}`), nil)
	if r.Timeout.String() != "1m0s" || r.Reason != "the policy writes-ask needs a person's approval" {
		t.Errorf("a permit that asks: got %+v", r)
	}
}

// known is what a daemon might know about the session.
func known(*gate.Call) Known {
	return Known{
		User: "ann", Executable: "/usr/bin/claude", Hash: func() (string, error) { return "abc", nil }, Cwd: "/home/u", TTY: "/dev/pts/1",
		Calls: 7, Seconds: 60, Servers: []string{"fs", "mail"}, Annotations: []byte(`{"readOnlyHint":true}`),
	}
}

// A panic in Cedar means that the call cannot be judged, whatever the other policies decide. The
// next call is judged normally.
func TestAPanicIsNoOpinion(t *testing.T) {
	panics := true
	known := func(*gate.Call) Known {
		return Known{Hash: func() (string, error) {
			if panics {
				panic("out of range")
			}
			return "abc", nil
		}}
	}
	s := load(t, "schema: 1\n", `
permit (principal, action in ThoughtGate::Action::"call", resource);
forbid (principal, action in ThoughtGate::Action::"tools/call", resource) when { principal.sha256 == "bad" };`, WithKnown(known))
	if got := judge(s, toolCall(t, "fs", "x", `{}`)); got != "error: evaluate the policies: panic: out of range" {
		t.Errorf("got %s", got)
	}
	panics = false
	if got := judge(s, toolCall(t, "fs", "x", `{}`)); !strings.HasPrefix(got, "forward") {
		t.Errorf("the next call: %s", got)
	}
}

// The entity model: each expression must hold for one call.
func TestEntityModel(t *testing.T) {
	call := toolCall(t, "a/b%", "x/y", strings.NewReplacer("\n", "", "\t", "").Replace(`{
		"text": "t", "yes": true, "n": -5, "min": -9223372036854775808, "big": 9223372036854775808,
		"dec": 1.5, "exp": 12e2, "whole": 2.0, "fine": 0.12345, "huge": 1e30, "nothing": null,
		"set": [3, 1, 1, null], "deep": {"er": {"list": ["b", "a\u0041"]}, "rec": {"k": 1}}, "rows": [{"id": 1, "l": [2, 1]}],
		"__entity": {"type": "ThoughtGate::Agent", "id": "root"}, "__extn": {"fn": "decimal", "arg": "1.0"}, "": "empty", "a.b": [1]
	}`))
	facts := []gate.Fact{{Name: "secret", Detail: "a key", Member: "text"}, {Name: "secret", Member: "n"}}
	for _, holds := range []string{
		`principal == ThoughtGate::Agent::"claude-code"`,
		`principal in ThoughtGate::Session::"s1" && principal in ThoughtGate::User::"ann"`,
		`principal.executable == "/usr/bin/claude" && principal.sha256 == "abc" && principal.cwd == "/home/u"`,
		`principal.project == "/home/u/p" && principal.tty == "/dev/pts/1" && principal.session == "s1"`,
		`action == ThoughtGate::Action::"a%2Fb%25/x/y" && action in ThoughtGate::Action::"tools/call" && action in ThoughtGate::Action::"call"`,
		`resource == ThoughtGate::Tool::"a%2Fb%25/x/y" && resource in ThoughtGate::Server::"a/b%"`,
		`resource.name == "x/y" && resource.server == "a/b%"`,
		`context.policy_id == "" && context.profile == "production" && context.method == "tools/call"`,
		`context.time.hour == 12 && context.time.day_of_week == 5 && context.time.timestamp > 1700000000`,
		`context.session.calls == 7 && context.session.seconds == 60 && context.session.servers == ["mail", "fs"]`,
		`context.annotations has readOnlyHint && context.annotations.readOnlyHint`,
		`context.facts == ["secret"] && context.fact_details has secret && context.fact_details.secret.details == ["a key"] && context.fact_details.secret.members == ["n", "text"]`,
		`context.ask.text == "" && context.ask.tools.isEmpty() && context.ask.host == ""`,

		`context.arguments.text == "t" && context.arguments.yes && context.arguments.n == -5`,
		`context.arguments.min == -9223372036854775808 && context.arguments.big == "9223372036854775808"`,
		`context.arguments.dec == decimal("1.5") && context.arguments.exp == decimal("1200.0") && context.arguments.whole == decimal("2.0")`,
		`context.arguments.fine == "0.12345" && context.arguments.huge == "1e30"`,
		`!(context.arguments has nothing)`,
		`context.arguments.set == [1, 3] && context.lists.set == "[3,1,1,null]"`,
		`context.arguments.deep.er.list.contains("aA") && context.lists.deep.er.list == "[\"b\",\"aA\"]"`,
		`context.arguments.deep.rec.k == 1 && !(context.lists.deep has rec) && !(context.lists has text)`,
		`context.arguments.rows == [{id: 1, l: [1, 2]}] && context.lists.rows == "[{\"id\":1,\"l\":[2,1]}]"`,
		`context.arguments["__entity"]["type"] == "ThoughtGate::Agent" && context.arguments["__entity"].id == "root"`,
		`context.arguments["__extn"].arg == "1.0" && context.arguments[""] == "empty" && context.lists["a.b"] == "[1]"`,
	} {
		s := load(t, "schema: 1\ngovernance: {defaults: {action: policy}}\n",
			"permit (principal, action == ThoughtGate::Action::\"a%2Fb%25/x/y\", resource)\nwhen { "+holds+" };\n", WithKnown(known))
		if got := judge(s, call, facts...); !strings.HasPrefix(got, "forward; permit") {
			t.Errorf("%s\ngot %s", holds, got)
		}
	}
}

// ofTask turns c into a call about a task that runs a tool.
func ofTask(c *gate.Call, tool string) *gate.Call {
	c.Task = tool
	return c
}

func TestEntityModelOfTheRest(t *testing.T) {
	for _, test := range []struct {
		call  *gate.Call
		holds string
	}{
		{fromAgent(t, "fs", "resources/read", `{"uri":"HTTPS://u:p@Ex.org:8443/a/%2e%2e/b/?q#f"}`),
			`resource is ThoughtGate::Resource && resource in ThoughtGate::Server::"fs" && resource.scheme == "https" && resource.host == "ex.org" && resource.path == "/b/" && action in ThoughtGate::Action::"call"`},
		{fromAgent(t, "fs", "prompts/get", `{"name":"p","arguments":{"a":"b"}}`),
			`resource == ThoughtGate::Prompt::"fs/p" && resource.name == "p" && action == ThoughtGate::Action::"prompts/get" && context.arguments has a && context.arguments.a == "b"`},
		{fromAgent(t, "fs", "acme/go", `{}`), `resource == ThoughtGate::Method::"fs/acme/go" && action == ThoughtGate::Action::"acme/go"`},
		{fromAgent(t, "fs", "tasks/update", `{"taskId":"t1","inputResponses":{}}`), `resource == ThoughtGate::Method::"fs/tasks/update" && action == ThoughtGate::Action::"tasks/update"`},
		{ofTask(fromAgent(t, "fs", "tasks/update", `{"taskId":"t1","inputResponses":{"a":{"action":"accept"}}}`), "delete"),
			`resource == ThoughtGate::Tool::"fs/delete" && resource.name == "delete" && action == ThoughtGate::Action::"tasks/update" && context.inputResponses has a.action && context.inputResponses.a.action == "accept"`},
		{fromAgent(t, "fs", "prompts/get", `{"name":"p","inputResponses":{"a":{"action":"accept","content":{"n":5}}},"requestState":"s"}`),
			`context.inputResponses has a.content.n && context.inputResponses.a.content.n == 5`},
		{fromAgent(t, "fs", "prompts/get", `{"name":"p"}`), `!(context.inputResponses has a)`},
		{fromAgent(t, "fs", "tools/list", `{"inputResponses":{"a":{"action":"accept"}}}`),
			`resource == ThoughtGate::Method::"fs/tools/list" && action == ThoughtGate::Action::"tools/list" && context.inputResponses has a.action && context.inputResponses.a.action == "accept"`},
		{fromAgent(t, "fs", "prompts/get", `{"name":"t","arguments":{"a":"1"},"_meta":{"progressToken":1,"acme/as":"root"},"task":{"ttl":5},"destination":"prod"}`),
			`context.params has destination && context.params.destination == "prod" && context.params has task.ttl && context.params.task.ttl == 5 && context.params has _meta && context.params._meta has "acme/as" && context.params._meta["acme/as"] == "root" && !(context.params._meta has progressToken) && !(context.params has arguments) && !(context.params has name)`},
		{fromAgent(t, "fs", "prompts/get", `{"name":"t","arguments":{"a":"1"},"_meta":{"progressToken":1}}`), `!(context.params has _meta)`},
		{fromAgent(t, "fs", "completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}`), `context.params has argument.value && context.params.argument.value == "v"`},
		{fromServer(t, "fs", "elicitation/create", `{"mode":"url","message":"go","url":"https://Evil.example/x"}`),
			`principal == ThoughtGate::Server::"fs" && principal.id == "fs" && principal.command == "/usr/bin/fs --stdio" && resource == ThoughtGate::Agent::"claude-code" && resource in ThoughtGate::User::"ann" && context.ask.host == "evil.example" && context.ask.scheme == "https" && context.ask.text == "go"`},
		{fromServer(t, "fs", "elicitation/create", `{"message":"who","requestedSchema":{"type":"object","properties":{"name":{"type":"string"},"password":{}}}}`),
			`context.ask.properties == ["password", "name"]`},
		{fromServer(t, "fs", "sampling/createMessage", `{"systemPrompt":"be good","messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"tool_result","content":[{"type":"text","text":"b"}]}}],"maxTokens":5,"includeContext":"allServers","tools":[{"name":"t1"},{"name":"t2"}]}`),
			`context.ask.text == "be good\na\nb" && context.ask.tools == ["t2", "t1"] && context.arguments has includeContext && context.arguments.includeContext == "allServers" && context.arguments.maxTokens == 5`},
		{fromServer(t, "fs", "roots/list", `{}`), `action == ThoughtGate::Action::"roots/list" && principal == ThoughtGate::Server::"fs"`},
	} {
		s := load(t, "schema: 1\ngovernance: {defaults: {action: policy, asks: policy}, rules: [{match: \"*\", method: [\"*\"], action: policy}]}\n",
			"permit (principal, action == "+entity("Action", test.call.Method)+", resource)\nwhen { "+test.holds+" };\n", WithKnown(known))
		if got := judge(s, test.call); !strings.HasPrefix(got, "forward; permit") {
			t.Errorf("%s\n%s\ngot %s", test.call.Line, test.holds, got)
		}
	}
}

func TestListenIsJudgedByEachURI(t *testing.T) {
	s := load(t, "schema: 1\ngovernance: {rules: [{match: \"file:///etc/*\", action: deny}]}\n", "")
	for uris, want := range map[string]string{
		`["file:///a","file:///b"]`:          "forward",
		`["file:///a","file:///etc/shadow"]`: "deny",
		`[]`:                                 "forward",
	} {
		c := fromAgent(t, "fs", "subscriptions/listen", fmt.Sprintf(
			`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"resourceSubscriptions":%s}}`, uris))
		if got := judge(s, c); !strings.HasPrefix(got, want+";") {
			t.Errorf("%s: got %s, want %s", uris, got, want)
		}
	}
}

func TestLimitsOfArguments(t *testing.T) {
	s := load(t, cedarYAML, "forbid (principal, action, resource) when { context.arguments has a && context.arguments has nothing };")
	blind := load(t, cedarYAML, cedarPolicies)
	list := func(item string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	for name, test := range map[string]struct {
		arguments string
		want      string
	}{
		"deep enough":    {strings.Repeat(`{"a":`, 99) + "{}" + strings.Repeat("}", 99), "forward"},
		"too deep":       {strings.Repeat(`{"a":`, 100) + "{}" + strings.Repeat("}", 100), "error: the arguments are too large"},
		"deep arrays":    {`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "error: the arguments are too large"},
		"long array":     {`{"a":` + list("1", 4096) + "}", "forward"},
		"longer array":   {`{"a":` + list("1", 4097) + "}", "error: the arguments are too large"},
		"many objects":   {`{"a":` + list(`{"b":1}`, 512) + "}", "forward"},
		"more objects":   {`{"a":` + list(`{"b":1}`, 513) + "}", "error: the arguments are too large"},
		"too many":       {`{"a":` + list(list("1", 4000), 9) + "}", "error: the arguments are too large"},
		"a long text":    {`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "forward"},
		"not looked at":  {`{"b":` + list("1", 4097) + `,"c":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `,"a":1}`, "forward"},
		"nothing hidden": {`{"amount":1,"amount2":2}`, "forward"},
	} {
		if got := judge(s, toolCall(t, "fs", "x", test.arguments)); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %.100s, want %s", name, got, test.want)
		}
	}
	// If no policy reads the arguments, nothing is converted and nothing is too large.
	if got := judge(blind, toolCall(t, "fs", "x", `{"a":`+list("1", 5000)+"}")); !strings.HasPrefix(got, "forward") {
		t.Errorf("without a policy that looks: got %s", got)
	}
}

func TestPolicyDiagnostics(t *testing.T) {
	const two = "schema: 1\napproval: {a: {destination: {type: local}}, b: {destination: {type: local}}}\n"
	good := "permit (principal, action, resource);\n"
	for name, test := range map[string]struct {
		yaml  string
		files map[string]string
		want  []string
	}{
		"good":             {"schema: 1\n", map[string]string{"policies/a.cedar": good}, nil},
		"no policies":      {"schema: 1\n", nil, nil},
		"missing file":     {"schema: 1\ncedar: {policies: [nope.cedar]}\n", nil, []string{"nope.cedar: error: the policies can't be read: no such file or directory (V-013)"}},
		"missing folder":   {"schema: 1\ncedar: {policies: [\"nope/*.cedar\"]}\n", nil, []string{"thoughtgate.yaml:2:20: error: read the policies' folder: open"}},
		"empty folder":     {"schema: 1\ncedar: {policies: [\"*.cedar\"]}\n", nil, []string{"thoughtgate.yaml:2:20: warning: no file matches"}},
		"wildcard folder":  {"schema: 1\ncedar: {policies: [\"*/x.ced?r\"]}\n", nil, []string{"wildcards are allowed only in the last part of a path"}},
		"bad glob":         {"schema: 1\ncedar: {policies: [\"[x.cedar\"]}\n", nil, []string{"(V-009)"}},
		"twice listed":     {"schema: 1\ncedar: {policies: [\"policies/*.cedar\", policies/a.cedar]}\n", map[string]string{"policies/a.cedar": good}, nil},
		"syntax":           {"schema: 1\n", map[string]string{"policies/a.cedar": good + "permit (principal, action);\n"}, []string{"a.cedar:2:27: error: not valid Cedar: found \")\", expected \",\""}},
		"literal":          {"schema: 1\n", map[string]string{"policies/a.cedar": good + "forbid (principal, action, resource) when { context.x == \"a };\n"}, []string{"a.cedar:2:"}},
		"two files":        {"schema: 1\n", map[string]string{"policies/a.cedar": "permit", "policies/b.cedar": "forbid ("}, []string{"a.cedar:1:", "b.cedar:1:"}},
		"utf-8":            {"schema: 1\n", map[string]string{"policies/a.cedar": good + "// \xff\n"}, []string{"a.cedar:2:4: error: the byte 0xff"}},
		"bidi":             {"schema: 1\n", map[string]string{"policies/a.cedar": good + "// \u202e\n"}, []string{"a.cedar:2:4: error: the character U+202E"}},
		"too long":         {"schema: 1\n", map[string]string{"policies/a.cedar": good + strings.Repeat("// x\n", 20000)}, []string{"it is longer than 64KiB"}},
		"brackets":         {"schema: 1\n", map[string]string{"policies/a.cedar": "permit (principal, action, resource) when {\n" + strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200) + "};"}, []string{"a.cedar:2:100: error: nested deeper than 100 levels"}},
		"ifs":              {"schema: 1\n", map[string]string{"policies/a.cedar": "permit (principal, action, resource) when {" + strings.Repeat("if true then true else ", 200) + "true};"}, []string{"nested deeper than 100 levels"}},
		"brackets in text": {"schema: 1\n", map[string]string{"policies/a.cedar": "permit (principal, action, resource) when { \"" + strings.Repeat("(\\\"", 200) + "\" == \"\" } // " + strings.Repeat("((", 200) + "\n;"}, nil},
		"duplicate id":     {"schema: 1\n", map[string]string{"policies/a.cedar": "@id(\"x\")\n" + good, "policies/b.cedar": "\n@id(\"x\")\n" + good}, []string{"b.cedar:2:1: error: duplicate policy id \"x\"; the other one is in a.cedar:1"}},
		"id like a place":  {"schema: 1\n", map[string]string{"policies/a.cedar": "@id(\"policies/a.cedar:2\") " + strings.Replace(good, "\n", "", 1) + "\n" + good}, []string{"duplicate policy id"}},
		"empty id":         {"schema: 1\n", map[string]string{"policies/a.cedar": "@id(\"\") " + good}, []string{"must be 1 to 128 visible characters"}},
		"no namespace":     {"schema: 1\n", map[string]string{"policies/a.cedar": "forbid (principal, action in Action::\"tools/call\", resource);"}, []string{"no call has an entity of type Action as its action; did you mean ThoughtGate::Action?"}},
		"wrong type":       {"schema: 1\n", map[string]string{"policies/a.cedar": "forbid (principal is ThoughtGate::Tool, action, resource) when { principal in ThoughtGate::Usr::\"x\" || resource is Photo || [User::\"y\"].contains(principal) };"}, []string{"no call has an entity of type ThoughtGate::Tool as its principal", "ThoughtGate::Usr; did you mean ThoughtGate::User?", "type Photo", "did you mean ThoughtGate::User?"}},
		"V-006":            {two, map[string]string{"policies/a.cedar": "@approval(\"c\") " + good}, []string{"a.cedar:1:1: error: unknown workflow \"c\" (V-006)"}},
		"V-006b":           {two, map[string]string{"policies/a.cedar": "@approval " + good}, []string{"(V-006b)"}},
		"approval alone":   {"schema: 1\n", map[string]string{"policies/a.cedar": "@approval " + good}, nil},
		"approval forbid":  {two, map[string]string{"policies/a.cedar": "@approval(\"a\") forbid (principal, action, resource);"}, []string{"@approval is for permits"}},
		"slip":             {two, map[string]string{"policies/a.cedar": "@aproval(\"a\") " + good}, []string{"unknown annotation @aproval; did you mean @approval?"}},
		"own annotation":   {two, map[string]string{"policies/a.cedar": "@owner(\"ann\") " + good}, nil},
		"policy for none":  {"schema: 1\ngovernance: {defaults: {action: policy}, rules: [{match: x, action: policy}]}\n", nil, []string{"thoughtgate.yaml:2:33: warning: the default needs a Cedar permit", "thoughtgate.yaml:2:50: warning: the rule needs a Cedar permit"}},
		"schema missing":   {"schema: 1\ncedar: {schema: s.cedarschema}\n", nil, []string{"thoughtgate.yaml:2:17: error: the schema"}},
		"schema broken":    {"schema: 1\ncedar: {schema: s.cedarschema}\n", map[string]string{"s.cedarschema": "entity"}, []string{"not a valid Cedar schema"}},
		"schema":           {"schema: 1\ncedar: {schema: s.cedarschema}\n", map[string]string{"s.cedarschema": ownSchema, "policies/a.cedar": "permit (principal, action == ThoughtGate::Action::\"db/select\", resource) when { context.arguments.rows < 5 };\n"}, nil},
		"schema, misfit":   {"schema: 1\ncedar: {schema: s.cedarschema}\n", map[string]string{"s.cedarschema": ownSchema, "policies/a.cedar": "\npermit (principal, action == ThoughtGate::Action::\"db/select\", resource) when { context.arguments.row < 5 };\n"}, []string{"a.cedar:2:1: error: the policy does not fit the schema s.cedarschema:"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{config.FileName: test.yaml}
			for name, text := range test.files {
				files[name] = text
			}
			cfg, ds := config.Load(folder(t, files), func(string) string { return "" })
			if cfg == nil {
				t.Fatalf("configuration: %v", ds)
			}
			s, ds := Load(cfg)
			if (s == nil) != config.HasErrors(ds) {
				t.Errorf("got a set: %v, diagnostics %v", s != nil, ds)
			}
			for i, d := range ds {
				if i >= len(test.want) {
					t.Errorf("also got %v", d)
				} else if !strings.Contains(d.String(), test.want[i]) {
					t.Errorf("got  %v\nwant %s", d, test.want[i])
				}
			}
			if len(ds) < len(test.want) {
				t.Errorf("got %v, want %q", ds, test.want)
			}
		})
	}
}

const ownSchema = `namespace ThoughtGate {
  entity User; entity Session in [User]; entity Server;
  entity Agent in [Session, User];
  entity Tool in [Server] { name: String, server: String };
  action call;
  action "tools/call" in [call];
  action "db/select" in ["tools/call"] appliesTo {
    principal: Agent, resource: Tool, context: { arguments: { rows: Long } }
  };
}
`
