package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"
)

// All that a project file may contain.
const everythingOfAProject = `
$schema: https://example.org/project.schema.json
schema: 1
sources:
  - id: "deploy*"
    command: "*/deploy *"
    enabled: false
    expose: {mode: allowlist, tools: [plan], resources: ["file:///*"], prompts: ["*"]}
governance:
  defaults: {action: approve, asks: deny}
  rules:
    - {match: "read_*", when: [secret, acts], source: fs, agent: cursor, method: tools/call, action: deny}
    - {when: outside, action: approve}
    - {match: "$${x}*", action: forward}
`

func TestProject(t *testing.T) {
	p, ds := ParseProject("/p/.thoughtgate.yaml", []byte(everythingOfAProject))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	c := p.Config()
	if got := c.Governance.Rules[0].Place.String(); got != ".thoughtgate.yaml:12" {
		t.Errorf("the first rule stands in %s", got)
	}
	if c.Governance.Defaults != (Defaults{Approve, Deny}) || c.Sources[0].Enabled || c.Governance.Rules[2].Match.String() != "${x}*" {
		t.Errorf("got %+v", c)
	}
	silent, ds := ParseProject("/p/.thoughtgate.yaml", []byte("schema: 1\n"))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	c = silent.Config()
	if len(c.Governance.Rules) > 0 || c.Governance.Defaults != (Defaults{Forward, Forward}) || c.Unknown.For(Production).Requests != UnknownForward || c.Cedar.Policies != nil {
		t.Errorf("a file that says nothing says %+v", c)
	}
}

func TestProjectRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"profile: development", `.thoughtgate.yaml:2:1: error: the file may not say "profile": a project's file can only tighten`},
		{"approval: {a: {destination: {type: local}}}", `may not say "approval"`},
		{"cedar: {policies: ['*.cedar']}", `may not say "cedar"`},
		{"hooks: {claude-code: {ask: native}}", `may not say "hooks"`},
		{"fail_on: ungoverned", `may not say "fail_on"`},
		{"pins: {mode: off}", `may not say "pins"`},
		{"unknown: {requests: forward}", `may not say "unknown"`},
		{"limits: {pending: 1}", `may not say "limits"`},
		{"shim: {max_message: 1MiB}", `may not say "shim"`},
		{"audit: {values: full}", `may not say "audit"`},
		{"telemetry: {enabled: true}", `may not say "telemetry"`},
		{"sources: [{id: a, trust_annotations: true}]", `sources[0] may not say "trust_annotations"`},
		{"sources: [{id: a, shared: true}]", `sources[0] may not say "shared"`},
		{"sources: [{id: a, kind: mcp}]", `sources[0] may not say "kind"`},
		{"governance: {rules: [{match: a, action: deny, description: pray}]}", `governance.rules[0] may not say "description"`},
		{"governance: {rules: [{match: a, action: approve, approval: ops}]}", `governance.rules[0] may not say "approval"`},
		{"governance: {rules: [{match: a, action: policy}]}", `its action can't be policy; write deny or approve`},
		{"governance: {rules: [{match: a, action: deny, policy_id: x}]}", `governance.rules[0] may not say "policy_id"`},
		{"governance: {defaults: {action: policy}}", `its action can't be policy`},
		{`governance: {rules: [{match: "${HOME}*", action: deny}]}`, "environment variables (${HOME}) are not allowed in this file (V-014)"},
		{`governance: {rules: [{match: "${HOME:-x}*", action: deny}]}`, "(V-014)"},
		{"profil: development", `unknown key "profil" in the file; known are `},
		{"governance: {ruels: []}", `unknown key "ruels" in governance; did you mean "rules"?`},
		{"schema: 1", `duplicate key "schema" in the file`},
	} {
		p, ds := ParseProject("/p/.thoughtgate.yaml", []byte("schema: 1\n"+tt.text+"\n"))
		if p != nil || len(ds) == 0 || !strings.Contains(ds[0].String(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.text, ds, tt.want)
		}
	}
	if p, ds := ParseProject("/p/.thoughtgate.yaml", nil); p != nil || len(ds) == 0 {
		t.Error("an empty file is good")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProjectFiles(t *testing.T) {
	top := t.TempDir()
	at := func(path string) string { return filepath.Join(top, path) }
	write(t, at(ProjectFileName), "schema: 1\n") // above the repository: must not apply
	write(t, at("repo/.git/HEAD"), "")
	write(t, at("repo/"+ProjectFileName), "schema: 1\n")
	write(t, at("repo/a/b/"+ProjectFileName), "schema: 1\n")
	write(t, at("repo/a/b/c/file"), "")
	write(t, at("repo/tree/.git"), "gitdir: elsewhere\n") // a work tree, a submodule
	write(t, at("loose/"+ProjectFileName), "schema: 1\n")
	write(t, at("loose/sub/file"), "")
	if err := os.Symlink("nowhere", at("repo/a/"+ProjectFileName)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		folder, root string
		want         []string
	}{
		{"repo", "repo", []string{"repo/"}},
		{"repo/a/b/c", "repo", []string{"repo/a/b/", "repo/a/", "repo/"}},
		{"repo/a/gone", "repo", []string{"repo/a/", "repo/"}},
		{"repo/tree", "repo/tree", nil},
		{"loose", "loose", []string{"loose/"}},
		{"loose/sub", "loose/sub", nil},
	} {
		if got := Root(at(tt.folder)); got != at(tt.root) {
			t.Errorf("%s: the top is %s, want %s", tt.folder, got, tt.root)
		}
		var want []string
		for _, dir := range tt.want {
			want = append(want, at(dir+ProjectFileName))
		}
		got := slices.DeleteFunc(ProjectFiles(at(tt.folder), at(tt.root)), func(path string) bool { return !IsThere(path) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", tt.folder, got, want)
		}
	}
}

func TestLoadProject(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ProjectFileName)
	refused := func(want string) {
		t.Helper()
		p, ds := LoadProject(path)
		if p != nil || len(ds) != 1 || !strings.Contains(ds[0].String(), want) {
			t.Errorf("got %v, want %s", ds, want)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	refused("no such file")
	write(t, path, "schema: 1\n#"+strings.Repeat("x", maxProject))
	refused("longer than 64KiB")
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	refused("it is a symbolic link")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("not a regular file")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("not a regular file")

	write(t, path, "schema: 1\n")
	if err := os.Chmod(path, 0o666); err != nil { // it may be writable by anybody, since it can only tighten
		t.Fatal(err)
	}
	if p, ds := LoadProject(path); p == nil || p.Config().Path != path || p.Config().Digest == "" {
		t.Errorf("got %v", ds)
	}
}

func TestProjectSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(ProjectSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	takes := func(text string) bool {
		var doc any
		if err := yaml.Load([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		return fits(schema, doc)
	}
	if !takes(everythingOfAProject) {
		t.Error("the schema refuses what may be written")
	}
	for _, text := range []string{"schema: 1\nprofile: production\n", "schema: 1\ngovernance: {rules: [{match: a, action: policy}]}\n",
		"schema: 1\ngovernance: {rules: [{match: a, action: deny, description: x}]}\n"} {
		if takes(text) {
			t.Errorf("the schema takes:\n%s", text)
		}
	}
	for typ, keys := range project.keys {
		for _, key := range keys {
			if !slices.ContainsFunc(fields(typ), func(f field) bool { return f.key == key }) {
				t.Errorf("%v has no key %q", typ, key)
			}
		}
	}
	if !reflect.DeepEqual(project.words[reflect.TypeFor[Action]()], []string{"forward", "deny", "approve"}) {
		t.Error("the actions of a project are others")
	}
}

// A file is accepted as a whole or not at all, and keys that it must not use never have an
// effect.
func FuzzParseProject(f *testing.F) {
	f.Add([]byte(everythingOfAProject))
	f.Add([]byte("schema: 1\nprofile: development\n"))
	f.Add([]byte("schema: 1\nsources: [{id: a, trust_annotations: true}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, ds := ParseProject("/p/.thoughtgate.yaml", text)
		if (p == nil) != HasErrors(ds) {
			t.Fatalf("a project %v with %v", p, ds)
		}
		if p == nil {
			return
		}
		c := p.Config()
		if c.Profile != Production || c.Approval != nil || c.Cedar.Policies != nil || c.Pins.Mode != PinHold {
			t.Fatalf("it says %+v", c)
		}
		for _, r := range c.Governance.Rules {
			if r.Description != "" || r.Approval != "" || r.PolicyID != "" || r.Action == Policy {
				t.Fatalf("a rule says %+v", r)
			}
		}
		for _, s := range c.Sources {
			if s.TrustAnnotations || s.Shared {
				t.Fatalf("a source says %+v", s)
			}
		}
	})
}
