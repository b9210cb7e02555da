package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// listed holds the tools that servers have listed.
type listed struct{ listings []shape.Listing }

func (l *listed) Listings() []shape.Listing { return l.listings }

func (l *listed) Tool(server, launch, name string) *shape.Tool {
	for _, g := range l.listings {
		for _, t := range g.Tools {
			if g.Server == server && g.Launch == launch && t.Name == name {
				return t
			}
		}
	}
	return nil
}

// list adds or replaces a tool.
func (l *listed) list(t testing.TB, server, launch, name, schema string, at time.Time) {
	t.Helper()
	takes, err := shape.Read([]byte(schema))
	if err != nil {
		t.Fatalf("%s/%s: %v", server, name, err)
	}
	tool := &shape.Tool{Server: server, Launch: launch, Name: name, Takes: takes}
	for i := range l.listings {
		g := &l.listings[i]
		if g.Server != server || g.Launch != launch {
			continue
		}
		g.Listed = at
		for j := range g.Tools {
			if g.Tools[j].Name == name {
				g.Tools[j] = tool
				return
			}
		}
		g.Tools = append(g.Tools, tool)
		return
	}
	l.listings = append(l.listings, shape.Listing{Server: server, Launch: launch, Listed: at, Tools: []*shape.Tool{tool}})
}

// toolsOf returns the tools described by lines of the form "server tool schema".
func toolsOf(t testing.TB, lines string) *listed {
	t.Helper()
	l := &listed{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		l.list(t, f[0], "", f[1], f[2], noon)
	}
	return l
}

const bankTools = `
bank pay {"type":"object","properties":{"amount":{"type":"integer"},"to":{"type":"string"},"note":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"urgent":{"type":"boolean"},"rate":{"type":"number"},"from":{"type":"object","properties":{"iban":{"type":"string"},"limits":{"type":"array","items":{"type":"integer"}}},"required":["iban"]},"extra":{},"when":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["amount","to","from"]}
bank balance {"type":"object","properties":{}}
fs read {"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}
fs read_many {"type":"object","properties":{"path":{"type":"array","items":{"type":"string"}}},"required":["path"]}
web get {"type":"object"}
`

// loaded builds a set and checks its policies against tools.
func loaded(t testing.TB, yaml, cedar string, opts ...Option) (*Set, []config.Diagnostic) {
	t.Helper()
	cfg, ds := config.Load(folder(t, map[string]string{config.FileName: yaml, "policies/p.cedar": cedar}), func(string) string { return "" })
	if cfg == nil {
		t.Fatal(ds)
	}
	return Load(cfg, opts...)
}

