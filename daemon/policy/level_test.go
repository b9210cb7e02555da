package policy

import (
	"context"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// The level of a question is the strictest that any source of the question requires.
func TestLevels(t *testing.T) {
	s := load(t, `schema: 1
governance:
  rules:
    - {match: "usual*", action: approve, approval: usual}
    - {match: "any*", action: approve, approval: any}
    - {match: "board*", action: approve, approval: board}
approval:
  usual: {destination: {type: local}}
  any: {destination: {type: local}, require: any}
  board: {destination: {type: local}, require: presence}
`, `@id("a") @approval("any") permit (principal, action, resource) when { context.facts.contains("acts") };
@id("b") @approval("usual") permit (principal, action, resource) when { context.facts.contains("sends") };
@id("c") @approval("board") permit (principal, action, resource) when { context.facts.contains("smelly") };
`)
	for name, test := range map[string]struct {
		tool     string
		facts    []string
		workflow string
		level    gate.Level
	}{
		"left out":                     {"usual", nil, "usual", gate.LevelUsual},
		"any":                          {"any", nil, "any", gate.LevelWatch},
		"presence":                     {"board", nil, "board", gate.LevelPresence},
		"a policy asks for less":       {"board", []string{"acts"}, "board", gate.LevelPresence},
		"a policy asks for more":       {"any", []string{"smelly"}, "board", gate.LevelPresence},
		"a policy leaves it open":      {"any", []string{"sends"}, "any", gate.LevelUsual},
		"two policies, the first less": {"x", []string{"acts", "smelly"}, "any", gate.LevelPresence},
		"two policies, and a rule":     {"any", []string{"acts", "sends"}, "any", gate.LevelUsual},
	} {
		var facts []gate.Fact
		for _, f := range test.facts {
			facts = append(facts, gate.Fact{Name: f})
		}
		r, err := s.Rule(context.Background(), toolCall(t, "fs", test.tool, `{}`), facts)
		if err != nil || r.Move != gate.Ask || r.Workflow != test.workflow || r.Level != test.level {
			t.Errorf("%s: got %v of %s at %q, %v; want %s at %q", name, r.Move, r.Workflow, r.Level, err, test.workflow, test.level)
		}
	}
	var r gate.Ruling
	s.Whom(&r) // with several workflows, the built-in default asks the default one
	if r.Level != gate.LevelUsual {
		t.Errorf("what is built in asks at %q", r.Level)
	}
}
