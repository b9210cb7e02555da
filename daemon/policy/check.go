package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/shape"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// checkGenerated checks the policies when they are loaded: against every method
// that their scope covers, against every tool that is listed, and, where they are
// about tools in general, against a tool of which nothing is known. A tool that is
// named and not listed has no schema: nothing is known of its arguments.
func (l *loader) checkGenerated() {
	listed := toolsByID{}
	misfits := map[*policy]*report{}
	for _, t := range l.current() {
		id := qualified(t.Server, t.Name)
		listed[id] = t
		for _, m := range l.checked(t).misfits {
			if misfits[m.policy] == nil {
				misfits[m.policy] = &report{policy: m.policy}
			}
			misfits[m.policy].add(m.finding, id)
		}
	}
	severity := config.Error
	if l.digest == l.standing {
		severity = config.Warning
	}
	near := newNeighbours(listed)
	for _, p := range l.policies {
		r := &report{policy: p}
		for _, c := range l.callTypes(p, listed) {
			for _, f := range p.check(c) {
				r.add(f, c.name)
			}
		}
		ofTools := misfits[p]
		if ofTools == nil {
			ofTools = &report{policy: p}
		}
		p.checkHas(r, ofTools, listed)
		p.checkFacts(r)
		r.tell(l, config.Error)
		ofTools.without(r)
		ofTools.tell(l, severity)
		l.unlisted(p, near)
	}
}

// toolsByID are the tools that are listed, by server/tool.
type toolsByID map[string]*shape.Tool

// callTypes lists the types of call that p covers, but for those of tools whose
// schema is known. It reports a scope that covers none at all.
func (l *loader) callTypes(p *policy, listed toolsByID) []*callType {
	ids, open := p.toolsNamed()
	var all []*callType
	if open && p.covers(anyTool) {
		all = append(all, anyTool)
	}
	for _, c := range methodCalls {
		if p.covers(c) {
			all = append(all, c)
		}
	}
	possible := len(all) > 0
	for _, id := range ids {
		server, tool, ok := unqualified(id)
		if !ok {
			continue
		}
		if t := listed[id]; t != nil && t.Takes != nil {
			possible = possible || p.covers(callOf(server, tool, t.Takes))
			continue
		}
		c := callOf(server, tool, nil)
		c.present = true
		if !p.covers(c) { // a method that nobody knows is written like a tool
			c = &callType{name: id, action: actionOf(id), principal: typeAgent, resource: typeMethod, present: true, groups: callGroups}
		}
		if p.covers(c) {
			possible, all = true, append(all, c)
		}
	}
	if !possible {
		l.report(p.place, config.Error, "", p.whyImpossible(), "no call can match the scope of the policy")
	}
	return all
}

// whyImpossible says what may be wrong with a scope that covers no calls.
func (p *policy) whyImpossible() string {
	for _, uid := range named(p.scope.Action) {
		_, isEq := p.scope.Action.(ast.ScopeTypeEq)
		switch _, _, ok := unqualified(string(uid.ID)); {
		case isEq && (uid == actionCall || uid == actionTools):
			return fmt.Sprintf("%s is a group: write `action in %s`", uid, uid)
		case uid != (cedar.EntityUID{}) && !ok:
			if near := config.Nearest(string(uid.ID), knownActions()); near != "" {
				return fmt.Sprintf("did you mean %s?", actionOf(near))
			}
			return "an action is a tool, as server/tool, or a method"
		}
	}
	return "its principal, action and resource don't go together"
}

// checkHas reports members that p tests for and that no call has: the condition
// never holds, which is valid Cedar, and a forbid that never holds is worse than
// one that fails. Arguments are looked for where p names all its tools and they are
// listed; what is wrong with them is added to ofTools.
func (p *policy) checkHas(r, ofTools *report, listed toolsByID) {
	if p.reading.body == nil {
		return
	}
	for _, at := range refs(p.reading.body) {
		switch {
		case !at.has || at.root != "context":
		case at.inArguments():
			var known []string
			lacking := p.withoutArgument(at, listed)
			for _, c := range lacking {
				known = append(known, c.members(at.root, at.path[:len(at.path)-1])...)
			}
			for _, c := range lacking {
				f := c.noMember(at)
				f.place, f.hint = p.find(at), meant(at.path[len(at.path)-1], known)
				ofTools.add(f, c.name)
			}
		case !inContext(at.path):
			f := anyTool.noMember(at)
			f.place = p.find(at)
			r.add(f, anyTool.name)
		}
	}
}

