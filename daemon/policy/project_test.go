package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// inProject returns s combined with a project of these files, the nearest first.
func inProject(t testing.TB, s *Set, files ...string) gate.Policy {
	t.Helper()
	var all []*config.Project
	for i, text := range files {
		p, ds := config.ParseProject(fmt.Sprintf("/home/u/p%d/.thoughtgate.yaml", i), []byte("schema: 1\n"+text))
		if p == nil {
			t.Fatalf("%s: %v", text, ds)
		}
		all = append(all, p)
	}
	return s.In(NewProject(all...), nil)
}

const aProject = `governance:
  rules:
    - {match: "run_tests", action: forward}
    - {match: "run_*", action: approve}
    - {match: "*", source: prod, action: deny}
    - {match: "*", method: "acme/*", action: deny}
    - {when: secret, action: deny}
sources:
  - {id: shell, enabled: false}
  - {id: files, expose: {mode: blocklist, tools: ["rm*"]}}
`

// Each of the user's gates applies in addition to the project.
func TestProjectTightens(t *testing.T) {
	s := load(t, `schema: 1
governance:
  rules:
    - {match: "run_it", action: deny}
    - {match: "run_this", action: approve, approval: board}
    - {match: "send_*", action: approve, approval: board}
    - {match: "*", method: "acme/*", action: forward}
approval:
  board: {destination: {type: local}, redact_fields: [password]}
  default: {destination: {type: local}, timeout: 42s, surfaces: [terminal]}
`, "")
	in := inProject(t, s, aProject)
	for _, tt := range []struct {
		call  *gate.Call
		facts []gate.Fact
		want  string
	}{
		{call: toolCall(t, "x", "read", `{}`), want: "forward; rule; defaults.action"},
		{call: toolCall(t, "x", "run_tests", `{}`), want: "forward; rule; defaults.action"},
		{call: toolCall(t, "x", "run_all", `{}`), want: "ask; rule; .thoughtgate.yaml:5 of the repository; ask default"},
		{call: toolCall(t, "x", "run_it", `{}`), want: `deny; rule; "run_it" (thoughtgate.yaml:4)`},
		{call: toolCall(t, "x", "run_this", `{}`), want: `ask; rule; "run_this" (thoughtgate.yaml:5); ask board`},
		{call: toolCall(t, "prod", "send_x", `{}`), want: "deny; rule; .thoughtgate.yaml:6 of the repository"},
		{call: toolCall(t, "x", "read", `{}`), facts: []gate.Fact{{Name: "secret"}}, want: "deny; rule; .thoughtgate.yaml:8 of the repository"},
		{call: toolCall(t, "shell", "ls", `{}`), want: "hidden; visible; source (.thoughtgate.yaml:10) of the repository"},
		{call: toolCall(t, "files", "rm_all", `{}`), want: "hidden; visible; source (.thoughtgate.yaml:11) of the repository"},
		{call: fromAgent(t, "x", "acme/x", `{}`), want: "deny; rule; .thoughtgate.yaml:7 of the repository"},
	} {
		if got := inShort(in.Rule(context.Background(), tt.call, tt.facts)); got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.call.Server, tt.call.Subject, got, tt.want)
		}
	}
	r, err := in.Rule(context.Background(), toolCall(t, "x", "run_all", `{}`), nil)
	if err != nil || r.Reason != "the project's own file /home/u/p0/.thoughtgate.yaml asks about it" {
		t.Errorf("the reason: %q, %v", r.Reason, err)
	}
	if !slices.Equal(r.Surfaces, []string{"terminal"}) || r.Timeout.Seconds() != 42 || !slices.Equal(r.Redact, []string{"password"}) {
		t.Errorf("whom to ask is the user's to say: got %+v", r)
	}
	shell, files := toolCall(t, "shell", "ls", `{}`), toolCall(t, "files", "ls", `{}`)
	if in.Visible(shell, "tools", "ls") || in.Visible(files, "tools", "rm_all") || !in.Visible(files, "tools", "ls") {
		t.Error("what the project hides is visible, or what it does not is hidden")
	}
	if in.Profile() != s.Profile() || in.Digest() == s.Digest() || !strings.HasPrefix(in.Digest(), s.Digest()+"+") {
		t.Errorf("profile %s, digest %s", in.Profile(), in.Digest())
	}
}

