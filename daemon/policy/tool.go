package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// Tools is what servers have listed. Its methods are safe for concurrent use. Tool is
// called while a call waits.
type Tools interface {
	// Tool returns a tool, or nil if it hasn't been listed.
	Tool(server, launch, name string) *shape.Tool
	// Listings returns all listings, in any order.
	Listings() []shape.Listing
}

// WithTools sets what servers have listed: policies are checked against it, and
// arguments get the types that the servers' schemas declare.
func WithTools(t Tools) Option {
	return func(s *Set) { s.tools = t }
}

// WithStanding names, by its Digest, the set that is in force or was when the daemon
// stopped. If it is the one that is loaded, tools that don't fit its policies are
// warnings and not errors: they were listed since, and a server must not be able to
// invalidate a set by what it lists. Calls of these tools are still refused.
func WithStanding(digest string) Option {
	return func(s *Set) { s.standing = digest }
}

type noTools struct{}

func (noTools) Tool(string, string, string) *shape.Tool { return nil }
func (noTools) Listings() []shape.Listing               { return nil }

// toolKey names a tool of a server as it was launched.
type toolKey struct{ server, launch, name string }

// misfit is a finding of the check of a policy against a tool.
type misfit struct {
	policy  *policy
	finding finding
}

// checkedTool is a tool with the outcome of the check.
type checkedTool struct {
	tool    *shape.Tool
	misfits []misfit
}

// checkedTools caches a checkedTool by toolKey.
type checkedTools struct{ sync.Map }

// checked returns the outcome of the check of t. A tool that was not checked before is
// checked now, which takes some microseconds for each policy that may be about it.
func (s *Set) checked(t *shape.Tool) *checkedTool {
	key := toolKey{t.Server, t.Launch, t.Name}
	if c, ok := s.checks.Load(key); ok && c.(*checkedTool).tool == t {
		return c.(*checkedTool)
	}
	c := &checkedTool{tool: t}
	if t.Takes != nil {
		c.misfits = s.misfits(t)
	}
	s.checks.Store(key, c)
	return c
}

// misfits checks the policies that may be about a tool against it.
func (s *Set) misfits(t *shape.Tool) []misfit {
	c := callOf(t.Server, t.Name, t.Takes)
	var found []misfit
	var policies []*policy
	for _, b := range s.index.candidates(append([]cedar.EntityUID{c.action}, c.groups...), c.resources) {
		policies = append(policies, b.policies...)
	}
	slices.SortFunc(policies, func(a, b *policy) int { return a.order - b.order })
	for _, p := range slices.Compact(policies) {
		if !p.covers(c) {
			continue
		}
		for _, f := range p.check(c) {
			found = append(found, misfit{p, f})
		}
	}
	return found
}

// toolShape returns the shape of a tool's arguments, or nil if it isn't known. It is
// an error if a policy that may be about the tool doesn't fit it: how that policy
// evaluates can't be relied on.
func (s *Set) toolShape(server, launch, name string) (*shape.Shape, error) {
	if !s.generated() {
		return nil, nil
	}
	t := s.tools.Tool(server, launch, name)
	if t == nil && launch == "" {
		t = s.lastListed(server, name)
	}
	if t == nil || t.Takes == nil {
		return nil, nil
	}
	if c := s.checked(t); len(c.misfits) > 0 {
		m := c.misfits[0]
		return nil, fmt.Errorf("policy %s doesn't fit the tool: %s", m.policy.title(), m.finding.message(printable(qualified(server, name))))
	}
	return t.Takes, nil
}

// lastListed returns a tool as the server listed it last, under any launch. It is for
// calls that are only explained or tested: a shim always has a launch.
func (s *Set) lastListed(server, name string) *shape.Tool {
	for _, t := range s.currentTools() {
		if t.Server == server && t.Name == name {
			return t
		}
	}
	return nil
}

// generated reports whether policies are checked against what servers list.
func (s *Set) generated() bool { return s.cfg.Cedar.Schema == config.SchemaGenerated }

