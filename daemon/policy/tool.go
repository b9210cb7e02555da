package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// Tools holds what servers have listed. Its methods must be safe for concurrent use. A call waits
// while Tool runs.
type Tools interface {
	// Tool returns a tool, or nil if it has not been listed.
	Tool(server, launch, name string) *shape.Tool
	// Listings returns all listings, in any order.
	Listings() []shape.Listing
}

// WithTools sets what servers have listed. Policies are checked against it, and arguments get the
// types that the servers' schemas declare.
func WithTools(t Tools) Option {
	return func(s *Set) { s.tools = t }
}

// WithStanding sets the Digest of the set that is in force, or that was in force when the daemon
// stopped. If that set is loaded, tools that do not fit its policies yield warnings instead of
// errors: they have been listed since, and a server must not be able to invalidate a set by its
// listing. Calls of these tools are still denied.
func WithStanding(digest string) Option {
	return func(s *Set) { s.standing = digest }
}

type noTools struct{}

func (noTools) Tool(string, string, string) *shape.Tool { return nil }
func (noTools) Listings() []shape.Listing               { return nil }

// ownTools are the tools of agents' own, by name. No server lists them.
var ownTools = makeOwnTools()

func makeOwnTools() map[string]*shape.Tool {
	all := map[string]*shape.Tool{}
	for name, texts := range agenthook.Texts {
		takes := &shape.Shape{Kind: shape.Object, Rest: &shape.Shape{}}
		for _, text := range texts {
			takes.Members = append(takes.Members, shape.Member{Name: text, Shape: &shape.Shape{Kind: shape.Text}})
		}
		all[name] = &shape.Tool{Server: agenthook.Server, Name: name, Takes: takes}
	}
	return all
}

// toolKey identifies a tool of a server under one launch.
type toolKey struct{ server, launch, name string }

// misfit is a finding of the check of a policy against a tool.
type misfit struct {
	policy  *policy
	finding finding
}

// checkedTool is a tool with the result of its check.
type checkedTool struct {
	tool    *shape.Tool
	misfits []misfit
}

// checkedTools caches a checkedTool by toolKey.
type checkedTools struct{ sync.Map }

// checked returns the result of the check of t. If t has not been checked yet, it is checked now,
// which takes some microseconds for each policy that may apply to it.
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

// misfits checks the policies that may apply to a tool against it.
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

// toolShape returns the shape of a tool's arguments, or nil if it is unknown. It fails if a
// policy that may apply to the tool does not fit it, because the result of that policy would be
// unreliable.
func (s *Set) toolShape(server, launch, name string) (*shape.Shape, error) {
	if !s.generated() {
		return nil, nil
	}
	t := ownTools[name]
	if server != agenthook.Server {
		if t = s.tools.Tool(server, launch, name); t == nil && launch == "" {
			t = s.lastListed(server, name)
		}
	}
	if t == nil || t.Takes == nil {
		return nil, nil
	}
	if c := s.checked(t); len(c.misfits) > 0 {
		m := c.misfits[0]
		return nil, fmt.Errorf("policy %s does not fit the tool: %s", m.policy.title(), m.finding.message(printable(qualified(server, name))))
	}
	return t.Takes, nil
}

// lastListed returns a tool as the server listed it last, under any launch. It serves calls that
// are only explained or tested: a shim always has a launch.
func (s *Set) lastListed(server, name string) *shape.Tool {
	var last shape.Listing
	for _, l := range s.tools.Listings() {
		if l.Server == server && (last.Tools == nil || l.Listed.After(last.Listed)) {
			last = l
		}
	}
	for _, t := range last.Tools {
		if t.Name == name && s.reachable(t) {
			return t
		}
	}
	return nil
}

// generated reports whether policies are checked against what servers list.
func (s *Set) generated() bool { return s.cfg.Cedar.Schema == config.SchemaGenerated }

// currentTools returns the tools against which policies are checked when a set is loaded: those
// that each server listed last, and those of agents' own, if a call can reach them. Calls of other launches, and of tools
// that are listed later, are denied if a policy does not fit.
func (s *Set) currentTools() []*shape.Tool {
	last := map[string]shape.Listing{}
	for _, l := range s.tools.Listings() {
		if before, ok := last[l.Server]; !ok || l.Listed.After(before.Listed) {
			last[l.Server] = l
		}
	}
	last[agenthook.Server] = shape.Listing{Tools: slices.Collect(maps.Values(ownTools))}
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

// reachable reports whether policies can be evaluated for some call of t: t is not hidden, and no
// rule denies it whatever the agent and the facts are.
func (s *Set) reachable(t *shape.Tool) bool {
	if source := s.cfg.Source(t.Server); source != nil && (!source.Enabled || !exposed(context.Background(), &source.Expose, typeTool, []string{t.Name})) {
		return false
	}
	sub := &subject{class: classAct, method: "tools/call", kind: typeTool, server: t.Server}
	for i := range s.rules {
		r, sometimes := s.rules[i].withoutAgentAndFacts()
		switch {
		case !r.matches(sub, t.Name, nil):
		case r.action != config.Deny:
			return true
		case !sometimes:
			return false
		}
	}
	return s.defaults.action != config.Deny
}

// withoutAgentAndFacts returns r without its conditions on the agent and on facts, and whether it
// has any: then it matches some calls of a tool and not others. A condition on anything else that
// differs between two calls of one tool has to be removed here too.
func (r *rule) withoutAgentAndFacts() (_ *rule, sometimes bool) {
	c := *r.Rule
	c.When, c.Agent = nil, nil
	return &rule{Rule: &c, action: r.action}, len(r.When) > 0 || len(r.Agent) > 0
}

// Waiting is a policy that could not be checked completely, because it names tools with unknown
// schemas. It is in force and is checked when they are listed.
type Waiting struct {
	Policy string
	Place  config.Place
	Tools  []string // as server/tool, with the fault of an unreadable schema
}

// Refused is a tool whose calls are denied because a policy does not fit it.
type Refused struct {
	Tool   string // as server/tool
	Policy string
	Place  config.Place // in the policy
	Reason string
}

// maxReported is the maximum length of each list that Checked returns.
const maxReported = 100

// Checked reports how far the policies have been checked against the current tools. whole is the
// number of policies that were checked completely, waiting lists those that wait for tools to be
// listed, and refused lists the tools whose calls are denied.
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

// toolsNotListed returns the tools that the policy names and whose schema is unknown.
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

// Check checks the policies against a tool that a server has listed, and returns those that do
// not fit; calls of the tool are then denied. Calling Check early saves time in the first call of
// the tool.
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
