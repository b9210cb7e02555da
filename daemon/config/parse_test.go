package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// All that may be written, as the documentation shows it.
const everything = `
$schema: https://example.org/thoughtgate.schema.json
schema: 1
profile: development
sources:
  - id: "filesystem"
    command: "*/mcp-server-filesystem *"
    kind: mcp
    enabled: false
    expose: {mode: allowlist, tools: ["read_*", "list_*"], resources: ["file:///*"], prompts: ["*"]}
    shared: true
    trust_annotations: true
    ca_file: ca.pem
    cert_file: client.pem
    key_file: client-key.pem
governance:
  defaults: {action: deny, asks: forward}
  rules:
    - match: "delete_*"
      when: [planted, secret]
      source: ["github", "fs*"]
      agent: "cursor"
      method: tools/call
      action: approve
      approval: ops
      undo: true
      description: "shown to the person asked"
    - match: "*"
      source: db
      action: policy
      policy_id: db-rules
    - {when: acts, action: deny}
    - {match: "*", method: sampling/createMessage, action: forward, answer_by: provider}
approval:
  ops:
    destination: {type: local}
    timeout: 1h30m
    require: presence
    redact_fields: ["password", "auth.token", "items.*.secret"]
    validity: 7d
    surfaces: [terminal]
    require_interaction: true
  team:
    destination: {type: slack, channel: C012, bot_token_env: BOT, app_token_env: APP, mention: S012, approvers: [U012, W345]}
cedar:
  policies: ["more/*.cedar", one.cedar]
  schema: my.cedarschema
audit: {sync: always, interval: 5s, retention: 30d, max_size: 64MiB, values: none, heads: /mnt/evidence/heads}
pins: {mode: warn}
unknown: {requests: forward, notifications: forward, revisions: forward}
shim: {reattach: 0, stderr: raw, max_message: 1MiB}
limits: {pending_per_server: 2, pending: 4, runs: 8, sessions: 100, pending_bytes: 32MiB, orphan: 90s}
sampling: {provider: "notes/claude:small", when: never, max_iterations: 3, max_tokens: 100, tools: ["notes/*"]}
metrics: {textfile: ../tg.prom, interval: 1m}
fleet: {approval: team}
telemetry: {enabled: true, otlp: {endpoint: "https://c.example", protocol: http/protobuf, headers: {authorization: "Bearer ${TOKEN}"}, header_files: {x-key: keys/otlp}}, sampling: {success_sample_rate: 0.25}, resource: {service.name: "${NAME:-tg}"}}
fail_on: [ungoverned]
hooks:
  claude-code: {ask: native}
  codex: {ask: hold}
agents:
  fixer: {command: [./fixer, acp], protocol: acp, timeout: 1h, env: {MODE: quiet}, pass: API_KEY, servers: {files: {command: [npx, files], env: {A: b}}}, description: mends}
`