// currentTools returns the tools that policies are checked against when a set is
// loaded: of each server those of the launch that was listed last, if a call can reach
// them. Calls of other launches, and of tools that are listed later, are refused if a
// policy doesn't fit.
func (s *Set) currentTools() []*shape.Tool {
	last := map[string]shape.Listing{}
	for _, l := range s.tools.Listings() {
		if before, ok := last[l.Server]; !ok || l.Listed.After(before.Listed) {
			last[l.Server] = l
		}
	}
	var all []*shape.Tool
	for _, server := range sortedKeys(last) {
		tools := slices.Clone(last[server].Tools)
		slices.SortFunc(tools, func(a, b *shape.Tool) int { return strings.Compare(a.Name, b.Name) })
		for _, t := range tools {
			if s.reachable(t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// reachable reports whether the policies can be evaluated for a call of t: it is not
// hidden, and no rule denies it unconditionally.
func (s *Set) reachable(t *shape.Tool) bool {
	if source := s.cfg.Source(t.Server); source != nil && (!source.Enabled || !exposed(context.Background(), &source.Expose, typeTool, []string{t.Name})) {
		return false
	}
	sub := &subject{class: classAct, method: "tools/call", kind: typeTool, server: t.Server}
	for i := range s.rules {
		r := s.rules[i].unconditional()
		if !r.matches(sub, t.Name, nil) {
			continue
		}
		if s.rules[i].action != config.Deny {
			return true
		}
		if len(s.rules[i].When) == 0 && len(s.rules[i].Agent) == 0 {
			return false
		}
	}
	return s.defaults.action != config.Deny
}

// unconditional returns r without the conditions on agent and facts.
func (r *rule) unconditional() *rule {
	c := *r.Rule
	c.When, c.Agent = nil, nil
	return &rule{Rule: &c, action: r.action}
}

// Waiting is a policy that could not be checked completely: it names tools whose
// schema isn't known. It is in force, and is checked when they are listed.
type Waiting struct {
	Policy string
	Place  config.Place
	Tools  []string // as server/tool, with the fault of a schema that can't be read
}

// Refused is a tool whose calls are refused because a policy doesn't fit it.
type Refused struct {
	Tool   string // as server/tool
	Policy string
	Place  config.Place // in the policy
	Reason string
}

// maxReported limits each of the lists that Checked returns.
const maxReported = 100

// Checked reports how far the policies have been checked: how many completely, which
// wait for tools to be listed, and which tools are refused. It considers the tools
// that are listed now.
func (s *Set) Checked() (whole int, waiting []Waiting, refused []Refused) {
	if !s.generated() {
		return len(s.policies), nil, nil
	}
	known := toolsByID{}
	for _, t := range s.currentTools() {
		known[qualified(t.Server, t.Name)] = t
		told := map[*policy]bool{}
		for _, m := range s.checked(t).misfits {
			if !told[m.policy] && len(refused) < maxReported {
				told[m.policy] = true
				refused = append(refused, m.refusal(t))
			}
		}
	}
	for _, p := range s.policies {
		tools := p.toolsNotListed(known)
		if len(tools) == 0 {
			whole++
		} else if len(waiting) < maxReported {
			waiting = append(waiting, Waiting{Policy: p.id, Place: p.place, Tools: tools})
		}
	}
	return whole, waiting, refused
}

func (m *misfit) refusal(t *shape.Tool) Refused {
	id := qualified(t.Server, t.Name)
	return Refused{Tool: id, Policy: m.policy.id, Place: m.finding.place, Reason: m.finding.message(printable(id))}
}

// toolsNotListed lists the tools that the policy names and whose schema isn't known.
func (p *policy) toolsNotListed(known toolsByID) []string {
	ids, _ := p.toolsNamed()
	var tools []string
	for _, id := range ids {
		switch t := known[id]; {
		case t == nil:
			tools = append(tools, id)
		case t.Takes == nil:
			tools = append(tools, fmt.Sprintf("%s (%s)", id, t.Fault))
		}
	}
	return tools
}

// Check checks the policies against a tool that a server has listed, and returns those
// that don't fit: calls of the tool are refused. The first call of the tool needs less
// time if Check was called before.
func (s *Set) Check(t *shape.Tool) []Refused {
	if !s.generated() || !s.reachable(t) {
		return nil
	}
	var all []Refused
	for _, m := range s.checked(t).misfits {
		all = append(all, m.refusal(t))
	}
	return all
}