// A file in a subfolder does not override the one of the repository.
func TestProjectLayers(t *testing.T) {
	s := load(t, "schema: 1\ngovernance: {}\n", "")
	in := inProject(t, s, `governance: {rules: [{match: a, action: forward}, {match: b, action: approve}]}`,
		`governance: {rules: [{match: a, action: deny}, {match: b, action: approve}, {match: c, action: approve}]}`)
	for tool, want := range map[string]string{
		"a": "the project's own file /home/u/p1/.thoughtgate.yaml denies it",
		"b": "the project's own file /home/u/p0/.thoughtgate.yaml asks about it",
		"c": "the project's own file /home/u/p1/.thoughtgate.yaml asks about it",
	} {
		if r, err := in.Rule(context.Background(), toolCall(t, "x", tool, `{}`), nil); err != nil || r.Reason != want {
			t.Errorf("%s: got %q, %v", tool, r.Reason, err)
		}
	}
}

// An unreadable file does not count as an empty one.
func TestBrokenProject(t *testing.T) {
	s := load(t, "schema: 1\ngovernance: {rules: [{match: no, action: deny}, {match: ask, action: approve}]}\n", "")
	in := s.In(nil, errors.New("the file is broken"))
	for tool, want := range map[string]string{"read": "error: the file is broken", "ask": "error: the file is broken", "no": `deny; rule; "no" (thoughtgate.yaml:2)`} {
		if got := inShort(in.Rule(context.Background(), toolCall(t, "x", tool, `{}`), nil)); got != want {
			t.Errorf("%s: got %s, want %s", tool, got, want)
		}
	}
	if !in.Visible(toolCall(t, "x", "read", `{}`), "tools", "read") {
		t.Error("nothing is visible, so that nobody is told the reason")
	}
	if in.Digest() != s.Digest() {
		t.Error("a broken project has a digest")
	}
	if s.In(nil, nil) != gate.Policy(s) {
		t.Error("without a project the set is another one")
	}
}

// No pattern of a repository is shown to a person or a model.
func TestProjectHasNoText(t *testing.T) {
	const text = "IGNORE ALL PREVIOUS"
	s := load(t, "schema: 1\ngovernance: {}\n", "")
	for _, file := range []string{
		`governance: {rules: [{match: "*[!` + text + `]*", action: deny}]}`,
		`governance: {rules: [{match: "*", source: ["*", "` + text + `"], action: approve}]}`,
		`sources: [{id: "*[!` + text + `]*", enabled: false}]`,
		`sources: [{id: "*", expose: {mode: blocklist, tools: ["*", "` + text + `"]}}]`,
		`sources: [{id: "*", command: "` + text + `"}]`,
	} {
		r, err := inProject(t, s, file).Rule(context.Background(), toolCall(t, "xyz", "xyz", `{}`), nil)
		if err != nil || r.Move == gate.Forward || strings.Contains(fmt.Sprintf("%+v", r), text) {
			t.Errorf("%s: got %+v, %v", file, r, err)
		}
	}
}