func TestEverything(t *testing.T) {
	c, ds := Parse("/c/thoughtgate.yaml", []byte(everything), env(map[string]string{"TOKEN": "t0"}))
	if len(ds) != 0 {
		t.Fatalf("got %v, want no diagnostics", ds)
	}
	for _, check := range []struct{ got, want any }{
		{c.Profile, Development},
		{c.Sources[0].ID.String(), "filesystem"},
		{c.Sources[0].Enabled, false},
		{c.Sources[0].Expose.Tools[1].String(), "list_*"},
		{c.Sources[0].Shared && c.Sources[0].TrustAnnotations, true},
		{c.Governance.Defaults, Defaults{Action: Deny, Asks: Forward}},
		{len(c.Governance.Rules), 4},
		{c.Governance.Rules[0].When, []Fact{"planted", "secret"}},
		{c.Governance.Rules[0].Source[1].String(), "fs*"},
		{c.Governance.Rules[0].Agent[0].String(), "cursor"},
		{c.Governance.Rules[0].Place.String(), "thoughtgate.yaml:19"},
		{c.Governance.Rules[1].Place, Place{File: "/c/thoughtgate.yaml", Line: 28, Column: 7}},
		{c.Governance.Rules[2].Match.String(), "*"},
		{c.Governance.Rules[1].PolicyID, "db-rules"},
		{c.Approval["ops"].Timeout, 90 * time.Minute},
		{c.Approval["ops"].Validity, 7 * 24 * time.Hour},
		{c.Approval["ops"].Require, RequirePresence},
		{c.Approval["ops"].Surfaces, []Surface{SurfaceTerminal}},
		{c.Approval["team"].Surfaces, []Surface{SurfaceTerminal, SurfaceScript, SurfaceSlack}},
		{c.Approval["team"].Destination.Mention, []string{"S012"}},
		{c.Approval["team"].Answers("W345") && !c.Approval["team"].Answers("S012") && !c.Approval["ops"].Answers("U012"), true},
		{c.Approval["team"].Timeout, 10 * time.Minute},
		{c.Cedar, Cedar{Policies: []string{"more/*.cedar", "one.cedar"}, Schema: "my.cedarschema"}},
		{c.Audit, Audit{Sync: SyncAlways, Interval: 5 * time.Second, Retention: 720 * time.Hour, MaxSize: 64 << 20, Values: ValuesNone, Heads: "/mnt/evidence/heads"}},
		{c.Pins.Mode, PinWarn},
		{c.Shim, Shim{Reattach: 0, Stderr: StderrRaw, MaxMessage: 1 << 20}},
		{c.Limits, Limits{2, 4, 32 << 20, 8, 100, 90 * time.Second}},
		{c.Governance.Rules[3].AnswerBy, AnswerByProvider},
		{c.Governance.Rules[0].Undo, true},
		{c.Sampling.When, SamplingNever},
		{[]int{c.Sampling.MaxIterations, c.Sampling.MaxTokens}, []int{3, 100}},
		{c.Sampling.Tools[0].String(), "notes/*"},
		{c.Metrics, Metrics{Textfile: "../tg.prom", Interval: time.Minute}},
		{c.Telemetry.OTLP.Headers["authorization"], "Bearer t0"},
		{c.Telemetry.OTLP.HeaderFiles["x-key"], "keys/otlp"},
		{c.Telemetry.Resource["service.name"], "tg"},
		{c.Telemetry.Sampling.SuccessSampleRate, 0.25},
		{c.NativeAgents(), []string{"claude-code"}},
		{c.FailOn, []FailOn{FailOnUngoverned}},
		{c.Agents["fixer"].Protocol, ProtocolACP},
		{c.Agents["fixer"].Timeout, time.Hour},
		{c.Agents["fixer"].Pass, []string{"API_KEY"}},
		{c.Program(c.Agents["fixer"].Command), []string{"/c/fixer", "acp"}},
		{c.Program(c.Agents["fixer"].Servers["files"].Command), []string{"npx", "files"}},
	} {
		if !reflect.DeepEqual(check.got, check.want) {
			t.Errorf("got %v, want %v", check.got, check.want)
		}
	}
}

// The sample above must use all keys, since nothing else here would notice a missing one.
func TestEverythingIsEverything(t *testing.T) {
	var keys func(reflect.Type) []string
	keys = func(typ reflect.Type) (all []string) {
		for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || isScalar(typ) {
			return nil
		}
		for _, f := range fields(typ) {
			all = append(append(all, f.key), keys(typ.Field(f.index).Type)...)
		}
		return all
	}
	for _, key := range keys(reflect.TypeFor[Config]()) {
		if !regexp.MustCompile(`(^|[\s{-])` + regexp.QuoteMeta(key) + `:`).MatchString(everything) {
			t.Errorf("the sample does not write %q", key)
		}
	}
}

func TestDefaults(t *testing.T) {
	c, ds := Parse("/c/thoughtgate.yaml", []byte("schema: 1\n"), env(nil))
	if len(ds) != 0 {
		t.Fatalf("got %v", ds)
	}
	if c.Profile != Production || c.Pins.Mode != PinHold || c.Shim.Reattach != 15*time.Second ||
		c.Shim.MaxMessage != 10<<20 || c.Limits != (Limits{16, 256, 64 << 20, 16, 512, 5 * time.Minute}) || c.Audit.MaxSize != 2<<30 || c.Audit.Values != ValuesRedacted {
		t.Errorf("defaults: got %+v", c)
	}
	if len(c.Governance.Rules) != len(Default().Governance.Rules) {
		t.Errorf("without governance: got %d rules, want those of the built-in default", len(c.Governance.Rules))
	}
	if got, want := c.Unknown.For(Production), (Unknown{"refuse", "drop", "refuse"}); got != want {
		t.Errorf("unknown in production: got %v, want %v", got, want)
	}
	if got, want := c.Unknown.For(Development), (Unknown{"forward", "forward", "forward"}); got != want {
		t.Errorf("unknown in development: got %v, want %v", got, want)
	}
	if c, _ := Parse("x", []byte("schema: 1\ngovernance: {}\n"), env(nil)); len(c.Governance.Rules) != 0 {
		t.Errorf("with an empty governance: got %d rules, want none", len(c.Governance.Rules))
	}
	name, w := c.Workflow("")
	if name != DefaultWorkflow || w.Timeout != 10*time.Minute || w.Require != "" {
		t.Errorf("implicit workflow: got %q %+v", name, w)
	}
}

