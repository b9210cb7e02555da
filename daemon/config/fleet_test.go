package config

import (
	"strings"
	"testing"
)

func TestFleetApproval(t *testing.T) {
	const flows = "schema: 1\napproval: {mine: {destination: {type: local}, require: presence}, theirs: {destination: {type: local}, surfaces: [colleague, terminal]}}\n"
	for name, c := range map[string]struct{ text, want string }{
		"named":           {flows + "fleet: {approval: mine}\n", ""},
		"unknown":         {flows + "fleet: {approval: other}\n", "unknown workflow"},
		"would go on":     {flows + "fleet: {approval: theirs}\n", "answered on this one"},
		"an unknown key":  {flows + "fleet: {group: eng}\n", "group"},
		"another surface": {"schema: 1\napproval: {x: {destination: {type: local}, surfaces: [colleagues]}}\n", "colleagues"},
	} {
		cfg, problems := Parse("thoughtgate.yaml", []byte(c.text), func(string) string { return "" })
		var all []string
		for _, p := range problems {
			all = append(all, p.String())
		}
		if got := strings.Join(all, "\n"); HasErrors(problems) != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v\n%s", name, cfg != nil, got)
		}
	}
}
