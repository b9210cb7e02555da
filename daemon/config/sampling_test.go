package config

import (
	"strings"
	"testing"
)

func TestSampling(t *testing.T) {
	const head = "schema: 1\n"
	tests := []struct{ name, text, named, err string }{
		{"nothing", "", "||", ""},
		{"a provider", "sampling: {provider: notes/claude}", "notes|claude|", ""},
		{"a model", "sampling: {provider: \"notes/claude:small:2\"}", "notes|claude|small:2", ""},
		{"no extension", "sampling: {provider: claude}", "", "V-SAM-001"},
		{"no provider", "sampling: {provider: \"notes/\"}", "", "V-SAM-001"},
		{"a name that no extension has", "sampling: {provider: \"Notes/claude\"}", "", "V-SAM-001"},
		{"an empty model", "sampling: {provider: \"notes/claude:\"}", "", "V-SAM-001"},
		{"always nobody", "sampling: {when: always}", "", "V-SAM-002"},
		{"too often", "sampling: {max_iterations: 0}", "", "at least 1"},
		{"another word", "sampling: {when: often}", "", "unable, always or never"},
		{"a rule for nobody", "governance: {rules: [{match: \"*\", action: forward, answer_by: provider}]}", "", "V-SAM-002"},
		{"a rule that denies", "sampling: {provider: notes/claude}\ngovernance: {rules: [{match: \"*\", action: deny, answer_by: agent}]}", "", "V-SAM-003"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, ds := Parse("f.yaml", []byte(head+test.text+"\n"), env(nil))
			if test.err != "" {
				if len(ds) != 1 || !strings.Contains(ds[0].String(), test.err) {
					t.Fatalf("got %v, want %s", ds, test.err)
				}
				return
			}
			if len(ds) != 0 {
				t.Fatal(ds)
			}
			extension, provider, model := c.Sampling.Named()
			if got := extension + "|" + provider + "|" + model; got != test.named {
				t.Errorf("got %q, want %q", got, test.named)
			}
			if c.Sampling.When != SamplingUnable || c.Sampling.MaxIterations != 8 || c.Sampling.MaxTokens != 4096 || len(c.Sampling.Tools) != 0 {
				t.Errorf("defaults: %+v", c.Sampling)
			}
		})
	}
}