func TestBuiltInDefault(t *testing.T) {
	c := Default()
	if c.Path != "" || len(c.Digest) != 64 {
		t.Errorf("got path %q, digest %q", c.Path, c.Digest)
	}
	var facts []string
	for _, r := range c.Governance.Rules {
		if r.Action != Approve || r.Description == "" || r.Match.String() != "*" || r.Place.Line == 0 {
			t.Errorf("rule %v: got %+v", r.Place, r)
		}
		facts = append(facts, string(r.When[0]))
	}
	want := "secret secret-place planted prompted unlisted acts destroys uploads installs network-code new-place"
	if got := strings.Join(facts, " "); got != want {
		t.Errorf("facts: got %q, want %q", got, want)
	}
	if got := c.Governance.Rules[0].Place.String(); got != "built-in default:7" {
		t.Errorf("place of the first rule: got %q", got)
	}
}

// rule returns a file with one rule, which begins in line 4, column 7.
func rule(text string) string {
	return "schema: 1\ngovernance:\n  rules:\n    - " + text + "\n"
}

// slack returns a workflow with the given destination settings.
func slack(says string) string {
	return "schema: 1\napproval: {a: {destination: {type: slack, " + says + "}}}\n"
}

func TestDiagnostics(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string // substrings of the expected diagnostics, in order
	}{
		"empty":               {"", []string{"f.yaml:1:1: error: the file is empty"}},
		"comment only":        {"# nothing\n", []string{"f.yaml:1:1: error: the file is empty"}},
		"no schema":           {"profile: production\n", []string{`f.yaml:1:1: error: the file lacks the key "schema"`}},
		"other schema":        {"schema: 2\n", []string{"f.yaml:1:9: error: the file is written for a newer ThoughtGate: this one knows the schema up to 1; install the newer ThoughtGate, or write schema: 1"}},
		"open quote":          {"schema: 1\nprofile: \"production\n# the end\n", []string{"f.yaml:2:10: error: invalid YAML: the quote that begins here has no end; close it on the same line"}},
		"open quote, a later": {"schema: 1\nprofile: \"production\nrules: \"x\"\n", []string{"line 2 has a double quote without a second one: close it there"}},
		"not a mapping":       {"- schema\n", []string{"f.yaml:1:1: error: the file: expected a mapping, found a list"}},
		"null file":           {"---\n...\n", []string{"the file has no value; expected a mapping"}},
		"two documents":       {"schema: 1\n---\nschema: 1\n", []string{"f.yaml:2:1: error: a second document begins here"}},
		"syntax":              {"schema: 1\nlimits: [1\n", []string{"error: invalid YAML: while parsing a flow sequence"}},
		"tab":                 {"schema: 1\nlimits:\n\tpending: 3\n", []string{"f.yaml:3:1: error: invalid YAML: while scanning for the next token: found character that cannot start any token; indent with spaces, not with tabs"}},
		"bare star":           {rule("match: *"), []string{`f.yaml:4:`}},
		"unquoted variable":   {"schema: 1\nlimits: {pending: ${N}}\n", []string{`quote a variable`}},
		"utf-16":              {"\xff\xfes\x00c\x00", []string{"f.yaml:1:1: error: the file is not UTF-8 but looks like UTF-16"}},
		"utf-16 without mark": {"s\x00c\x00", []string{"looks like UTF-16"}},
		"invalid utf-8":       {"schema: 1\n# é\xff\n", []string{"f.yaml:2:4: error: the byte 0xff is not valid UTF-8"}},
		"control":             {"schema: 1\n# \x07\n", []string{"f.yaml:2:3: error: the control character U+0007"}},
		"line separator":      {"schema: 1 # \u2028profile: development\n", []string{"f.yaml:1:13: error: the line separator U+2028"}},
		"bare return":         {"schema: 1 # \rprofile: development\n", []string{"f.yaml:1:13: error: a carriage return"}},
		"bidi":                {"schema: 1 # \u202e\n", []string{"f.yaml:1:13: error: the character U+202E"}},
		"alias":               {"schema: 1\nsources:\n  - &a {id: x}\n  - *a\n", []string{"f.yaml:3:5: error: an anchor (&a)", "f.yaml:4:5: error: an alias (*a)"}},
		"merge key":           {"schema: 1\nlimits:\n  <<: {pending: 3}\n", []string{"f.yaml:3:3: error: a merge key"}},
		"tag":                 {"schema: !!int 1\n", []string{"f.yaml:1:9: error: a tag (!!int)"}},
		"binary":              {rule("{match: !!binary Kg==, action: deny}"), []string{"a tag (!!binary)"}},
		"bang":                {rule("{match: ! x, action: deny}"), []string{"a tag (!)"}},
		"null list":           {"schema: 1\nsources:\n", []string{"f.yaml:2:9: error: sources has no value; expected a list"}},
		"null item":           {"schema: 1\nsources:\n  -\n", []string{"f.yaml:3:4: error: sources[0] has no value; expected a mapping"}},
		"tilde":               {"schema: 1\ncedar: ~\n", []string{"f.yaml:2:8: error: cedar has no value"}},
		"null key":            {"schema: 1\n~: 2\n", []string{"f.yaml:2:1: error: the key ~ in the file is not a word"}},
		"list as key":         {"schema: 1\n? [a]\n: 2\n", []string{"f.yaml:2:3: error: a key in the file is a list"}},
		"yes":                 {"schema: 1\ntelemetry: {enabled: yes}\n", []string{`f.yaml:2:22: error: telemetry.enabled: expected true or false, found "yes"`}},
		"on":                  {"schema: 1\nsources: [{id: a, shared: on}]\n", []string{`expected true or false, found "on"`}},
		"quoted yes":          {"schema: 1\ntelemetry: {enabled: \"yes\"}\n", []string{"expected true or false, found text in quotes; remove the quotes"}},
		"quoted true":         {"schema: 1\ntelemetry: {enabled: 'true'}\n", []string{"expected true or false, found text in quotes"}},
		"octal":               {"schema: 1\nlimits: {pending: 010}\n", []string{`expected a number, found "010"`}},
		"hex":                 {"schema: 1\nlimits: {pending: 0x10}\n", []string{`expected a number, found "0x10"`}},
		"underscore":          {"schema: 1\nlimits: {pending: 1_0}\n", []string{`expected a number, found "1_0"`}},
		"fraction":            {"schema: 1\nlimits: {pending: 1.5}\n", []string{`expected a number, found "1.5"`}},
		"infinite":            {"schema: 1\ntelemetry: {sampling: {success_sample_rate: .inf}}\n", []string{`expected a number, found ".inf"`}},
		"number as text":      {rule("{match: 12, action: deny}"), []string{`governance.rules[0].match: expected a glob, found the number 12; quote it: "12"`}},
		"bool as text":        {rule("{match: x, action: deny, description: true}"), []string{`description: expected text, found "true"; quote it: "true"`}},
		"duplicate key": {"schema: 1\nlimits: {pending: 30, pending: 40}\nprofil: x\n", []string{
			`f.yaml:2:23: error: duplicate key "pending" in limits; it is already in line 2`,
			`f.yaml:3:1: error: unknown key "profil" in the file; did you mean "profile"?`}},
		"escaped duplicate": {"schema: 1\n\"s\\x63hema\": 1\n", []string{`duplicate key "schema" in the file`}},
		"unknown keys": {"schema: 1\ngovernance:\n  default: {action: deny}\n  rules:\n    - {mach: x, acton: deny, zzzzzzzzzz: 1}\n", []string{
			`f.yaml:3:3: error: unknown key "default" in governance; did you mean "defaults"?`,
			`f.yaml:5:7: error: governance.rules[0] lacks the key "action"; expected forward, deny, approve or policy`,
			`f.yaml:5:8: error: unknown key "mach" in governance.rules[0]; did you mean "match"?`,
			`f.yaml:5:17: error: unknown key "acton" in governance.rules[0]; did you mean "action"?`,
			`f.yaml:5:30: error: unknown key "zzzzzzzzzz" in governance.rules[0]; known are match, when,`}},
		"other case":      {"schema: 1\nProfile: production\n", []string{`unknown key "Profile" in the file; did you mean "profile"?`}},
		"wrong word":      {rule("{match: x, action: aprove}"), []string{`f.yaml:4:26: error: governance.rules[0].action: expected forward, deny, approve or policy, found "aprove"; did you mean "approve"?`}},
		"wrong fact":      {rule("{when: [secrets], action: deny}"), []string{`when[0]: expected secret, secret-place,`}},
		"kind":            {"schema: 1\nsources: [{id: a, kind: openapi}]\n", []string{`sources[0].kind: expected mcp, found "openapi"`}},
		"mapping for":     {rule("{match: {a: b}, action: deny}"), []string{"match: expected a glob, found a mapping"}},
		"list for":        {rule("{match: [a], action: deny}"), []string{"match: expected a glob, found a list"}},
		"text for":        {"schema: 1\nlimits: many\n", []string{`limits: expected a mapping, found "many"`}},
		"scalar for list": {"schema: 1\nsources: a\n", []string{`sources: expected a list, found "a"`}},
		"positions after wide text": {"schema: 1\npins: {mode: \"hold\"} # 日本\n\"日本\": 1\nlimits: {\"é\": 1}\n", []string{
			"f.yaml:3:1: error: unknown key \"日本\"", "f.yaml:4:10: error: unknown key \"é\""}},
		"crlf":       {"schema: 1\r\nlimits: {a: 1}\r\n", []string{"f.yaml:2:10: error: unknown key \"a\""}},
		"order mark": {"\ufeffschema: 1\nx: 1\n", []string{"f.yaml:2:1: error: unknown key"}},

		"bad duration":    {"schema: 1\nshim: {reattach: 15}\n", []string{"the duration has no unit"}},
		"bad unit":        {"schema: 1\nshim: {reattach: 1y}\n", []string{`unknown unit "y"; write d, h`}},
		"long duration":   {"schema: 1\naudit: {retention: 999999999d}\n", []string{"the duration is too long"}},
		"duration bounds": {"schema: 1\nshim: {reattach: 1h}\naudit: {retention: 1h, interval: 0}\n", []string{"shim.reattach must be at most 10m", "audit.retention must be at least 1d", "audit.interval must be at least 1ms"}},
		"bad size":        {"schema: 1\naudit: {max_size: 2GB}\n", []string{`unknown unit "GB"; write B, KiB, MiB, GiB or TiB`}},
		"size bounds":     {"schema: 1\nshim: {max_message: 1GiB}\n", []string{"shim.max_message must be at most 10MiB"}},

		"V-001":                 {"schema: 1\nsources: [{id: a}, {id: b}, {id: a}]\n", []string{`f.yaml:2:34: error: duplicate source id "a" (V-001); it is already in line 2`}},
		"V-002":                 {"schema: 1\nsources: [{id: _a}]\n", []string{"(V-002)"}},
		"V-016":                 {"schema: 1\nsources: [{id: \" a\"}, {id: \"b\\u200bc\"}]\n", []string{"(V-016)", "(V-016)"}},
		"V-004":                 {rule("{match: x, action: deny, policy_id: p}"), []string{"f.yaml:4:43: error: policy_id needs action: policy; this rule has action: deny (V-004)"}},
		"V-006":                 {rule("{match: x, action: approve, approval: opps}") + "approval: {ops: {destination: {type: local}}}\n", []string{`f.yaml:4:45: error: unknown workflow "opps" (V-006); did you mean "ops"?`}},
		"V-006b":                {rule("{match: x, action: approve}") + "approval: {a: {destination: {type: local}}, b: {destination: {type: local}}}\n", []string{"f.yaml:4:26: error: there are 2 workflows, and the rule names none (V-006b); add approval: with one of a, b"}},
		"V-006b defaults":       {"schema: 1\ngovernance: {defaults: {action: approve}}\napproval: {a: {destination: {type: local}}, b: {destination: {type: local}}}\n", []string{"(V-006b)"}},
		"undo of deny":          {rule("{match: x, action: deny, undo: true}"), []string{"undo needs a question"}},
		"workflow of deny":      {rule("{match: x, action: deny, approval: ops}") + "approval: {ops: {destination: {type: local}}}\n", []string{"a workflow needs action: approve"}},
		"V-009":                 {rule("{match: \"[x\", action: deny}") + "sources: [{id: \"\", expose: {mode: blocklist, tools: [\"{a,b}\"]}}]\n", []string{"unclosed [", "(V-009)", "(V-009)"}},
		"V-014":                 {"schema: 1\nprofile: ${NOPE}\n", []string{"f.yaml:2:10: error: the variable NOPE is not set (V-014); set it, or write ${NOPE:-default}"}},
		"V-014 form":            {"schema: 1\nprofile: ${a b}\npins: {mode: \"${X\"}\n", []string{`"${a b}" is not a variable (V-014)`, `"${X" is not a variable (V-014)`}},
		"V-015":                 {"schema: 1\napproval: {a: {destination: {type: local}, timeout: 4s}}\n", []string{"f.yaml:2:53: error: approval.a.timeout must be at least 5s (V-015)"}},
		"V-TEL-001":             {"schema: 1\ntelemetry: {sampling: {success_sample_rate: 1.5}}\n", []string{"(V-TEL-001)"}},
		"V-TEL-002":             {"schema: 1\ntelemetry: {enabled: true}\n", []string{"(V-TEL-002)"}},
		"V-TEL-002 url":         {"schema: 1\ntelemetry: {otlp: {endpoint: \"ftp://x\"}}\n", []string{"(V-TEL-002)"}},
		"V-TEL-002 clear":       {"schema: 1\ntelemetry: {otlp: {endpoint: \"http://collector.example:4318\"}}\n", []string{"unencrypted (V-TEL-002)"}},
		"V-TEL-002 look-alike":  {"schema: 1\ntelemetry: {otlp: {endpoint: \"http://localhost.example\"}}\n", []string{"unencrypted (V-TEL-002)"}},
		"V-TEL-003":             {"schema: 1\ntelemetry: {otlp: {protocol: grpc}}\n", []string{"(V-TEL-003)"}},
		"V-TEL-004":             {"schema: 1\ntelemetry: {otlp: {endpoint: \"https://u:p@x\"}}\n", []string{"(V-TEL-004)"}},
		"V-TEL-005":             {"schema: 1\ntelemetry: {otlp: {headers: {\"a b\": c}}}\n", []string{"(V-TEL-005)"}},
		"V-TEL-006":             {"schema: 1\ntelemetry: {otlp: {headers: {a: \"b\\nc\"}}}\n", []string{"(V-TEL-006)"}},
		"V-TEL-005 file":        {"schema: 1\ntelemetry: {otlp: {header_files: {\"a b\": c}}}\n", []string{"(V-TEL-005)"}},
		"V-TEL-006 file":        {"schema: 1\ntelemetry: {otlp: {header_files: {a: \"credential:../x\"}}}\n", []string{"(V-TEL-006)"}},
		"V-TEL-009":             {"schema: 1\ntelemetry: {otlp: {headers: {Authorization: a}, header_files: {authorization: b}}}\n", []string{"(V-TEL-009)"}},
		"V-TEL-007":             {"schema: 1\ntelemetry: {resource: {\" a\": c}}\n", []string{"(V-TEL-007)"}},
		"neither match nor":     {rule("{source: db, action: deny}"), []string{"f.yaml:4:7: error: the rule has neither match nor when"}},
		"empty lists":           {rule("{match: x, when: [], source: [], action: deny}"), []string{"the list of facts is empty", "the list is empty"}},
		"expose all with lists": {"schema: 1\nsources: [{id: a, expose: {mode: all, tools: [x]}}]\n", []string{"the lists have no effect"}},
		"expose nothing":        {"schema: 1\nsources: [{id: a, expose: {mode: allowlist}}]\n", []string{"the allowlist is empty"}},
		"slack without":         {"schema: 1\napproval: {a: {destination: {type: slack}}}\n", []string{"needs a channel", "needs approvers"}},
		"slack channel":         {slack("channel: \"<!channel>\", approvers: U012"), []string{`"<!channel>" is not a Slack channel`}},
		"slack approver":        {slack("channel: ops, approvers: [U012, \"@ann\", u012]"), []string{`"@ann" is not a Slack user id`, `"u012" is not a Slack user id`}},
		"slack mention":         {slack("channel: ops, approvers: U012, mention: [here, \"@ops\"]"), []string{`"@ops" is not a Slack mention`}},
		"slack token":           {slack("channel: ops, approvers: U012, bot_token_env: xoxb-1-2, app_token_env: B"), []string{"f.yaml:2:89: error: expected the name of the variable"}},
		"slack tokens":          {slack("channel: ops, approvers: U012, bot_token_env: A, app_token_env: A"), []string{"must differ"}},
		"local with":            {"schema: 1\napproval: {a: {destination: {type: local, channel: c}}}\n", []string{"need type: slack"}},
		"redact path":           {"schema: 1\napproval: {a: {redact_fields: [\"a..b\"]}}\n", []string{`"a..b" is not a path`}},
		"workflow name":         {"schema: 1\napproval: {\"a b\": {timeout: 1m}}\n", []string{`f.yaml:2:12: error: invalid workflow name "a b"`}},
		"agent name":            {"schema: 1\nagents: {Fixer: {command: [a], protocol: acp}}\n", []string{`invalid agent name "Fixer"`}},
		"agent of hooks":        {"schema: 1\nagents: {agent: {command: [a], protocol: acp}}\n", []string{`the name "agent" stands for the tools of agents themselves`}},
		"agent server name":     {"schema: 1\nagents: {a: {command: [a], protocol: acp, servers: {a: {command: [b]}}}}\n", []string{`the agent "a" has a server of the same name`}},
		"agent command":         {"schema: 1\nagents: {a: {command: [], protocol: acp, servers: {\" b\": {command: [\"\"]}}}}\n", []string{"the command is empty", `invalid server name " b"`, "the command has no program"}},
		"agent variables":       {"schema: 1\nagents: {a: {command: [a], protocol: acp, env: {A=B: c}, pass: [THOUGHTGATE_SESSION]}}\n", []string{`the variable "A=B" is not allowed here`, "ThoughtGate sets it itself"}},
		"hooks of whom":         {"schema: 1\nhooks: {claude: {ask: native}}\n", []string{`f.yaml:2:9: error: no hooks are known of an agent "claude"; known are claude-code, codex,`}},
		"hooks that can't ask":  {"schema: 1\nhooks:\n  codex: {ask: native}\n", []string{"f.yaml:3:16: error: codex can't be told to ask its own user"}},
		"fails on what":         {"schema: 1\nfail_on: denied\n", []string{`f.yaml:2:10: error: fail_on`}},
		"who asks":              {"schema: 1\nhooks:\n  claude-code: {ask: host}\n", []string{"f.yaml:3:22: error: hooks.claude-code.ask"}},
		"agent protocol":        {"schema: 1\nagents: {a: {command: [a], protocol: smtp}}\n", []string{"acp"}},
		"limits":                {"schema: 1\nlimits: {pending: 4}\n", []string{"pending_per_server (16) must not exceed pending (4)"}},
		"control by escape":     {rule(`{match: "a\x1b", action: deny}`), []string{"contains the unprintable character U+001B"}},
		"cedar paths":           {"schema: 1\ncedar: {policies: [\"\"], schema: \"\"}\n", []string{"(V-013)", "(V-013)"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, ds := Parse("f.yaml", []byte(test.text), env(nil))
			if c != nil {
				t.Error("got a configuration in spite of errors")
			}
			for i, d := range ds {
				if i >= len(test.want) {
					t.Errorf("also got %v", d)
				} else if got := d.String(); !strings.Contains(got, test.want[i]) {
					t.Errorf("got %s\nwant  %s", got, test.want[i])
				}
				if d.Line == 0 || d.Column == 0 || d.Severity != Error {
					t.Errorf("%v: has no place, or is no error", d)
				}
			}
			if len(ds) < len(test.want) {
				t.Errorf("got %v, want also %q", ds, test.want[len(ds):])
			}
		})
	}
}

