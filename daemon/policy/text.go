package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// label names a rule by its pattern and its place.
func label(r *config.Rule) string {
	what := strconv.Quote(r.Match.String())
	if len(r.When) > 0 {
		facts := make([]string, len(r.When))
		for i, f := range r.When {
			facts[i] = string(f)
		}
		what += " when " + strings.Join(facts, " or ")
	}
	return fmt.Sprintf("%s (%s)", what, r.Place)
}

func defaultLabel(key string, p config.Place) string {
	if p.Line == 0 {
		return "defaults." + key
	}
	return fmt.Sprintf("defaults.%s (%s)", key, p)
}

// why says in a clause why the rule applies: in the words of whoever wrote it,
// else that the method on this server is, say, denied.
func (r *rule) why(s *subject, facts []gate.Fact, otherwise string) string {
	if r.Rule != nil && r.Description != "" {
		return fill(r.Description, r.When, facts)
	}
	return fmt.Sprintf("%s on server %s %s", s.method, shown(s.server), otherwise)
}

// why says in a clause what the policy did: its @reason, else where it stands.
func (p *policy) why(otherwise string) string {
	if p.reason != "" {
		return p.reason
	}
	return fmt.Sprintf("the policy %s %s", shown(p.id), otherwise)
}

// fill puts into a description what made the rule apply: the place, the server
// that named it and the argument, of the facts that the rule asks for, else of
// any.
func fill(description string, when []config.Fact, facts []gate.Fact) string {
	if !strings.ContainsRune(description, '{') {
		return description
	}
	values := map[string]string{}
	take := func(f *gate.Fact) {
		for name, value := range map[string]string{"{place}": f.Place, "{by}": f.By, "{member}": f.Member} {
			if value != "" && values[name] == "" {
				values[name] = shown(value)
			}
		}
	}
	for _, only := range []bool{true, false} {
		for i := range facts {
			if f := &facts[i]; !only || holds(when, facts[i:i+1]) != nil {
				take(f)
			}
		}
	}
	for name, unknown := range map[string]string{"{place}": "a place", "{by}": "unknown", "{member}": "an argument"} {
		if values[name] == "" {
			values[name] = unknown
		}
	}
	return strings.NewReplacer("{place}", values["{place}"], "{by}", values["{by}"], "{member}", values["{member}"]).Replace(description)
}

// maxShown is how much of a name from outside goes into a sentence.
const maxShown = 120

// shown makes text from outside fit for a sentence: short, on one line, and in
// quotes when it is more than a name, so that it can't pass for a part of the
// sentence.
func shown(text string) string {
	short := text
	if len(short) > maxShown {
		short = strings.ToValidUTF8(short[:maxShown], "") + "…"
	}
	for _, r := range text {
		if r > 0x7e || r <= ' ' || strings.ContainsRune("\"'`(){};,", r) {
			return strconv.QuoteToASCII(short)
		}
	}
	return short
}
