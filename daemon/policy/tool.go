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

// Tools is what servers have said of their tools. Its methods are safe for
// concurrent use; Tool is called for calls that wait.
type Tools interface {
	// Tool returns nil for a tool that no list has shown.
	Tool(server, launch, name string) *shape.Tool
	// Listings returns everything, in any order.
	Listings() []shape.Listing
}

// WithTools makes what servers have listed known to the set: policies are
// checked against it, and arguments get the types that the servers gave them.
func WithTools(t Tools) Option {
	return func(s *Set) { s.tools = t }
}

// WithStanding names, by its Digest, a set that is in force or was when the
// daemon ended. When the set to be loaded is that one, tools that its policies
// don't fit are no errors: they were listed since, and what a server lists must
// not be able to put an end to a set. Calls of these tools are refused, as they
// were.
func WithStanding(digest string) Option {
	return func(s *Set) { s.standing = digest }
}

type noTools struct{}

func (noTools) Tool(string, string, string) *shape.Tool { return nil }
func (noTools) Listings() []shape.Listing               { return nil }

// toolKey names a tool of a server as it was launched.
type toolKey struct{ server, launch, name string }

// misfit is what a policy has against a tool that it may be about.
type misfit struct {
	policy  *policy
	finding finding
}

// checkedTool is a tool and the policies that don't fit it.
type checkedTool struct {
	tool    *shape.Tool
	misfits []misfit
}

// checkedTools keeps the outcome of checks, one for each tool.
type checkedTools struct{ sync.Map }

// checked returns t with what the policies have against it. A tool that was not
// seen before is checked now, in some microseconds for each policy that may be
// about it.
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

// misfits checks the policies that may be about a tool.
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

// takes returns what a tool takes, nil when that isn't known. It is an error
// when a policy that may be about the tool doesn't fit it: what that policy
// would say is not to be relied on.
func (s *Set) takes(server, launch, name string) (*shape.Shape, error) {
	if !s.generated() {
		return nil, nil
	}
	t := s.tools.Tool(server, launch, name)
	if t == nil && launch == "" {
		t = s.last(server, name)
	}
	if t == nil || t.Takes == nil {
		return nil, nil
	}
	if c := s.checked(t); len(c.misfits) > 0 {
		m := c.misfits[0]
		return nil, fmt.Errorf("policy %s doesn't fit the tool: %s", m.policy.named(), m.finding.message(shown(qualified(server, name))))
	}
	return t.Takes, nil
}

// last returns a tool as the server listed it last, under whichever launch. It is
// for calls that are thought up: no shim is without a launch.
func (s *Set) last(server, name string) *shape.Tool {
	for _, t := range s.current() {
		if t.Server == server && t.Name == name {
			return t
		}
	}
	return nil
}

// generated reports whether policies are checked against what servers list.
func (s *Set) generated() bool { return s.cfg.Cedar.Schema == config.SchemaGenerated }

// current returns the tools that policies are checked against when a set is
// loaded: of each server those of the launch that was listed last, and of these
// those that a call can reach. Of another launch, and of a tool that comes
// later, calls are refused if a policy doesn't fit.
func (s *Set) current() []*shape.Tool {
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
			if s.reaches(t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// reaches reports whether a call of t can come as far as the policies. What is
// hidden, or denied by a rule whatever else holds, doesn't.
func (s *Set) reaches(t *shape.Tool) bool {
	if source := s.cfg.Source(t.Server); source != nil && (!source.Enabled || !exposed(context.Background(), &source.Expose, typeTool, []string{t.Name})) {
		return false
	}
	sub := &subject{class: acts, method: "tools/call", on: typeTool, server: t.Server}
	for i := range s.rules {
		r := s.rules[i].always()
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

// always is r without what depends on who calls and with which arguments.
func (r *rule) always() *rule {
	c := *r.Rule
	c.When, c.Agent = nil, nil
	return &rule{Rule: &c, action: r.action}
}

// Waiting is a policy that could not be checked whole: it names tools of which
// it isn't known what they take. It is in force all the same, and is checked
// when a list shows them.
type Waiting struct {
	Policy string
	Place  config.Place
	Tools  []string // as server/tool, with why it isn't known where that is another reason
}

// Refused is a tool whose calls are refused, since a policy doesn't fit it.
type Refused struct {
	Tool   string // as server/tool
	Policy string
	Place  config.Place // in the policy
	Reason string
}

// maxTold is how many of each a status tells.
const maxTold = 100

// Checked tells how far the policies of the set have been checked: how many of
// them whole, which not, and which tools they don't fit. It looks at the tools
// that are known now.
func (s *Set) Checked() (whole int, waiting []Waiting, refused []Refused) {
	if !s.generated() {
		return len(s.policies), nil, nil
	}
	known := toolsByID{}
	for _, t := range s.current() {
		known[qualified(t.Server, t.Name)] = t
		told := map[*policy]bool{}
		for _, m := range s.checked(t).misfits {
			if !told[m.policy] && len(refused) < maxTold {
				told[m.policy] = true
				refused = append(refused, m.refusal(t))
			}
		}
	}
	for _, p := range s.policies {
		tools := p.waitsFor(known)
		if len(tools) == 0 {
			whole++
		} else if len(waiting) < maxTold {
			waiting = append(waiting, Waiting{Policy: p.id, Place: p.place, Tools: tools})
		}
	}
	return whole, waiting, refused
}

func (m *misfit) refusal(t *shape.Tool) Refused {
	id := qualified(t.Server, t.Name)
	return Refused{Tool: id, Policy: m.policy.id, Place: m.finding.place, Reason: m.finding.message(shown(id))}
}

// waitsFor lists the tools that the policy is about by name and that are not
// known.
func (p *policy) waitsFor(known toolsByID) []string {
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

// Check looks at a tool that a server has listed, and returns the policies that
// don't fit it: calls of it are refused. Whoever calls it early spares the first
// call of the tool some time.
func (s *Set) Check(t *shape.Tool) []Refused {
	if !s.generated() || !s.reaches(t) {
		return nil
	}
	var all []Refused
	for _, m := range s.checked(t).misfits {
		all = append(all, m.refusal(t))
	}
	return all
}