func TestVariables(t *testing.T) {
	vars := env(map[string]string{"PROFILE": "development", "N": "12", "B": "true", "D": "90s", "G": "del_*", "INJECT": "x, action: forward}\n  - y"})
	c, ds := Parse("f.yaml", []byte(`
schema: 1
profile: ${PROFILE}
limits: {pending: "${N}", pending_per_server: "${P:-2}"}
telemetry: {enabled: "${OFF:-false}"}
shim: {reattach: "${D}"}
governance:
  rules:
    - {match: "${G}", action: deny, description: "costs $5, $${N} and ${EMPTY:-}"}
    - {match: "${INJECT}", action: deny}
`), vars)
	if len(ds) != 0 {
		t.Fatalf("got %v", ds)
	}
	r := c.Governance.Rules
	if c.Profile != Development || c.Limits != (Limits{2, 12, 64 << 20, 16, 512, 5 * time.Minute}) || c.Shim.Reattach != 90*time.Second || r[0].Match.String() != "del_*" {
		t.Errorf("got %+v", c)
	}
	if want := "costs $5, ${N} and "; r[0].Description != want {
		t.Errorf("description: got %q, want %q", r[0].Description, want)
	}
	if len(r) != 2 || r[1].Action != Deny || !strings.HasPrefix(r[1].Match.String(), "x, action") {
		t.Errorf("a value made structure: got %+v", r)
	}

	other, _ := Parse("f.yaml", []byte("schema: 1\nprofile: ${PROFILE}\n"), vars)
	third, _ := Parse("f.yaml", []byte("schema: 1\nprofile: ${PROFILE}\n"), env(map[string]string{"PROFILE": "production"}))
	if other.Digest == third.Digest || other.FileDigest != third.FileDigest {
		t.Error("the digest must cover the values of variables, that of the file must not")
	}
}