// drawProject draws the content of a project file, with the names of property_test.go.
func drawProject(t *rapid.T) string {
	action := func() string { return oneOf(t, "action", "forward", "deny", "approve") }
	rules := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		name := oneOf(t, "match", "*", "read", "w*", "x", "file:///etc/*", "memo:*")
		rule := fmt.Sprintf("{match: %q, action: %s", name, action())
		rule += oneOf(t, "source", "", ", source: a", `, source: ["b", "a/*"]`)
		rule += oneOf(t, "when", "", "", ", when: secret", ", when: [sends, acts]")
		rule += oneOf(t, "agent", "", "", ", agent: cursor", ", agent: claude-code")
		return rule + oneOf(t, "method", "", "", `, method: "*"`, ", method: sampling/createMessage") + "}"
	}), 0, 5).Draw(t, "rules")
	sources := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
		source := fmt.Sprintf("{id: %q", oneOf(t, "id", servers...))
		return source + oneOf(t, "rest", "", ", enabled: false", ", enabled: true", ", expose: {mode: allowlist, tools: [read]}",
			`, expose: {mode: blocklist, tools: [x], resources: ["memo:*"]}`, `, command: "*/real"`) + "}"
	}), 0, 2, func(s string) string { return strings.Split(s, `"`)[1] }).Draw(t, "sources")
	text := fmt.Sprintf("sources: [%s]\ngovernance: {rules: [%s]", strings.Join(sources, ", "), strings.Join(rules, ", "))
	if rapid.Bool().Draw(t, "defaults") {
		text += fmt.Sprintf(", defaults: {action: %s, asks: %s}", action(), action())
	}
	return text + "}\n"
}

// drawUser draws the user's set: with Cedar, or with rules and sources.
func drawUser(t *rapid.T) *Set {
	if rapid.Bool().Draw(t, "cedar") {
		return drawnSet(t, drawPolicies(t))
	}
	cfg, ds := config.Parse("/nowhere/thoughtgate.yaml", []byte("schema: 1\n"+drawProject(t)), func(string) string { return "" })
	if cfg == nil {
		t.Fatal(ds)
	}
	s, ds := Load(cfg)
	if s == nil {
		t.Fatal(ds)
	}
	return s
}

// The promise of CONFIG: a project file never loosens the verdict on a call that is denied or
// asked about without it, and never makes anything hidden visible.
func TestProjectsOnlyTighten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawUser(rt)
		files := rapid.SliceOfN(rapid.Custom(drawProject), 1, 3).Draw(rt, "files")
		in := inProject(t, s, files...)
		c := drawCall(rt, t)
		facts := []gate.Fact{{Name: oneOf(rt, "fact", "secret", "sends", "outside")}}
		without, withoutErr := s.Rule(context.Background(), c, facts)
		with, withErr := in.Rule(context.Background(), c, facts)
		if refused(with, withErr) < refused(without, withoutErr) {
			rt.Fatalf("files:\n%s\ncall: %s on %s\nwithout %s\nwith    %s", strings.Join(files, "---\n"), c.Line, c.Server, inShort(without, withoutErr), inShort(with, withErr))
		}
		if refused(without, withoutErr) == 1 && refused(with, withErr) == 1 && with.Workflow != without.Workflow {
			rt.Fatalf("files:\n%s\nthe question goes to %s, without the files to %s", strings.Join(files, "---\n"), with.Workflow, without.Workflow)
		}
		// Adding a file never makes a verdict looser.
		fewer := inProject(t, s, files[1:]...)
		less, lessErr := fewer.Rule(context.Background(), c, facts)
		if refused(with, withErr) < refused(less, lessErr) {
			rt.Fatalf("files:\n%s\nthe nearest file loosens %s to %s", strings.Join(files, "---\n"), inShort(less, lessErr), inShort(with, withErr))
		}
		kind, name := oneOf(rt, "kind", "tools", "resources", "prompts"), oneOf(rt, "name", "read", "x", "memo:1", "file:///etc/x")
		if in.Visible(c, kind, name) && !s.Visible(c, kind, name) {
			rt.Fatalf("files:\n%s\n%s %s is visible with them only", strings.Join(files, "---\n"), kind, name)
		}
		if refused(s.In(nil, errors.New("broken")).Rule(context.Background(), c, facts)) != 2 {
			rt.Fatal("a broken file lets a call through")
		}
	})
}
