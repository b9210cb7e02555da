package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

const basisYAML = `schema: 1
governance:
  rules:
    - {match: "write_*", action: approve, approval: ops, description: "read it twice"}
    - {match: "*", action: policy, policy_id: p}
approval:
  ops: {destination: {type: local}, timeout: 10m, require: any, surfaces: [terminal, script], redact_fields: [key], validity: 5m}
  other: {destination: {type: local}}
`

const basisCedar = `@approval("ops") @reason("it sends")
permit (principal, action, resource) when { context.facts.contains("sends") };
permit (principal, action, resource) when { context.facts.contains("acts") };
`

// basisOf returns the basis of the question about a call of a tool, under a configuration.
func basisOf(t *testing.T, yaml, cedar, tool string) gate.Basis {
	t.Helper()
	r, err := load(t, yaml, cedar).Rule(context.Background(), toolCall(t, "notes", tool, `{}`), []gate.Fact{{Name: "sends"}})
	if err != nil || r.Move != gate.Ask {
		t.Fatalf("%s: %+v, %v", tool, r, err)
	}
	return r.Basis
}

// The basis of a question is its content: if any part of it is changed in place, earlier
// approvals no longer apply. Its place does not matter, and neither does anything that plays no
// part in it.
func TestBasis(t *testing.T) {
	for _, test := range []struct {
		name          string
		old, new      string // text in the configuration or the policies
		rule, flow    bool   // whether the rule or workflow that asks about write_note changes
		policy, whose bool   // likewise for send
	}{
		{"nothing", "", "", false, false, false, false},
		{"lines above", "schema: 1\n", "schema: 1\nprofile: production\n\n\n", false, false, false, false},
		{"another workflow", "  other:", "  third: {destination: {type: local}, timeout: 1m}\n  other:", false, false, false, false},
		{"a rule that has no part", "    - {match: \"*\", action", "    - {match: \"delete_*\", action: deny}\n    - {match: \"*\", action", false, false, false, false},
		{"what is shown", "read it twice", "read it", true, false, false, false},
		{"the pattern", "write_*", "write_n*", true, false, false, false},
		{"who is asked", "approval: ops,", "approval: other,", true, true, false, false},
		{"the other rule", "policy_id: p", "policy_id: q", false, false, true, false},
		{"presence", "require: any", "require: presence", false, true, false, true},
		{"surfaces", "[terminal, script]", "[terminal]", false, true, false, true},
		{"the destination", "ops: {destination: {type: local}", "ops: {destination: {type: slack, channel: c, approvers: [U0123ABCD], bot_token_env: A, app_token_env: B}", false, true, false, true},
		{"what is not shown", "[key]", "[key, name]", false, true, false, true},
		{"timeout", "timeout: 10m", "timeout: 9m", false, true, false, true},
		{"validity", "validity: 5m", "validity: 6m", false, true, false, true},
		{"the policy's reason", "it sends", "it sends things", false, false, true, false},
		{"the policy's condition", `contains("sends") }`, `contains("sends") || false }`, false, false, true, false},
		{"a policy beside it", `contains("acts")`, `contains("acts") || true`, false, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			yaml, cedar := strings.Replace(basisYAML, test.old, test.new, 1), strings.Replace(basisCedar, test.old, test.new, 1)
			if test.old != test.new && yaml == basisYAML && cedar == basisCedar {
				t.Fatal("nothing was changed")
			}
			for tool, want := range map[string][2]bool{"write_note": {test.rule, test.flow}, "send": {test.policy, test.whose}} {
				before, after := basisOf(t, basisYAML, basisCedar, tool), basisOf(t, yaml, cedar, tool)
				if got := [2]bool{before.Rule != after.Rule, before.Workflow != after.Workflow}; got != want {
					t.Errorf("%s: rule and workflow are others: %v, want %v", tool, got, want)
				}
			}
		})
	}
}
