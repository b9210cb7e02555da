package policy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

const explainedYAML = `schema: 1
sources:
  - {id: off, enabled: false}
governance:
  rules:
    - {match: "send_*", source: "prod-*", action: deny}
    - {match: "send_*", agent: cursor, action: forward}
    - {when: [secret, planted], action: approve, description: "it carries {member}"}
    - {match: "send_*", action: approve}
    - {match: "*", source: bank, action: policy}
    - {match: "[*]odd", action: deny}
    - {match: "close_account", action: deny}
approval:
  ops: {destination: {type: local}}
`

const explainedCedar = `@id("small") permit (principal, action == ThoughtGate::Action::"bank/pay", resource) when { context.arguments.amount <= 50 };
@id("large") @approval @reason("it is much") permit (principal, action == ThoughtGate::Action::"bank/pay", resource) when { context.arguments.amount > 50 };
@id("never") @reason("no mail") forbid (principal, action in ThoughtGate::Action::"tools/call", resource) when { resource.name like "*mail*" };
forbid (principal, action == ThoughtGate::Action::"bank/close", resource);
@id("calls") forbid (principal, action in ThoughtGate::Action::"call", resource is ThoughtGate::Tool) when { resource.name == "close" };
`

// explained formats an explanation as lines.
func explained(e gate.Explained) string {
	var b strings.Builder
	if e.Err != nil {
		fmt.Fprintf(&b, "error %v\n", e.Err)
	} else {
		fmt.Fprintf(&b, "%s by %s\n", e.Ruling.Move, e.Ruling.Gate)
	}
	cited := func(c gate.Cited) string {
		s := fmt.Sprintf("%s %s", c.Kind, c.Name)
		if c.File != "" {
			s += fmt.Sprintf(" %s:%d:%d", filepath.Base(c.File), c.Line, c.Column)
		}
		s += " " + c.Does
		if c.Says != "" {
			s += ": " + c.Says
		}
		if c.Theirs {
			s += " (theirs)"
		}
		return s
	}
	for _, c := range e.Cited {
		fmt.Fprintln(&b, "cited", cited(c))
	}
	for _, n := range e.Near {
		fmt.Fprintln(&b, "near", cited(n.Cited), "-", n.Because)
	}
	for _, s := range e.Steps {
		word := "then"
		if s.Or {
			word = "or"
		}
		fmt.Fprintf(&b, "%s %s: %s %s\n", word, s.Change, s.Move, s.By)
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	s := load(t, explainedYAML, explainedCedar)
	for _, tt := range []struct {
		name  string
		call  *gate.Call
		facts []gate.Fact
		want  string
	}{
		{"a default", toolCall(t, "x", "read", `{}`), nil, `
forward by rule
cited default defaults.action forward
near rule "*" thoughtgate.yaml:10:7 policy - its source is bank, the call's is x
`},
		{"a slip", toolCall(t, "x", "close_acount", `{}`), nil, `
forward by rule
cited default defaults.action forward
near rule "*" thoughtgate.yaml:10:7 policy - its source is bank, the call's is x
near rule "close_account" thoughtgate.yaml:12:7 deny - its match is close_account, the call's is close_acount
`},
		{"a rule, and the next", toolCall(t, "x", "send_it", `{}`), []gate.Fact{{Name: "planted"}, {Name: "acts"}}, `
ask by rule
cited rule "*" when secret or planted thoughtgate.yaml:8:7 approve: it carries {member}
near rule "send_*" thoughtgate.yaml:6:7 deny - its source is prod-*, the call's is x
near rule "send_*" thoughtgate.yaml:7:7 forward - its agent is cursor, the call's is claude-code
then without the rule "*" when secret or planted (thoughtgate.yaml:8): ask "send_*" (thoughtgate.yaml:9)
or the call without the fact planted: ask "send_*" (thoughtgate.yaml:9)
then without the rule "send_*" (thoughtgate.yaml:9): forward defaults.action
`},
		{"a permit that asks", toolCall(t, "bank", "pay", `{"amount":60}`), nil, `
ask by permit
cited rule "*" thoughtgate.yaml:10:7 policy
cited permit large test.cedar:2:1 ask: it is much
then without @approval on the permit "large" (test.cedar:2): forward large
`},
		{"no permit", toolCall(t, "bank", "draw", `{}`), nil, `
deny by permit
cited rule "*" thoughtgate.yaml:10:7 policy
then with a policy that permits it: permit (principal, action == ThoughtGate::Action::"bank/draw", resource);: forward the new permit
`},
		{"forbids, and the rule behind them", toolCall(t, "bank", "close", `{}`), nil, `
deny by permit
cited rule "*" thoughtgate.yaml:10:7 policy
cited forbid policies/test.cedar:4 test.cedar:4:1 forbid
cited forbid calls test.cedar:5:1 forbid
then without the forbid policies/test.cedar:4, "calls" (test.cedar:5): deny "*" (thoughtgate.yaml:10)
then with a policy that permits it: permit (principal, action == ThoughtGate::Action::"bank/close", resource);: forward the new permit
`},
		{"hidden", toolCall(t, "off", "mail", `{}`), nil, `
deny by visible
cited source "off" thoughtgate.yaml:3:5 hide
then the source "off" (thoughtgate.yaml:3), so that it exposes it: deny never
then without the forbid "never" (test.cedar:3): forward defaults.action
`},
		{"a policy that fails", toolCall(t, "bank", "pay", `{"amount":"x"}`), nil, `
error evaluate policy "small" (test.cedar:1): type error: expected comparable value, got string; 1 more failed
cited rule "*" thoughtgate.yaml:10:7 policy
then the policies or the call, so that they can be evaluated: none 
`},
		{"what a server asks", fromServer(t, "x", "sampling/createMessage", `{"messages":[],"maxTokens":1}`), nil, `
ask by rule
cited default defaults.asks approve
then with a rule for it: {match: "*", method: "sampling/createMessage", source: "x", action: forward}, or another default (defaults.asks): forward the new rule
`},
		{"an unknown method", fromAgent(t, "x", "acme/do", `{}`), nil, `
deny by rule
cited default unknown 
then with a rule for it: {match: "*", method: "acme/do", source: "x", action: forward}: forward the new rule
`},
		{"what is not judged", fromAgent(t, "x", "tools/list", `{}`), nil, "\nforward by rule\n"},
	} {
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), explained(s.Explain(context.Background(), tt.call, tt.facts))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestExplainInAProject(t *testing.T) {
	s := load(t, explainedYAML, "")
	in := inProject(t, s, "governance: {rules: [{match: 'send_*', action: deny}]}", "sources: [{id: x, enabled: false}]").(gate.Explainer)
	want := `deny by rule
cited rule  .thoughtgate.yaml:2:22 deny (theirs)
cited source  .thoughtgate.yaml:2:11 hide (theirs)
cited rule "send_*" thoughtgate.yaml:9:7 approve
near rule "send_*" thoughtgate.yaml:6:7 deny - its source is prod-*, the call's is x
near rule "send_*" thoughtgate.yaml:7:7 forward - its agent is cursor, the call's is claude-code
then without the repository's rule: .thoughtgate.yaml:2 of the repository: ask "send_*" (thoughtgate.yaml:9)
then without the rule "send_*" (thoughtgate.yaml:9): forward defaults.action
`
	if diff := cmp.Diff(want, explained(in.Explain(context.Background(), toolCall(t, "x", "send_it", `{}`), nil))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	broken := s.In(nil, errors.New("line 3 is wrong")).(gate.Explainer).Explain(context.Background(), toolCall(t, "x", "read", `{}`), nil)
	if got := explained(broken); !strings.HasPrefix(got, "error line 3 is wrong\n") || !strings.Contains(got, "then the project's own file, which is invalid: forward defaults.action\n") {
		t.Errorf("got %s", got)
	}
}

// An explanation agrees with the ruling, for any set and call. A rule has mismatches exactly when
// it does not match, and the last step leads to a call that is forwarded.
func TestExplainIsTheRuling(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawUser(rt)
		c := drawCall(rt, t)
		facts := []gate.Fact{{Name: oneOf(rt, "fact", "secret", "sends", "outside")}}
		var p gate.Explainer = s
		if rapid.Bool().Draw(rt, "project") {
			p = inProject(t, s, drawProject(rt)).(gate.Explainer)
		}
		want, wantErr := p.Rule(context.Background(), c, facts)
		e := p.Explain(context.Background(), c, facts)
		if inShort(e.Ruling, e.Err) != inShort(want, wantErr) {
			rt.Fatalf("explained %s, is %s", inShort(e.Ruling, e.Err), inShort(want, wantErr))
		}
		if wantErr == nil && want.Move != gate.Forward {
			if len(e.Cited) == 0 || len(e.Steps) == 0 {
				rt.Fatalf("%s cites %v and would change %v", inShort(want, nil), e.Cited, e.Steps)
			}
			last := e.Steps[len(e.Steps)-1]
			if last.Or {
				last = e.Steps[len(e.Steps)-2]
			}
			if len(e.Steps) < maxSteps && last.Move != gate.Forward && last.Move != 0 {
				rt.Fatalf("the last step is %+v", last)
			}
		}
		sub, err := subjectOf(c)
		if err != nil {
			return
		}
		for _, name := range sub.names {
			for i := range s.rules {
				if r := &s.rules[i]; (len(r.mismatches(sub, name, facts)) == 0) != r.matches(sub, name, facts) {
					rt.Fatalf("%s: matches %v, mismatches %v", r.label, r.matches(sub, name, facts), r.mismatches(sub, name, facts))
				}
			}
		}
	})
}
