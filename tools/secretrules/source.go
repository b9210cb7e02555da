package main

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// source holds the parts of the rule file that are used.
type source struct {
	Allowlist allowlist `toml:"allowlist"`
	Rules     []struct {
		ID          string      `toml:"id"`
		Regex       string      `toml:"regex"`
		Keywords    []string    `toml:"keywords"`
		Entropy     float64     `toml:"entropy"`
		SecretGroup int         `toml:"secretGroup"`
		Allowlists  []allowlist `toml:"allowlists"`
	} `toml:"rules"`
}

type allowlist struct {
	Target    string   `toml:"regexTarget"`
	Regexes   []string `toml:"regexes"`
	Stopwords []string `toml:"stopwords"`
}

// rule is one rule as it is written out; package facts documents the fields.
type rule struct {
	id         string
	keywords   []string
	expr       string
	anchored   bool
	boundary   bool
	heads      []string
	reach      int
	group      int
	entropy    float64
	run        int
	need       string
	allow      []string
	allowMatch []string
}

// leftOut names the rules that are not used, and why.
var leftOut = map[string]string{
	"generic-api-key":        "takes half the time and misses plain passwords: member and variable names are judged by our own code",
	"hashicorp-tf-password":  "an assignment to a name: judged by our own code",
	"private-key":            "needs the whole text, and an end: our own code also knows a key that was cut",
	"pkcs12-file":            "is about a path: judged as a place",
	"adobe-client-id":        "an identifier, not a secret",
	"asana-client-id":        "an identifier, not a secret",
	"bitbucket-client-id":    "an identifier, not a secret",
	"discord-client-id":      "an identifier, not a secret",
	"linkedin-client-id":     "an identifier, not a secret",
	"looker-client-id":       "an identifier, not a secret",
	"messagebird-client-id":  "an identifier, not a secret",
	"plaid-client-id":        "an identifier, not a secret",
	"sendbird-access-id":     "an identifier, not a secret",
	"sumologic-access-id":    "an identifier, not a secret",
	"flutterwave-public-key": "meant to be public",
	"lob-pub-api-key":        "meant to be public",
	"mailgun-pub-key":        "meant to be public",
}

// needs names, for rules whose keywords are ordinary words, a second literal that every match
// contains.
var needs = map[string]string{"kubernetes-secret-yaml": "data:", "curl-auth-user": "-u", "curl-auth-header": "-h"}

// prefix is at the start of most rules, to show the variable in a report. It never decides
// whether there is a match.
const prefix = `[\w.-]{0,50}?`

func (s source) rules() ([]rule, error) {
	dropped := 0
	var rules []rule
	for _, r := range s.Rules {
		if _, drop := leftOut[r.ID]; drop {
			dropped++
			continue
		}
		out := rule{id: r.ID, group: r.SecretGroup, entropy: r.Entropy, need: needs[r.ID], expr: r.Regex}
		for _, k := range r.Keywords {
			out.keywords = append(out.keywords, strings.ToLower(k))
		}
		for _, a := range r.Allowlists {
			if a.Target == "match" {
				out.allowMatch = append(out.allowMatch, a.Regexes...)
			} else {
				out.allow = append(out.allow, a.Regexes...)
			}
		}
		if err := out.prepare(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
		rules = append(rules, out)
	}
	if dropped != len(leftOut) {
		return nil, fmt.Errorf("%d rules are named to be left out, %d were found", len(leftOut), dropped)
	}
	return rules, nil
}

// prepare determines how the rule can be tried quickly.
func (r *rule) prepare() error {
	if len(r.keywords) == 0 {
		return fmt.Errorf("no keyword")
	}
	expr := strings.Replace(r.expr, prefix, "", 1)
	expr = strings.Replace(expr, "(?i:"+prefix, "(?i:", 1)
	if regexp.MustCompile(expr).NumSubexp() > 0 {
		r.expr = expr // the secret is a group, so the prefix is not needed
	}
	tree, err := syntax.Parse(r.expr, syntax.Perl)
	if err != nil {
		return err
	}
	r.reach = reach(tree)
	tree = tree.Simplify()
	r.run = longestRun(tree)
	heads, boundary, exact := heads(tree)
	if len(heads) == 0 {
		return nil
	}
	for _, h := range heads {
		if !slices.ContainsFunc(r.keywords, func(k string) bool { return strings.HasPrefix(strings.ToLower(h), k) }) {
			return nil
		}
	}
	r.anchored, r.boundary = true, boundary
	if exact {
		r.heads = heads
	}
	return nil
}
