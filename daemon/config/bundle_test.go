package config

import (
	"strings"
	"testing"
)

func TestFloorOnlyTightens(t *testing.T) {
	tests := []struct{ text, want string }{
		{"governance: {rules: [{match: a, action: deny}, {match: b, action: approve}, {match: c, action: policy}]}", ""},
		{"governance: {defaults: {action: deny, asks: deny}}", ""},
		{"sources: [{id: prod, enabled: false}]\napproval: {board: {require: presence}}", ""},
		{"governance:\n  rules:\n    - {match: a, action: deny}\n    - match: b\n      action: forward", "dev.yaml:6:15: error: the rule loosens"},
		{"governance: {defaults: {action: forward}}", "dev.yaml:2:33: error: the default loosens"},
		{"governance: {defaults: {asks: forward}}", "dev.yaml:2:31: error: the default loosens"},
		{"profile: development", `may not say "profile": the floor`},
		{"unknown: {requests: forward}", `may not say "unknown"`},
		{"pins: {mode: \"off\"}", `may not say "pins"`},
		{"audit: {values: full}", `may not say "audit"`},
		{"cedar: {policies: [x.cedar]}", `may not say "cedar"`},
		{"approval: {a: {destination: {type: slack, channel: C0123, approvers: [U0123]}}}", "can't ask on Slack"},
		{"approval: {a: {surfaces: [slack]}}", "can't ask on Slack"},
		{"approval: {a: {destination: {type: local, approvers: [U0123]}}}", "need type: slack"},
		{"sources: [{id: x, shared: true}]", `may not say "shared"`},
		{"governance: {rules: [{match: a, action: approve, answer_by: agent}]}", `may not say "answer_by"`},
		{"governance: {rules: [{match: \"${HOME}\", action: deny}]}", "${HOME}"},
		{"governance: {rules: [{match: a, action: dney}]}", "dney"},
	}
	for _, tt := range tests {
		b, ds := ParseBundle("dev.yaml", []byte("schema: 1\n"+tt.text), nil, true)
		var all []string
		for _, d := range ds {
			all = append(all, d.String())
		}
		if got := strings.Join(all, "\n"); (tt.want == "") != (b != nil) || !strings.Contains(got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

func TestFullBundle(t *testing.T) {
	b, ds := ParseBundle("dev.yaml", []byte("schema: 1\nprofile: development\nunknown: {requests: forward}\ngovernance: {rules: [{match: a, action: forward}]}"), []CedarText{{"a.cedar", nil}}, false)
	if b == nil || b.IsFloor() || len(b.Cedar()) != 1 || b.Config().Profile != Development {
		t.Fatalf("%v", ds)
	}
	for _, text := range []string{"audit: {values: full}", "limits: {runs: 1}", "agents: {}", "pins: {mode: warn}", "approval: {a: {destination: {type: slack, channel: C0123, approvers: [U0123]}}}", "sources: [{id: x, ca_file: /etc/x}]", "approval: {a: {timeout: \"${X}\"}}"} {
		if b, _ := ParseBundle("dev.yaml", []byte("schema: 1\n"+text), nil, false); b != nil {
			t.Errorf("%s: accepted", text)
		}
	}
	// Without rules, the built-in default applies, and a floor adds nothing.
	full, _ := ParseBundle("dev.yaml", nil, nil, false)
	floor, _ := ParseBundle("dev.yaml", nil, nil, true)
	if len(full.Config().Governance.Rules) == 0 || len(floor.Config().Governance.Rules) != 0 || floor.Config().Governance.Defaults != (Defaults{Forward, Forward}) {
		t.Error("the defaults are others")
	}
	if b, _ := ParseBundle("dev.yaml", make([]byte, maxFile+1), nil, true); b != nil {
		t.Error("a bundle that is too long was accepted")
	}
}
