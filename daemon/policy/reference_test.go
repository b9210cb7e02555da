package policy

import (
	"fmt"
	"slices"
	"strings"
)

// This is a simple implementation of the four gates, with which the real ones are compared in
// many random cases. It shares no code with them, and gets a configuration as it was drawn,
// without parsing.

// refConfig is a configuration as the reference sees it.
type refConfig struct {
	profile   string // production or development
	sources   []refSource
	rules     []refRule
	action    string // of the defaults: forward, deny, approve, policy
	asks      string
	unknown   string // refuse or forward; empty follows the profile
	workflows []string
	policies  []refPolicy
	digest    string // of the set that was built from it
}

type refSource struct {
	id       string // a pattern, as in all matched fields: a word, or one that ends in *
	disabled bool
	mode     string // all, allowlist, blocklist
	tools    []string
}

type refRule struct {
	match, source, agent, method string // empty: any; an empty method: any that acts
	when                         []string
	action, approval             string
}

type refPolicy struct {
	forbid    bool
	agent     string // empty: any
	action    string // empty: any; call, tools/call, a method, or server/tool
	server    string // empty: any
	condition string // empty: holds; fact F, profile, calls > at, "has n" and n > at, "n" > at
	at        int
	asks      string // a workflow; empty: does not ask
}

// refCall is a call as the reference sees it.
type refCall struct {
	method, server, agent, name string
	mode                        string // of an elicitation
	n                           any    // the argument n: nil, an int, or a text
	facts                       []string
	requested                   string // profile
	calls                       int    // made by the agent before
}

func (c *refCall) asking() bool {
	return c.method == "sampling/createMessage" || c.method == "elicitation/create" || c.method == "roots/list"
}

func (c *refCall) acts() bool {
	return c.method == "tools/call" || c.method == "resources/read" || c.method == "prompts/get"
}

// refOutcome is the outcome of a call before a person has answered.
type refOutcome struct {
	move     string // forward, deny, ask
	gate     string // visible, rule, permit, accident, ask
	workflow string
	by       string // for ask: what asks, as it was drawn
}

// profileOf returns the profile in force: the stricter of the requested and the allowed one.
func (cfg *refConfig) profileOf(c *refCall) string {
	if c.requested == "production" || cfg.profile == "production" {
		return "production"
	}
	return "development"
}

// reference returns the outcome of a call.
func reference(cfg *refConfig, c *refCall) refOutcome {
	// Gate one: is this visible to the agent?
	for _, s := range cfg.sources {
		if !fits(s.id, c.server) {
			continue
		}
		listed := c.method == "tools/call" && slices.ContainsFunc(s.tools, func(p string) bool { return fits(p, c.name) })
		if s.disabled || c.acts() && (s.mode == "allowlist" && !listed || s.mode == "blocklist" && listed) {
			return refOutcome{move: "deny", gate: "visible"}
		}
		break // the first source counts
	}

	// Gate two: the first rule that matches, or else a default.
	action, workflow, gate, by := cfg.rule(c)
	if action == "deny" {
		return refOutcome{move: "deny", gate: gate}
	}

	// Gate three: the policies. If one fails, that is an accident, whatever the others decide. A
	// forbid denies, and if the rule requires it one must permit.
	permits, asking := 0, (*refPolicy)(nil)
	forbidden := false
	for _, p := range cfg.policies {
		holds, failed := cfg.holds(&p, c)
		switch {
		case failed:
			return refOutcome{move: "deny", gate: "accident"}
		case holds && p.forbid:
			forbidden = true
		case holds:
			permits++
			if asking == nil && p.asks != "" {
				asking = &p
			}
		}
	}
	switch {
	case forbidden, action == "policy" && permits == 0:
		return refOutcome{move: "deny", gate: "permit"}
	case action == "approve":
		return refOutcome{"ask", "rule", workflow, by}
	case asking != nil:
		return refOutcome{"ask", "permit", asking.asks, by + asking.write()}
	case slices.Contains(c.facts, "ours"):
		return refOutcome{"ask", "ask", cfg.workflow(), ""} // ThoughtGate's own files, whatever the rules are
	case action == "policy":
		return refOutcome{move: "forward", gate: "permit"}
	}
	return refOutcome{move: "forward", gate: "rule"}
}

// workflow returns the workflow that asks where none is named.
func (cfg *refConfig) workflow() string {
	if len(cfg.workflows) > 0 {
		return cfg.workflows[0]
	}
	return "default"
}

// rule is the second gate: the action, the workflow, and what decided.
func (cfg *refConfig) rule(c *refCall) (action, workflow, gate, by string) {
	only := cfg.workflow()
	for _, r := range cfg.rules {
		methods := r.method == "" && c.acts() || r.method != "" && fits(r.method, c.method)
		facts := len(r.when) == 0 || slices.ContainsFunc(r.when, func(f string) bool { return slices.Contains(c.facts, f) })
		if methods && facts && fits(r.match, c.name) && fits(r.source, c.server) && fits(r.agent, c.agentType()) {
			if r.approval != "" {
				return r.action, r.approval, "rule", fmt.Sprintf("%+v", r)
			}
			return r.action, only, "rule", fmt.Sprintf("%+v", r)
		}
	}
	switch {
	case c.acts():
		return cfg.action, only, "rule", ""
	case c.method == "roots/list", c.method == "elicitation/create" && c.mode != "url":
		return "forward", "", "rule", ""
	case c.asking():
		return cfg.asks, only, "rule", ""
	}
	// A method in no table.
	if cfg.unknown == "forward" || cfg.unknown == "" && cfg.profileOf(c) == "development" {
		return "forward", "", "rule", ""
	}
	return "deny", "", "rule", ""
}

// holds reports whether a policy applies to a call and its condition holds, or whether it fails.
func (cfg *refConfig) holds(p *refPolicy, c *refCall) (holds, failed bool) {
	if p.agent != "" && (c.asking() || p.agent != c.agentType()) || p.server != "" && (c.asking() || p.server != c.server) {
		return false, false
	}
	tool := c.method == "tools/call" && p.action == c.server+"/"+c.name
	if p.action != "" && p.action != "call" && p.action != c.method && !tool {
		return false, false
	}
	kind, fact, _ := strings.Cut(p.condition, " ")
	n, isNumber := c.n.(int)
	switch {
	case kind == "fact":
		return slices.Contains(c.facts, fact), false
	case kind == "profile":
		return cfg.profileOf(c) == "production", false
	case kind == "calls":
		return c.calls > p.at, false
	case kind == "has" && c.n == nil:
		return false, false
	case kind == "has", kind == "n":
		return isNumber && n > p.at, !isNumber
	}
	return true, false
}

func (c *refCall) agentType() string {
	if c.agent == "" {
		return "unknown"
	}
	return c.agent
}

// afterAnswer returns the outcome of a held call after the person has answered. cfg is in force
// at that time.
func afterAnswer(held refOutcome, approved bool, cfg *refConfig, c *refCall) string {
	enforced := *c // only production holds calls, and a held call stays held
	enforced.requested = "production"
	now := reference(cfg, &enforced)
	if !approved || now.move == "deny" || now.move == "ask" && (now.workflow != held.workflow || now.by != held.by) {
		return "deny"
	}
	return "forward"
}

// fits matches a pattern: a word, a word that ends in *, or an empty pattern, which matches
// anything.
func fits(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == "" || pattern == text
}
