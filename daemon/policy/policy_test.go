//gotest:plain a set never changes
package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// folder writes files and returns the path of the configuration among them.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, config.FileName)
}

// load builds a set from a configuration and one file of policies.
func load(t testing.TB, yaml, cedar string, opts ...Option) *Set {
	t.Helper()
	files := map[string]string{config.FileName: yaml}
	if cedar != "" {
		files["policies/test.cedar"] = cedar
	}
	cfg, ds := config.Load(folder(t, files), os.Getenv)
	if cfg == nil {
		t.Fatalf("configuration: %v", ds)
	}
	s, ds := Load(cfg, opts...)
	if s == nil {
		t.Fatalf("policies: %v", ds)
	}
	return s
}

// noon is a Friday.
var noon = time.Date(2026, 11, 20, 12, 30, 0, 0, time.Local)

// message returns a call with the given line.
func message(t testing.TB, server string, side wire.Side, line string) *gate.Call {
	t.Helper()
	c := &gate.Call{
		Message: gate.Message{Received: noon, Side: side, Line: []byte(line)},
		Case:    gate.Case{Agent: "claude-code", Server: server, Session: "s1", Project: "/home/u/p", Profile: gate.Production, Command: []string{"/usr/bin/" + server, "--stdio"}},
	}
	if err := wire.Read(c.Line, side, &c.Envelope); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	c.Method = c.Envelope.Method
	var err error
	if side == wire.FromAgent {
		if c.Subject, err = mcp.SubjectOf(&c.Envelope, c.Line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return c
}

func toolCall(t testing.TB, server, tool, arguments string) *gate.Call {
	t.Helper()
	return fromAgent(t, server, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

func fromAgent(t testing.TB, server, method, params string) *gate.Call {
	t.Helper()
	return message(t, server, wire.FromAgent, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
}

func fromServer(t testing.TB, server, method, params string) *gate.Call {
	t.Helper()
	return message(t, server, wire.FromServer, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
}

// inShort describes a ruling in short: move, gate, rule and policies.
func inShort(r gate.Ruling, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	move := r.Move.String()
	if r.Hidden {
		move = "hidden"
	}
	parts := []string{move, r.Gate, r.Rule}
	if len(r.Policies) > 0 {
		parts = append(parts, strings.Join(r.Policies, "+"))
	}
	if r.Workflow != "" {
		parts = append(parts, "ask "+r.Workflow)
	}
	return strings.Join(parts, "; ")
}

func judge(s *Set, c *gate.Call, facts ...gate.Fact) string {
	return inShort(s.Rule(context.Background(), c, facts))
}

const rulesYAML = `schema: 1
sources:
  - {id: off, enabled: false}
  - {id: tied, command: "*/real --*"}
  - {id: listed, expose: {mode: allowlist, tools: ["read_*"], resources: ["file:///docs/*"]}}
  - {id: blocked, expose: {mode: blocklist, tools: ["drop_*"], prompts: ["*"], resources: ["file:///etc/*"]}}
governance:
  defaults: {action: forward, asks: deny}
  rules:
    - {match: "delete_*", action: approve, approval: ops, description: "it deletes"}
    - {match: "*", source: [prod, "prod-*"], action: deny}
    - {match: "write_*", agent: cursor, action: deny, description: "cursor only reads"}
    - {when: [secret, planted], action: approve, approval: team}
    - {match: "send_*", when: planted, action: deny}
    - {match: "file:///etc/*", action: deny}
    - {match: "summary", method: prompts/get, action: deny}
    - {match: "*", method: "sampling/*", source: helper, action: forward}
    - {match: "*", method: "acme/*", source: acme, action: forward}
    - {match: "*", method: roots/list, source: nosy, action: deny}
    - {match: "*", source: trusted, action: forward}
approval:
  ops: {destination: {type: local}, timeout: 2m, redact_fields: [password], surfaces: [terminal]}
  team: {destination: {type: local}, redact_fields: [token]}
`

func TestRules(t *testing.T) {
	s := load(t, rulesYAML, "")
	secret, planted, sends := gate.Fact{Name: "secret"}, gate.Fact{Name: "planted"}, gate.Fact{Name: "sends"}
	for name, test := range map[string]struct {
		call  *gate.Call
		facts []gate.Fact
		want  string
	}{
		"no rule":                {toolCall(t, "fs", "read_file", `{}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"match":                  {toolCall(t, "fs", "delete_file", `{}`), nil, `ask; rule; "delete_*" (thoughtgate.yaml:10); ask ops`},
		"first match wins":       {toolCall(t, "prod", "delete_file", `{}`), nil, `ask; rule; "delete_*" (thoughtgate.yaml:10); ask ops`},
		"source in a list":       {toolCall(t, "prod-eu", "read", `{}`), nil, `deny; rule; "*" (thoughtgate.yaml:11)`},
		"source is the whole":    {toolCall(t, "production", "read", `{}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"other agent":            {toolCall(t, "fs", "write_file", `{}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"fact":                   {toolCall(t, "fs", "x", `{}`), []gate.Fact{sends, planted}, `ask; rule; "*" when secret or planted (thoughtgate.yaml:13); ask team`},
		"other fact":             {toolCall(t, "fs", "x", `{}`), []gate.Fact{sends}, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"fact and match":         {toolCall(t, "fs", "send_mail", `{}`), []gate.Fact{secret}, `ask; rule; "*" when secret or planted (thoughtgate.yaml:13); ask team`},
		"uri":                    {fromAgent(t, "fs", "resources/read", `{"uri":"file:///etc/passwd"}`), nil, `deny; rule; "file:///etc/*" (thoughtgate.yaml:15)`},
		"uri that goes up":       {fromAgent(t, "fs", "resources/read", `{"uri":"file:///tmp/../etc/passwd"}`), nil, `deny; rule; "file:///etc/*" (thoughtgate.yaml:15)`},
		"uri escaped":            {fromAgent(t, "fs", "resources/read", `{"uri":"FILE://localhost/%65tc/passwd"}`), nil, `deny; rule; "file:///etc/*" (thoughtgate.yaml:15)`},
		"subscribe":              {fromAgent(t, "fs", "resources/subscribe", `{"uri":"file:///etc/passwd"}`), nil, `deny; rule; "file:///etc/*" (thoughtgate.yaml:15)`},
		"prompt":                 {fromAgent(t, "fs", "prompts/get", `{"name":"summary"}`), nil, `deny; rule; "summary" (thoughtgate.yaml:16)`},
		"tool of that name":      {toolCall(t, "fs", "summary", `{}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"completion":             {fromAgent(t, "fs", "completion/complete", `{"ref":{"type":"ref/resource","uri":"file:///etc/{x}"},"argument":{"name":"x","value":"p"}}`), nil, `deny; rule; "file:///etc/*" (thoughtgate.yaml:15)`},
		"sampling":               {fromServer(t, "fs", "sampling/createMessage", `{"messages":[],"maxTokens":1}`), nil, "deny; rule; defaults.asks (thoughtgate.yaml:8)"},
		"sampling, named":        {fromServer(t, "helper", "sampling/createMessage", `{"messages":[],"maxTokens":1}`), nil, `forward; rule; "*" (thoughtgate.yaml:17)`},
		"sampling, not named":    {fromServer(t, "trusted", "sampling/createMessage", `{"messages":[],"maxTokens":1}`), nil, "deny; rule; defaults.asks (thoughtgate.yaml:8)"},
		"form":                   {fromServer(t, "fs", "elicitation/create", `{"message":"m","requestedSchema":{}}`), nil, "forward; rule; "},
		"form, named so":         {fromServer(t, "fs", "elicitation/create", `{"mode":"form","message":"m","requestedSchema":{}}`), nil, "forward; rule; "},
		"url":                    {fromServer(t, "fs", "elicitation/create", `{"mode":"url","message":"m","url":"https://x"}`), nil, "deny; rule; defaults.asks (thoughtgate.yaml:8)"},
		"another mode":           {fromServer(t, "fs", "elicitation/create", `{"mode":"new","message":"m"}`), nil, "deny; rule; defaults.asks (thoughtgate.yaml:8)"},
		"roots":                  {fromServer(t, "fs", "roots/list", `{}`), nil, "forward; rule; "},
		"roots, named":           {fromServer(t, "nosy", "roots/list", `{}`), nil, `deny; rule; "*" (thoughtgate.yaml:19)`},
		"unknown method":         {fromAgent(t, "fs", "acme/go", `{}`), nil, "deny; rule; unknown methods"},
		"unknown, named":         {fromAgent(t, "acme", "acme/go", `{}`), nil, `forward; rule; "*" (thoughtgate.yaml:18)`},
		"unknown of a server":    {fromServer(t, "fs", "acme/go", `{}`), nil, "deny; rule; unknown methods"},
		"unknown notification":   {message(t, "fs", wire.FromServer, `{"jsonrpc":"2.0","method":"notifications/acme"}`), nil, "deny; rule; unknown methods"},
		"unknown revision":       {fromAgent(t, "fs", "tools/call", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"},"name":"read"}`), nil, "deny; rule; unknown revisions"},
		"... of what passes":     {fromAgent(t, "fs", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}`), nil, "deny; rule; unknown revisions"},
		"known revision":         {fromAgent(t, "fs", "tools/call", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"read"}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"switched off":           {toolCall(t, "off", "read", `{}`), nil, `hidden; visible; source "off" (thoughtgate.yaml:3)`},
		"asks of switched off":   {fromServer(t, "off", "roots/list", `{}`), nil, `hidden; visible; source "off" (thoughtgate.yaml:3)`},
		"tied to another":        {toolCall(t, "tied", "read", `{}`), nil, `hidden; visible; source "tied" (thoughtgate.yaml:4)`},
		"listed":                 {toolCall(t, "listed", "read_file", `{}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"not listed":             {toolCall(t, "listed", "write_file", `{}`), nil, `hidden; visible; source "listed" (thoughtgate.yaml:5)`},
		"no list of prompts":     {fromAgent(t, "listed", "prompts/get", `{"name":"p"}`), nil, `hidden; visible; source "listed" (thoughtgate.yaml:5)`},
		"listed resource":        {fromAgent(t, "listed", "resources/read", `{"uri":"file:///docs/a"}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"listed, but goes up":    {fromAgent(t, "listed", "resources/read", `{"uri":"file:///docs/../x"}`), nil, `hidden; visible; source "listed" (thoughtgate.yaml:5)`},
		"blocked":                {toolCall(t, "blocked", "drop_table", `{}`), nil, `hidden; visible; source "blocked" (thoughtgate.yaml:6)`},
		"blocked prompt":         {fromAgent(t, "blocked", "prompts/get", `{"name":"p"}`), nil, `hidden; visible; source "blocked" (thoughtgate.yaml:6)`},
		"blocked, escaped":       {fromAgent(t, "blocked", "resources/read", `{"uri":"file:///%65tc/x"}`), nil, `hidden; visible; source "blocked" (thoughtgate.yaml:6)`},
		"not blocked":            {toolCall(t, "blocked", "select", `{}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"an answer":              {message(t, "fs", wire.FromServer, `{"jsonrpc":"2.0","id":1,"result":{}}`), nil, "error: policies judge requests, not the answer to "},
		"a call from a server":   {fromServer(t, "fs", "tools/call", `{"name":"x"}`), nil, "error: tools/call is not sent in this direction"},
		"a task has no name":     {fromAgent(t, "fs", "tasks/update", `{"taskId":"read_x","inputResponses":{}}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"a list with answers":    {fromAgent(t, "fs", "tools/list", `{"inputResponses":{"a":{"action":"accept"}}}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
		"a secret in answers":    {fromAgent(t, "fs", "resources/list", `{"inputResponses":{"a":{"password":"p"}}}`), []gate.Fact{secret}, `ask; rule; "*" when secret or planted (thoughtgate.yaml:13); ask team`},
		"answers, switched off":  {fromAgent(t, "off", "tools/list", `{"inputResponses":{}}`), nil, `hidden; visible; source "off" (thoughtgate.yaml:3)`},
		"a task of a tool":       {ofTask(fromAgent(t, "fs", "tasks/update", `{"taskId":"read_x","inputResponses":{}}`), "delete_file"), nil, `ask; rule; "delete_*" (thoughtgate.yaml:10); ask ops`},
		"a task of a hidden one": {ofTask(fromAgent(t, "listed", "tasks/update", `{"taskId":"t"}`), "write_file"), nil, `hidden; visible; source "listed" (thoughtgate.yaml:5)`},
		"resource with a blank":  {fromAgent(t, "fs", "resources/read", `{"uri":"note://My Note"}`), nil, "forward; rule; defaults.action (thoughtgate.yaml:8)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(s, test.call, test.facts...); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestRulingsSayWhatIsNeeded(t *testing.T) {
	s := load(t, rulesYAML, "")
	r, err := s.Rule(context.Background(), toolCall(t, "fs", "delete_x", `{}`), nil)
	if err != nil || r.Reason != "it deletes" || r.Timeout != 2*time.Minute || strings.Join(r.Redact, ",") != "password" || strings.Join(r.Surfaces, ",") != "terminal" {
		t.Errorf("a question: got %+v %v", r, err)
	}
	r, _ = s.Rule(context.Background(), toolCall(t, "fs", "x", `{}`), []gate.Fact{{Name: "secret"}})
	if r.Reason != "tools/call on server fs needs a person's approval" || r.Timeout != 10*time.Minute || strings.Join(r.Surfaces, ",") != "terminal,script" {
		t.Errorf("a question without words: got %+v", r)
	}
	r, _ = s.Rule(context.Background(), toolCall(t, "prod", "x", `{}`), nil)
	if r.Code != mcp.CodeRule || r.Reason != "tools/call on server prod is denied" || strings.Join(r.Redact, ",") != "password,token" {
		t.Errorf("a denial: got %+v", r)
	}
	r, _ = s.Rule(context.Background(), toolCall(t, "off", "x", `{}`), nil)
	if r.Code != mcp.CodeInvalidParams || r.Reason != "server off is disabled" {
		t.Errorf("a hidden tool: got %+v", r)
	}
	r, _ = s.Rule(context.Background(), fromAgent(t, "fs", "acme/go", `{}`), nil)
	if r.Code != mcp.CodeUnknownMethod {
		t.Errorf("an unknown method: got %+v", r)
	}
	c := fromAgent(t, "fs", "acme/go", `{}`)
	c.Profile = gate.Development
	if r, _ = s.Rule(context.Background(), c, nil); r.Move != gate.Forward {
		t.Errorf("an unknown method in development: got %+v", r)
	}
	c = fromAgent(t, "fs", "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}`)
	c.Profile = gate.Development
	if r, _ = s.Rule(context.Background(), c, nil); r.Move != gate.Forward {
		t.Errorf("an unknown revision in development: got %+v", r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Rule(ctx, c, nil); err == nil {
		t.Error("a context that has ended: want an error")
	}
}

func TestVisible(t *testing.T) {
	s := load(t, rulesYAML, "")
	for _, test := range []struct {
		server, kind, name string
		want               bool
	}{
		{"fs", "tools", "any", true},
		{"off", "tools", "any", false},
		{"off", "prompts", "any", false},
		{"listed", "tools", "read_x", true},
		{"listed", "tools", "write_x", false},
		{"listed", "prompts", "x", false},
		{"listed", "resources", "file:///docs/{path}", true},
		{"listed", "resources", "file:///docs/../x", false},
		{"listed", "resources", "file:///x", false},
		{"listed", "skills of the future", "read_x", false},
		{"blocked", "tools", "drop_x", false},
		{"blocked", "tools", "x", true},
		{"blocked", "resources", "file:///a/../etc/x", false},
	} {
		if got := s.Visible(&gate.Call{Case: gate.Case{Server: test.server}}, test.kind, test.name); got != test.want {
			t.Errorf("Visible(%q, %q, %q): got %v, want %v", test.server, test.kind, test.name, got, test.want)
		}
	}
}

// Where a configuration forwards what no rule of it matches, the built-in rules ask about the
// agent's own tools.
func TestDefaultOfOwnTools(t *testing.T) {
	const rules = `, rules: [{match: fetch, source: agent, action: deny}, {match: read, source: "a*", when: secret-place, action: forward}]}
`
	forwards, denies := load(t, "schema: 1\ngovernance: {defaults: {action: forward}"+rules, ""), load(t, "schema: 1\ngovernance: {defaults: {action: deny}"+rules, "")
	for _, test := range []struct {
		set                *Set
		server, tool, fact string
		want               string
	}{
		{forwards, "agent", "shell", "destroys", `ask; rule; "*" when destroys (built-in default:13); ask default`},
		{forwards, "agent", "shell", "opaque", "forward; rule; defaults.action (thoughtgate.yaml:2)"},
		{forwards, "agent", "read", "secret-place", `forward; rule; "read" when secret-place (thoughtgate.yaml:2)`},
		{forwards, "agent", "fetch", "opaque", `deny; rule; "fetch" (thoughtgate.yaml:2)`},
		{forwards, "files", "shell", "destroys", "forward; rule; defaults.action (thoughtgate.yaml:2)"},
		{denies, "agent", "shell", "destroys", "deny; rule; defaults.action (thoughtgate.yaml:2)"},
	} {
		c := toolCall(t, test.server, test.tool, `{}`)
		fact := gate.Fact{Name: test.fact}
		if got := judge(test.set, c, fact); got != test.want {
			t.Errorf("%s of %s with %s: got %s, want %s", test.tool, test.server, test.fact, got, test.want)
		}
		if e := test.set.Explain(t.Context(), c, []gate.Fact{fact}); len(e.Cited) != 1 || !strings.Contains(test.want, e.Cited[0].Name) {
			t.Errorf("%s of %s with %s: cites %+v", test.tool, test.server, test.fact, e.Cited)
		}
	}
}

func TestBuiltInDefault(t *testing.T) {
	s, ds := Load(config.Default())
	if s == nil || len(ds) > 0 {
		t.Fatalf("got %v", ds)
	}
	ask := func(line int, fact string) string {
		return fmt.Sprintf(`ask; rule; "*" when %s (built-in default:%d); ask default`, fact, line)
	}
	for name, test := range map[string]struct {
		call  *gate.Call
		facts []gate.Fact
		want  string
	}{
		"nothing":     {toolCall(t, "fs", "read_file", `{}`), nil, "forward; rule; defaults.action (built-in default:5)"},
		"secret":      {toolCall(t, "fs", "x", `{}`), []gate.Fact{{Name: "secret"}}, ask(7, "secret")},
		"acts":        {toolCall(t, "fs", "delete", `{}`), []gate.Fact{{Name: "acts"}}, ask(12, "acts")},
		"sends only":  {toolCall(t, "fs", "send", `{}`), []gate.Fact{{Name: "sends"}}, "forward; rule; defaults.action (built-in default:5)"},
		"sampling":    {fromServer(t, "fs", "sampling/createMessage", `{"messages":[],"maxTokens":1}`), nil, "ask; rule; defaults.asks (built-in default:5); ask default"},
		"form":        {fromServer(t, "fs", "elicitation/create", `{"message":"m","requestedSchema":{}}`), nil, "forward; rule; "},
		"smelly form": {fromServer(t, "fs", "elicitation/create", `{"message":"m","requestedSchema":{}}`), []gate.Fact{{Name: "smelly"}}, "ask; rule; defaults.asks (built-in default:5); ask default"},
		"steered":     {toolCall(t, "fs", "x", `{}`), []gate.Fact{{Name: "steered"}}, "forward; rule; defaults.action (built-in default:5)"},
	} {
		if got := judge(s, test.call, test.facts...); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	d := s.Describe()
	if d.Source != "" || d.Rules != 11 || d.Policies != 0 || d.Profile != gate.Production || len(d.Digest) != 64 || len(d.Files) != 0 {
		t.Errorf("Describe: got %+v", d)
	}
	r, _ := s.Rule(context.Background(), toolCall(t, "fs", "x", `{}`), []gate.Fact{{Name: "acts"}, {Name: "secret", Member: "headers.auth"}})
	if want := "the call carries what looks like a key, token or password (headers.auth)"; r.Reason != want {
		t.Errorf("reason: got %q, want %q", r.Reason, want)
	}
}

func TestDescriptions(t *testing.T) {
	when := []config.Fact{"planted"}
	for _, test := range []struct {
		description string
		facts       []gate.Fact
		want        string
	}{
		{"no braces", nil, "no braces"},
		{"{place} by {by}", []gate.Fact{{Name: "planted", Place: "a@b.example", By: "notes"}}, "a@b.example by notes"},
		{"{place}", []gate.Fact{{Name: "sends", Place: "first"}, {Name: "planted", Place: "second"}}, "second"},
		{"{member}", []gate.Fact{{Name: "secret", Member: "key"}, {Name: "planted"}}, "key"},
		{"{detail}", []gate.Fact{{Name: "secret", Detail: "deletes 2 files"}, {Name: "planted", Detail: "deletes 3 files"}}, `"deletes 3 files"`},
		{"{place} {by} {member} {detail} {other}", nil, "a place unknown an argument not known {other}"},
		{"{place}", []gate.Fact{{Name: "planted", Place: "{by} \u202e\n"}}, `"{by} \u202e\n"`},
		{"{place}.", []gate.Fact{{Name: "planted", Place: "x. It was approved already"}}, `"x. It was approved already".`},
	} {
		if got := fillPlaceholders(test.description, when, test.facts); got != test.want {
			t.Errorf("fillPlaceholders(%q): got %q, want %q", test.description, got, test.want)
		}
	}
	if got := printable(strings.Repeat("é", 1000)); len(got) > 800 {
		t.Errorf("a long name: got %d bytes", len(got))
	}
}

func TestRulesAboutUnseenServers(t *testing.T) {
	cfg, ds := config.Parse("/nowhere/thoughtgate.yaml", []byte(`schema: 1
sources: [{id: known}]
governance:
  rules:
    - {match: "*", source: [github, gihtub, known, "any*"], action: deny}
`), os.Getenv)
	if cfg == nil {
		t.Fatal(ds)
	}
	if _, ds := Load(cfg); len(ds) > 0 {
		t.Errorf("nobody looked: got %v", ds)
	}
	_, ds = Load(cfg, WithSeen([]string{"github"}))
	want := `/nowhere/thoughtgate.yaml:5:37: warning: no server "gihtub" has been seen yet (V-007); did you mean "github"?`
	if len(ds) != 1 || ds[0].String() != want {
		t.Errorf("got %v, want %s", ds, want)
	}
}

// What is redacted stays redacted if a call cannot be judged.
func TestErrorsRedact(t *testing.T) {
	s := load(t, rulesYAML, `forbid (principal, action == ThoughtGate::Action::"fs/x", resource) when { context.arguments.missing };`)
	r, err := s.Rule(context.Background(), toolCall(t, "fs", "x", `{"password":"p"}`), nil)
	if err == nil || strings.Join(r.Redact, ",") != "password,token" {
		t.Errorf("got %+v, %v", r, err)
	}
}
