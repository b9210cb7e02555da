package policy

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A question is left to an agent only if it is configured to ask, and no workflow that asks says
// where or how it is to be answered.
func TestNatively(t *testing.T) {
	const native = "schema: 1\nhooks: {claude-code: {ask: native}, codex: {ask: hold}}\n"
	const rules = "governance: {rules: [{match: shell, action: approve}]}\n"
	const slack = "approval: {w: {destination: {type: slack, channel: C012, approvers: [U012]}}}\n"
	for name, tt := range map[string]struct {
		yaml, cedar string
		want        bool
	}{
		"the built-in workflow":  {native + rules, "", true},
		"one without surfaces":   {native + rules + "approval: {w: {destination: {type: local}, timeout: 1h}}\n", "", true},
		"with surfaces":          {native + rules + "approval: {w: {destination: {type: local}, surfaces: [terminal, script]}}\n", "", false},
		"on Slack":               {native + rules + slack, "", false},
		"not configured":         {"schema: 1\n" + rules, "", false},
		"configured to hold":     {"schema: 1\nhooks: {claude-code: {ask: hold}}\n" + rules, "", false},
		"said of the agent only": {"schema: 1\nhooks: {claude-code: {}}\n" + rules, "", false},
		"presence":               {native + rules + "approval: {w: {destination: {type: local}, require: presence}}\n", "", false},
		"a policy asks": {native + "governance: {rules: [{match: shell, action: policy}]}\n",
			`@approval permit (principal, action, resource);`, true},
		"a policy asks others, too": {native + strings.Replace(rules, "approve", "approve, approval: w", 1) + "approval:\n  w: {destination: {type: local}}\n  v: {destination: {type: local}, surfaces: terminal}\n",
			`@approval("v") permit (principal, action, resource);`, false},
	} {
		s := load(t, tt.yaml, tt.cedar)
		c := message(t, agenthook.Server, wire.FromAgent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"command":"make"}}}`)
		c.Agent = "claude-code"
		r, err := s.Rule(t.Context(), c, nil)
		if r.Level == gate.LevelUsual {
			r.Level = gate.LevelWatch // as the gate does where no secret is enrolled
		}
		if err != nil || r.Move != gate.Ask || r.MayAskNatively("claude-code", nil) != tt.want || r.MayAskNatively("codex", nil) {
			t.Errorf("%s: %v, asked by %q: %v", name, r.Move, r.Natively, err)
		}
	}
}