func inLines(ds []config.Diagnostic) string {
	var lines []string
	for _, d := range ds {
		d.File = d.File[strings.LastIndexByte(d.File, '/')+1:]
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

func TestGeneratedSchema(t *testing.T) {
	pay := func(condition string) string {
		return "forbid (principal, action == ThoughtGate::Action::\"bank/pay\", resource)\nwhen { " + condition + " };"
	}
	group := func(condition string) string {
		return "forbid (principal, action in ThoughtGate::Action::\"tools/call\", resource)\nwhen { " + condition + " };"
	}
	tool := func(id, condition string) string {
		return "forbid (principal, action == ThoughtGate::Action::\"" + id + "\", resource)\nwhen { " + condition + " };"
	}
	const unguarded = "p.cedar:2:26: error: a tool may be called without the argument \"path\"; write `context.arguments has path && ...`"
	for name, test := range map[string]struct{ cedar, want string }{
		"an argument":              {pay(`context.arguments.amount > 5 && context.arguments.to like "x*"`), ""},
		"no such argument":         {pay(`context.arguments.amout > 5`), `p.cedar:2:26: error: bank/pay has no argument "amout"; did you mean "amount"?`},
		"the second of two":        {pay("context.arguments.amount > 5\n  && context.arguments.too == \"x\""), `p.cedar:3:24: error: bank/pay has no argument "too"; did you mean "to"?`},
		"two that are wrong":       {pay("context.arguments.a > 5 &&\ncontext.arguments.b > 5"), "p.cedar:2:26: error: bank/pay has no argument \"a\"; known are amount, extra, from, note, rate, tags, to, urgent, when\np.cedar:3:19: error: bank/pay has no argument \"b\"; known are amount, extra, from, note, rate, tags, to, urgent, when"},
		"as a string":              {pay(`context.arguments["amout"] > 5`), `p.cedar:2:26: error: bank/pay has no argument "amout"; did you mean "amount"?`},
		"an optional one":          {pay(`context.arguments.note == "x"`), "p.cedar:2:26: error: bank/pay may be called without the argument \"note\"; write `context.arguments has note && ...`"},
		"an optional one, asked":   {pay(`context.arguments has note && context.arguments.note == "x"`), ""},
		"asked in another when":    {"forbid (principal, action == ThoughtGate::Action::\"bank/pay\", resource) when { context.arguments has note } when { context.arguments.note == \"x\" };", ""},
		"asked in unless":          {"forbid (principal, action == ThoughtGate::Action::\"bank/pay\", resource) unless { context.arguments has note && context.arguments.note == \"x\" };", ""},
		"asked the wrong way":      {pay(`context.arguments has note || context.arguments.note == "x"`), "p.cedar:2:56: error: bank/pay may be called without the argument \"note\"; write `context.arguments has note && ...`"},
		"text for a number":        {pay(`context.arguments.amount == "5"`), "p.cedar:2:8: error: in a call of bank/pay: the types Long and String are not compatible in `context.arguments.amount == \"5\"`"},
		"number for a text":        {pay(`context.arguments.amount > 1 && context.arguments.to > 5`), "p.cedar:2:40: error: in a call of bank/pay: expected Long, found String in `context.arguments.to > 5`"},
		"the same, once right":     {pay(`context.arguments.amount > 1 && context.arguments.amount like "x"`), "p.cedar:2:40: error: in a call of bank/pay: expected String, found Long in `context.arguments.amount like \"x\"`"},
		"like of a list":           {pay(`context.arguments has tags && context.arguments.tags like "x"`), "p.cedar:2:38: error: in a call of bank/pay: expected String, found Set<String> in `context.arguments.tags like \"x\"`"},
		"not a condition":          {pay(`context.arguments.amount`), "p.cedar:2:8: error: in a call of bank/pay: expected Bool, found Long in `context.arguments.amount`"},
		"a list of texts":          {pay(`context.arguments has tags && context.arguments.tags.contains("x") && context.lists has tags && context.lists.tags like "[\"x*"`), ""},
		"a list of numbers":        {pay(`context.arguments has tags && context.arguments.tags.contains(1)`), "p.cedar:2:38: error: in a call of bank/pay: the types Long and String are not compatible in `context.arguments.tags.contains(1)`"},
		"a list that is none":      {pay(`context.lists.to == "x"`), `p.cedar:2:22: error: bank/pay has no list "to" among its arguments; did you mean "to"?`},
		"an agent's own tool":      {tool("agent/shell", `context.arguments has command && context.arguments.command like "rm *"`), ""},
		"its argument as another":  {tool("agent/fetch", `context.arguments has url && context.arguments.url > 5`), "p.cedar:2:37: error: in a call of agent/fetch: expected Long, found String in `context.arguments.url > 5`"},
		"which may be missing":     {tool("agent/write", `context.arguments.path like "/etc/*"`), "p.cedar:2:26: error: agent/write may be called without the argument \"path\"; write `context.arguments has path && ...`"},
		"one that is not known":    {tool("agent/shell", `context.arguments has timeout && context.arguments.timeout > 5`), ""},
		"a flag":                   {pay(`context.arguments has urgent && context.arguments.urgent`), ""},
		"a decimal":                {pay(`context.arguments has rate && context.arguments.rate.lessThan(decimal("1.5"))`), ""},
		"a decimal as a Long":      {pay(`context.arguments has rate && context.arguments.rate < 2`), "p.cedar:2:38: error: in a call of bank/pay: expected Long, found decimal in `context.arguments.rate < 2`; compare decimals as in `context.arguments.amount.lessThan(decimal(\"1.5\"))`"},
		"a member":                 {pay(`context.arguments.from.iban like "DE*" && context.arguments.from has limits && context.arguments.from.limits.contains(3)`), ""},
		"no such member":           {pay(`context.arguments.from.ibam like "DE*"`), `p.cedar:2:31: error: bank/pay has no member "ibam" in its argument "from"; did you mean "iban"?`},
		"an optional member":       {pay(`context.arguments.from.limits.contains(3)`), "p.cedar:2:31: error: bank/pay may be called without \"limits\" in its argument \"from\"; write `context.arguments.from has limits && ...`"},
		"asked for with a path":    {pay(`context.arguments has from.limits && context.arguments.from.limits.contains(3)`), ""},
		"anything":                 {pay(`context.arguments has extra && context.arguments.extra == 5`), ""},
		"anything, as another":     {pay(`context.arguments has extra && context.arguments.extra like "5"`), ""},
		"anything, as an object":   {pay(`context.arguments has extra.a && context.arguments.extra.a.contains("x")`), ""},
		"anything, not asked":      {pay(`context.arguments has extra && context.arguments.extra.a == 1`), "p.cedar:2:63: error: bank/pay may be called without \"a\" in its argument \"extra\"; write `context.arguments.extra has a && ...`"},
		"anything, as no type":     {pay(`context.arguments has extra && context.arguments.extra + 1 == "x"`), "p.cedar:2:39: error: in a call of bank/pay: the types Long and String are not compatible in `context.arguments.extra + 1 == \"x\"`\np.cedar:2:39: error: in a call of bank/pay: expected Long, found String in `context.arguments.extra + 1 == \"x\"`"},
		"anything, and a slip":     {pay(`context.arguments has extra && context.arguments.extra == 5 && context.arguments.amount == "5"`), "p.cedar:2:71: error: in a call of bank/pay: the types Long and String are not compatible in `context.arguments.amount == \"5\"`"},
		"anything, in an if":       {pay(`(if context.arguments has extra then context.arguments.extra else 5) > 3`), ""},
		"an object and a text":     {tool("mail/send", `context.arguments has a.b || context.arguments.a like "x"`), ""},
		"several types":            {pay(`context.arguments has when && context.arguments.when < 7`), ""},
		"two that must be alike":   {tool("mail/send", `context.arguments.a == context.arguments.b && context.arguments.b == context.arguments.c && context.arguments.c > 5`), ""},
		"two that can't be":        {tool("mail/send", `context.arguments.a like "x" && context.arguments.a > 5`), ""},
		"an item and its list":     {tool("mail/send", `context.arguments.a.contains(context.arguments.b) && context.arguments.b > 3`), ""},
		"a list of objects":        {tool("mail/send", `context.arguments.a.contains({x: 1, y: "z"})`), ""},
		"like nothing there is":    {tool("mail/send", `context.arguments.a in principal`), "p.cedar:2:8: error: in a call of mail/send: expected an entity, found String in `context.arguments.a in principal`"},
		"no arguments at all":      {tool("bank/balance", `context.arguments.account == "x"`), `p.cedar:2:26: error: bank/balance has no argument "account"`},
		"a tool that takes all":    {tool("web/get", `context.arguments has url && context.arguments.url like "http:*"`), ""},
		"all, not asked":           {tool("web/get", `context.arguments.url like "http:*"`), "p.cedar:2:26: error: web/get may be called without the argument \"url\"; write `context.arguments has url && ...`"},
		"a tool nobody has listed": {tool("mail/send", `context.arguments.to like "*@example.com" && context.arguments.n > 5`), ""},
		"that, and a slip beside":  {tool("mail/send", `context.arguments.to like "x" && context.tim.hour > 5`), `p.cedar:2:49: error: context has no member "tim"; did you mean "time"?`},
		"a slip in the name":       {tool("bank/payy", `context.arguments.amount > 5`), `p.cedar:1:1: warning: server bank has listed no tool "payy"; did you mean ThoughtGate::Action::"bank/pay"?`},
		"a slip in a condition":    {group(`action == ThoughtGate::Action::"fs/raed"`), `p.cedar:1:1: warning: server fs has listed no tool "raed"; did you mean ThoughtGate::Action::"fs/read"?`},
		"a method nobody has":      {"forbid (principal, action == ThoughtGate::Action::\"resources/raed\", resource);", `p.cedar:1:1: warning: there is no method "resources/raed", and no server has listed such a tool; did you mean ThoughtGate::Action::"resources/read"?`},
		"an action that is none":   {"forbid (principal, action == ThoughtGate::Action::\"delete\", resource);", `p.cedar:1:1: error: no call matches the scope of the policy; an action is a tool, as server/tool, or a method`},
		"a group as an action":     {"forbid (principal, action == ThoughtGate::Action::\"tools/call\", resource);", "p.cedar:1:1: error: no call matches the scope of the policy; ThoughtGate::Action::\"tools/call\" is a group: write `action in ThoughtGate::Action::\"tools/call\"`"},
		"a scope that contradicts": {"forbid (principal, action == ThoughtGate::Action::\"bank/pay\", resource in ThoughtGate::Server::\"fs\");", `p.cedar:1:1: error: no call matches the scope of the policy; its principal, action and resource do not fit together`},
		"a server as principal":    {"forbid (principal is ThoughtGate::Server, action in ThoughtGate::Action::\"tools/call\", resource);", `p.cedar:1:1: error: no call matches the scope of the policy; its principal, action and resource do not fit together`},

		"a group, not asked":      {group(`context.arguments.path == "x"`), "p.cedar:2:8: error: in a call of fs/read_many: the types String and Set<String> are not compatible in `context.arguments.path == \"x\"`; exclude it with `!(action in ThoughtGate::Action::\"fs/read_many\") && ...`\n" + unguarded},
		"a group, asked":          {group(`context.arguments has path && context.arguments.path like "/etc/*"`), "p.cedar:2:38: error: in a call of fs/read_many: expected String, found Set<String> in `context.arguments.path like \"/etc/*\"`; exclude it with `!(action in ThoughtGate::Action::\"fs/read_many\") && ...`"},
		"a group, less one":       {group(`!(action in ThoughtGate::Action::"fs/read_many") && context.arguments has path && context.arguments.path like "/etc/*"`), ""},
		"a group of a server":     {"forbid (principal, action in ThoughtGate::Action::\"tools/call\", resource in ThoughtGate::Server::\"bank\") when { context.arguments has amount && context.arguments.amount > 5 };", ""},
		"all of a server":         {"forbid (principal, action, resource in ThoughtGate::Server::\"bank\") when { context.arguments has amount && context.arguments.amount > 5 };", "p.cedar:1:108: error: in a call of prompts/get: expected Long, found String in `context.arguments.amount > 5`"},
		"asked in vain":           {pay(`context.arguments has amout && context.arguments.amout > 5`), `p.cedar:2:30: error: bank/pay has no argument "amout"; did you mean "amount"?`},
		"asked of several":        {"forbid (principal, action in [ThoughtGate::Action::\"fs/read\", ThoughtGate::Action::\"bank/pay\"], resource) when { context.arguments has amount };", ""},
		"asked of none of them":   {"forbid (principal, action in [ThoughtGate::Action::\"fs/read\", ThoughtGate::Action::\"bank/pay\"], resource) when { context.arguments has amounts };", `p.cedar:1:136: error: bank/pay (and 1 more) has no argument "amounts"; did you mean "amount"?`},
		"asked of the context":    {group(`context has argumens`), `p.cedar:2:20: error: context has no member "argumens"; did you mean "arguments"?`},
		"asked of the facts":      {group(`context.fact_details has secrets`), `p.cedar:2:33: error: context.fact_details has no member "secrets"; did you mean "secret"?`},
		"what a user answered":    {group(`context.inputResponses has a.action && context.inputResponses.a.action == "accept"`), ""},
		"beside the arguments":    {group(`context.params has _meta && context.params._meta has "acme/as" && context.params._meta["acme/as"] == "root"`), ""},
		"... unasked":             {pay(`context.params.task == "x"`), "p.cedar:2:23: error: context.params may lack the member \"task\"; write `context.params has task && ...`"},
		"of nobody":               {pay(`context.inputResponses.a == "accept"`), "p.cedar:2:31: error: context.inputResponses may lack the member \"a\"; write `context.inputResponses has a && ...`"},
		"facts":                   {group(`context.facts.containsAny(["secret", "sends"]) && context.facts.contains("acts")`), ""},
		"one fact of several":     {group(`context.facts.contains("acts") || context.facts.containsAll(["secret", "sent"])`), `p.cedar:2:79: error: there is no fact "sent"; did you mean "sends"?`},
		"a group that fits none":  {group(`context.arguments has colour && context.arguments.colour == 5`), ""},
		"a few tools":             {"forbid (principal, action in [ThoughtGate::Action::\"fs/read\", ThoughtGate::Action::\"fs/read_many\"], resource) when { context.arguments.path == \"/x\" };", "p.cedar:1:118: error: in a call of fs/read_many: the types String and Set<String> are not compatible in `context.arguments.path == \"/x\"`"},
		"a tool by its resource":  {"forbid (principal, action, resource == ThoughtGate::Tool::\"fs/read\") when { context.arguments.path == \"/x\" };", ""},
		"a resource, by its name": {"forbid (principal, action == ThoughtGate::Action::\"resources/read\", resource) when { resource.name == \"x\" };", `p.cedar:1:95: error: in a call of resources/read: the resource is a ThoughtGate::Resource, which has no attribute "name"; known are host, path, scheme, server, uri`},
		"what a server asks":      {"permit (principal, action == ThoughtGate::Action::\"sampling/createMessage\", resource) when { context.arguments.maxTokens < 5 && principal.id == \"x\" };", ""},
		"its slips":               {"permit (principal, action == ThoughtGate::Action::\"sampling/createMessage\", resource) when { context.arguments.maxTokens like \"5\" && context.ask.toools.isEmpty() };", "p.cedar:1:94: error: in a call of sampling/createMessage: expected String, found Long in `context.arguments.maxTokens like \"5\"`\np.cedar:1:146: error: context.ask has no member \"toools\"; did you mean \"tools\"?"},
		"a fact nobody knows":     {group(`context.facts.contains("secrets")`), `p.cedar:2:31: error: there is no fact "secrets"; did you mean "secret"?`},
		"an empty set":            {group(`context.facts == []`), "p.cedar:2:8: error: in a call of a tool: empty set literals are forbidden in policies in `context.facts == []`"},
		"an attribute of agents":  {group(`principal.exe == "/usr/bin/x"`), `p.cedar:2:18: error: in a call of a tool: the principal is a ThoughtGate::Agent, which has no attribute "exe"; known are cwd, executable, project, session, sha256, tty`},
		"places behind comments":  {"// context.arguments.amout\n@reason(\"context.arguments.amout\")\n" + pay("\"context.arguments.amout\" == \"x\" || // context.arguments.amout\n context.arguments.amout > 5"), `p.cedar:5:20: error: bank/pay has no argument "amout"; did you mean "amount"?`},
		"as a key of a record":    {pay(`{context: 1} == {context: context.arguments.amount} || context.arguments.nope > 1`), `p.cedar:2:81: error: bank/pay has no argument "nope"; did you mean "note"?`},
		"inside an if":            {pay(`if context.arguments has note then context.arguments.note == "x" else context.arguments.note == "y"`), "p.cedar:2:61: error: bank/pay may be called without the argument \"note\"; write `context.arguments has note && ...`"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ds := loaded(t, "schema: 1\n", test.cedar, WithTools(toolsOf(t, bankTools)))
			if got := inLines(ds); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
