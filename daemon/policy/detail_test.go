package policy

import (
	stdcmp "cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDetail(t *testing.T) {
	s := load(t, `schema: 1
sources:
  - {id: off, enabled: false}
  - {id: files, command: "*/mcp-files *", expose: {mode: allowlist, tools: ["read_*", ls], prompts: ["*"]}}
  - {id: "*"}
governance:
  defaults: {action: forward, asks: approve}
  rules:
    - {match: "a*", source: [x, "y*"], agent: cursor, method: tools/call, action: approve, approval: ops, undo: true, description: why}
    - {when: secret, action: deny}
approval:
  ops: {destination: {type: local}, timeout: 2m, redact_fields: [password], surfaces: [terminal]}
  default: {destination: {type: local}}
`, `@id("p1") permit (principal, action, resource);
@approval("ops") @reason("because") permit (principal, action, resource);
forbid (principal, action, resource) when { context.facts.contains("secret") };
`)
	var lines []string
	d := s.Detail()
	for _, part := range [][]Entry{d.Sources, d.Rules, d.Policies} {
		for _, e := range part {
			where := "-"
			if e.File != "" {
				where = fmt.Sprintf("%s:%d", filepath.Base(e.File), e.Line)
			}
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %s at %s; %q %q %q; %s; %s", e.Kind, e.Name, e.Does, where, e.Sources, e.Agents, e.Methods, e.Workflow, e.Says), "; "))
		}
	}
	for _, w := range d.Workflows {
		lines = append(lines, fmt.Sprintf("%s at line %d: %s %v %s %q %q", w.Name, w.Place.Line, w.Destination.Type, w.Timeout, stdcmp.Or(w.Require, "default"), w.Surfaces, w.RedactFields))
	}
	want := `source off hide at thoughtgate.yaml:3; [] [] []
source files allowlist at thoughtgate.yaml:4; [] [] []; ; only as */mcp-files *; tools read_* ls; prompts *
source * expose at thoughtgate.yaml:5; [] [] []
rule "a*" approve at thoughtgate.yaml:9; ["x" "y*"] ["cursor"] ["tools/call"]; ops; why
rule "*" when secret deny at thoughtgate.yaml:10; [] [] []
default defaults.action forward at thoughtgate.yaml:7; [] [] []
default defaults.asks approve at thoughtgate.yaml:7; [] [] []; default
permit p1 permit at test.cedar:1; [] [] []
permit policies/test.cedar:2 ask at test.cedar:2; [] [] []; ops; because
forbid policies/test.cedar:3 forbid at test.cedar:3; [] [] []
default at line 13: local 10m0s default ["terminal" "script"] []
ops at line 12: local 2m0s default ["terminal"] ["password"]`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !d.Rules[0].Undo || d.Rules[1].Undo {
		t.Errorf("undo: %v, %v; want it of the first rule", d.Rules[0].Undo, d.Rules[1].Undo)
	}
	if plain := load(t, "schema: 1\n", "").Detail(); len(plain.Rules) != 13 || len(plain.Workflows) != 1 || plain.Workflows[0].Name != "default" || plain.Workflows[0].Place.File != "" {
		t.Errorf("of the built-in rules: %+v", plain)
	}
}