// inContext reports whether the context can have a member at path, which leads to
// none of the arguments.
func inContext(path []string) bool {
	if len(path) == 1 {
		return memberNames[cedar.String(path[0])] != 0
	}
	r, closed := contextShape[types.String(path[0])].Type.(resolved.RecordType)
	if !closed || path[0] == "annotations" || len(path) > 2 {
		return true // a server may claim more than is known, and no more levels are
	}
	return r[types.String(path[1])].Type != nil
}

// withoutArgument lists the tools that p names if they are listed, and none of them
// has the argument.
func (p *policy) withoutArgument(at ref, listed toolsByID) []*callType {
	ids, open := p.toolsNamed()
	var all []*callType
	for _, id := range ids {
		t := listed[id]
		if open || t == nil || t.Takes == nil {
			return nil
		}
		s := t.Takes
		for i, name := range at.path[1:] {
			m, ok := s.Member(name)
			noList := ok && at.path[0] == "lists" && !slices.Contains([]shape.Kind{shape.List, shape.Object, shape.Any}, m.Shape.Kind)
			if i == len(at.path)-2 && s.Kind == shape.Object && (!ok || noList) {
				all = append(all, callOf(t.Server, t.Name, t.Takes))
			} else if s = m.Shape; s == nil {
				break
			}
		}
	}
	if len(all) < len(ids) {
		return nil
	}
	return all
}

// checkFacts reports names of facts that there are not.
func (p *policy) checkFacts(r *report) {
	if p.reading.body == nil {
		return
	}
	ast.Inspect(ast.NewNode(p.reading.body), func(n ast.IsNode) bool {
		for _, name := range factsIn(n) {
			if !slices.Contains(config.Facts(), name) {
				r.add(finding{place: p.findWord(`(\z)`, name), text: fmt.Sprintf("there is no fact %q", name), hint: meant(name, config.Facts())}, "")
			}
		}
		return true
	})
}

// factsIn returns the facts that a node looks for.
func factsIn(n ast.IsNode) []string {
	var pair ast.BinaryNode
	switch n := n.(type) {
	case ast.NodeTypeContains:
		pair = n.BinaryNode
	case ast.NodeTypeContainsAll:
		pair = n.BinaryNode
	case ast.NodeTypeContainsAny:
		pair = n.BinaryNode
	default:
		return nil
	}
	if r, ok := refOf(pair.Left); !ok || r.has || r.String() != "context.facts" {
		return nil
	}
	nodes := []ast.IsNode{pair.Right}
	if set, ok := pair.Right.(ast.NodeTypeSet); ok {
		nodes = set.Elements
	}
	var names []string
	for _, node := range nodes {
		if v, ok := node.(ast.NodeValue); ok {
			if name, ok := v.Value.(types.String); ok {
				names = append(names, string(name))
			}
		}
	}
	return names
}

func knownActions() []string {
	return append(slices.Concat(mcp.Methods(wire.FromAgent), mcp.Methods(wire.FromServer)), string(actionCall.ID))
}

// unlisted warns of names that no list has shown and that look like another.
func (l *loader) unlisted(p *policy, near *neighbours) {
	ids, _ := p.toolsNamed()
	for _, uid := range p.reading.actions {
		if uid != actionCall && uid != actionTools {
			ids = append(ids, string(uid.ID))
		}
	}
	for _, id := range ids {
		server, tool, ok := unqualified(id)
		if !ok || near.listed[id] != nil || isMethod(id) {
			continue
		}
		if tools := near.tools[server]; tools != nil {
			if near := config.Nearest(tool, tools); near != "" {
				l.report(p.place, config.Warning, "", fmt.Sprintf("did you mean %s?", actionOf(qualified(server, near))), "server %s has listed no tool %q", shown(server), tool)
			}
			continue
		}
		if method := near.method(server, id); method != "" {
			l.report(p.place, config.Warning, "", fmt.Sprintf("did you mean %s?", actionOf(method)), "there is no method %q, and no server has listed such a tool", id)
		}
	}
}

// neighbours are the names that a slip can be near to.
type neighbours struct {
	listed  toolsByID
	tools   map[string][]string // names by server, in order
	methods map[string]bool     // first parts of names that are near to that of a method
}

func newNeighbours(listed toolsByID) *neighbours {
	n := &neighbours{listed: listed, tools: map[string][]string{}, methods: map[string]bool{}}
	for _, id := range sortedKeys(listed) {
		t := listed[id]
		n.tools[t.Server] = append(n.tools[t.Server], t.Name)
	}
	return n
}