// A variable may hold a secret, and an error message has many readers.
func TestVariablesAreNotTold(t *testing.T) {
	const secret = "hunter2y"
	for _, text := range []string{
		"schema: ${S}\n", "schema: 1\nprofile: ${S}\n", "schema: 1\nshim: {reattach: \"1${S}\"}\n",
		"schema: 1\naudit: {max_size: \"1${S}\"}\n", "schema: 1\ntelemetry: {enabled: \"${S}\", otlp: {endpoint: \"${S}\"}}\n",
		"schema: 1\ngovernance: {rules: [{match: \"[${S}\", action: deny}]}\n",
	} {
		_, ds := Parse("f.yaml", []byte(text), env(map[string]string{"S": secret}))
		if len(ds) == 0 {
			t.Errorf("%q: want an error", text)
		}
		for _, d := range ds {
			if strings.Contains(d.String(), secret) || strings.Contains(d.String(), secret[1:]) {
				t.Errorf("%q: %v tells the value", text, d)
			}
		}
	}
}

func TestFindAndLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if path, named := Find("a.yaml", env(map[string]string{Variable: "b.yaml"}), dir); path != "a.yaml" || !named {
		t.Errorf("flag: got %q %v", path, named)
	}
	if path, named := Find("", env(map[string]string{Variable: "b.yaml"}), dir); path != "b.yaml" || !named {
		t.Errorf("variable: got %q %v", path, named)
	}
	path, named := Find("", env(nil), dir)
	if path != filepath.Join(dir, "thoughtgate.yaml") || named {
		t.Errorf("folder: got %q %v", path, named)
	}

	if c, ds := Open(path, false, env(nil)); c == nil || c.Path != "" || ds != nil {
		t.Errorf("no file, not named: got %v %v, want the built-in default", c, ds)
	}
	if c, ds := Open(path, true, env(nil)); c != nil || len(ds) != 1 || !strings.Contains(ds[0].String(), "the file does not exist") {
		t.Errorf("no file, named: got %v %v, want an error", c, ds)
	}
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	if c, ds := Open(path, false, env(nil)); c != nil || len(ds) != 1 {
		t.Errorf("a link to nowhere: got %v %v, want an error", c, ds)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	write("thoughtgate.yaml", "schema: 1\n", 0o644)
	c, ds := Open(path, false, env(nil))
	if c == nil || c.Path != path || ds != nil {
		t.Errorf("a file: got %v %v", c, ds)
	}
	sum := sha256.Sum256([]byte("schema: 1\n"))
	if want := hex.EncodeToString(sum[:]); c.FileDigest != want || c.Digest != want {
		t.Errorf("digests: got %s and %s, want %s", c.FileDigest, c.Digest, want)
	}
	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if c, ds := Load(link, env(nil)); c == nil {
		t.Errorf("a link: got %v", ds)
	}

	for name, test := range map[string]struct{ path, want string }{
		"world-writable": {write("w.yaml", "schema: 1\n", 0o646), "is writable by everybody"},
		"long":           {write("l.yaml", "schema: 1\n#"+strings.Repeat("x", maxFile), 0o600), "longer than 1MiB"},
		"folder":         {dir, "not a regular file"},
	} {
		c, ds := Load(test.path, env(nil))
		if c != nil || len(ds) != 1 || !strings.Contains(ds[0].String(), test.want) || !strings.Contains(ds[0].String(), test.path) {
			t.Errorf("%s: got %v, want %q", name, ds, test.want)
		}
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(open, "c.yaml"), []byte("schema: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, ds := Load(filepath.Join(open, "c.yaml"), env(nil)); len(ds) != 1 || !strings.Contains(ds[0].Message, "its folder") {
		t.Errorf("a folder for everybody: got %v", ds)
	}
	if os.Geteuid() == 0 { // only root can give files away
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, ds := Load(path, env(nil)); len(ds) != 1 || !strings.Contains(ds[0].Message, "belongs to user 12345") {
			t.Errorf("another owner: got %v", ds)
		}
	} else if err := os.Chmod(path, 0); err == nil {
		if _, ds := Load(path, env(nil)); len(ds) != 1 || !strings.Contains(ds[0].Message, "permission denied") {
			t.Errorf("unreadable: got %v", ds)
		}
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute,
		"7d": 168 * time.Hour, "20ms": 20 * time.Millisecond, "1d2h3m4s5ms": 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q): got %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "s", "1", "1.5h", "-1s", "1m1h", "1s1s", "1us", "10 m", "1H", "99999999999999999999s", "300y"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q): got %v, want an error", text, got)
		}
	}
	for text, want := range map[string]Size{"0B": 0, "10MiB": 10 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40, "7KiB": 7168} {
		if got, err := ParseSize(text); err != nil || got != want || want > 0 && got.String() != text {
			t.Errorf("ParseSize(%q): got %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "MiB", "10MB", "1.5GiB", "-1B", "99999999TiB", "10mib"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q): got %v, want an error", text, got)
		}
	}
	for _, d := range []time.Duration{0, time.Millisecond, 90 * time.Minute, 7 * 24 * time.Hour} {
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Errorf("%v: written as %q, read as %v", d, FormatDuration(d), got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	f.Add(defaultYAML)
	f.Add([]byte("schema: 1\nsources: [{id: \"${A:-x}\"}]\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a\n"))
	f.Add([]byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, ds := Parse("f.yaml", text, env(map[string]string{"A": "b"}))
		if (c == nil) != HasErrors(ds) {
			t.Errorf("got a configuration: %v, diagnostics: %v", c != nil, ds)
		}
		for _, d := range ds {
			if d.String() == "" || strings.Contains(d.String(), "\n") {
				t.Errorf("a diagnostic over several lines: %q", d)
			}
		}
		if c != nil && c.Schema != 1 {
			t.Errorf("taken with schema %d", c.Schema)
		}
	})
}