// method returns the method that is near to an id, which begins with the name
// of a server.
func (n *neighbours) method(server, id string) string {
	near, known := n.methods[server]
	if !known {
		var first []string
		for _, method := range knownActions() {
			part, _, _ := strings.Cut(method, "/")
			first = append(first, part)
		}
		near = config.Nearest(server, first) != ""
		n.methods[server] = near
	}
	if !near {
		return ""
	}
	return config.Nearest(id, knownActions())
}

// report collects the findings on one policy. What holds of many calls is said
// once.
type report struct {
	policy *policy
	found  []finding
	about  map[finding][]string
}

func (r *report) add(f finding, about string) {
	if r.about == nil {
		r.about = map[finding][]string{}
	}
	if r.about[f] == nil {
		r.found = append(r.found, f)
	}
	if !slices.Contains(r.about[f], about) {
		r.about[f] = append(r.about[f], about)
	}
}

// without takes out what is at a place of which other has told something.
func (r *report) without(other *report) {
	r.found = slices.DeleteFunc(r.found, func(f finding) bool {
		return slices.ContainsFunc(other.found, func(o finding) bool { return o.place == f.place })
	})
}

func (r *report) tell(l *loader, severity config.Severity) {
	_, open := r.policy.toolsNamed()
	for _, f := range r.found {
		about, first := r.about[f], r.about[f][0]
		subject := shown(first)
		if first == "a tool" {
			subject = first
		}
		if n := len(about) - 1; n > 0 && f.how != alone {
			subject += fmt.Sprintf(" (and %d more)", n)
		}
		hint := f.hint
		if hint == "" && open && strings.Contains(first, "/") && !isMethod(first) {
			hint = fmt.Sprintf("`!(action in %s) && ...` leaves it out", actionOf(first))
		}
		l.report(f.place, severity, "", hint, "%s", f.message(subject))
	}
}

// checkNames refuses entity types that no call has. A forbid over
// Action::"tools/call", the namespace forgotten, would never match, and nobody
// would notice.
func (l *loader) checkNames(p *policy) {
	tree := (*ast.Policy)(p.cedar.AST())
	l.checkScope(p, "principal", typesInScope(tree.Principal), []cedar.EntityType{typeAgent, typeSession, typeUser, typeServer})
	l.checkScope(p, "action", typesInScope(tree.Action), []cedar.EntityType{typeAction})
	l.checkScope(p, "resource", typesInScope(tree.Resource), entityTypes)
	for _, cond := range tree.Conditions {
		ast.Inspect(ast.NewNode(cond.Body), func(n ast.IsNode) bool {
			l.checkScope(p, "", typesInNode(n), entityTypes)
			return true
		})
	}
}

// checkScope reports the types in found that are not known in a part of a
// policy: principal, action or resource, or nothing for its conditions.
func (l *loader) checkScope(p *policy, part string, found, known []cedar.EntityType) {
	for _, name := range found {
		if slices.Contains(known, name) {
			continue
		}
		words := make([]string, len(known))
		for i, k := range known {
			words[i] = strings.TrimPrefix(string(k), namespace)
		}
		hint := ""
		if near := config.Nearest(strings.TrimPrefix(string(name), namespace), words); near != "" {
			hint = fmt.Sprintf("did you mean %s%s?", namespace, near)
		}
		if part == "" {
			l.report(p.place, config.Error, "", hint, "no call has an entity of type %s", name)
		} else {
			l.report(p.place, config.Error, "", hint, "no call has an entity of type %s as its %s", name, part)
		}
	}
}

func typesInScope(scope ast.IsScopeNode) []cedar.EntityType {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return []cedar.EntityType{s.Entity.Type}
	case ast.ScopeTypeIn:
		return []cedar.EntityType{s.Entity.Type}
	case ast.ScopeTypeIs:
		return []cedar.EntityType{s.Type}
	case ast.ScopeTypeIsIn:
		return []cedar.EntityType{s.Type, s.Entity.Type}
	case ast.ScopeTypeInSet:
		var found []cedar.EntityType
		for _, e := range s.Entities {
			found = append(found, e.Type)
		}
		return found
	}
	return nil
}

func typesInNode(n ast.IsNode) []cedar.EntityType {
	switch n := n.(type) {
	case ast.NodeTypeIs:
		return []cedar.EntityType{n.EntityType}
	case ast.NodeTypeIsIn:
		return []cedar.EntityType{n.EntityType}
	case ast.NodeValue:
		if uid, ok := n.Value.(types.EntityUID); ok {
			return []cedar.EntityType{uid.Type}
		}
	}
	return nil
}
