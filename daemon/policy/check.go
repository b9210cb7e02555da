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

// checkGenerated checks the loaded policies against the calls that their scopes cover: calls of
// methods, of listed tools, of tools that the scope names but that are not listed and, if the
// scope is open, of any tool. In the latter two cases nothing is known about the arguments.
func (l *loader) checkGenerated() {
	listed := toolsByID{}
	misfits := map[*policy]*policyFindings{}
	for _, p := range l.policies {
		misfits[p] = &policyFindings{policy: p}
	}
	for _, t := range l.currentTools() {
		id := qualified(t.Server, t.Name)
		listed[id] = t
		for _, m := range l.checked(t).misfits {
			misfits[m.policy].add(m.finding, id)
		}
	}
	severity := config.Error
	if l.digest == l.standing || l.bundle != nil { // a server must not keep a fleet's policy out of force
		severity = config.Warning
	}
	near := newNeighbours(listed)
	for _, p := range l.policies {
		r, ofTools := &policyFindings{policy: p}, misfits[p]
		for _, c := range l.callTypes(p, listed) {
			for _, f := range p.check(c) {
				r.add(f, c.name)
			}
		}
		p.checkHas(r, ofTools, listed)
		p.checkFacts(r)
		r.reportTo(l, config.Error)
		ofTools.dropPlacesOf(r)
		ofTools.reportTo(l, severity)
		l.warnUnlisted(p, near)
	}
}

// toolsByID holds the listed tools by their id, server/tool.
type toolsByID map[string]*shape.Tool

// callTypes returns the call types that p covers, except those of tools with a known schema. It
// reports a scope that covers no calls.
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
		if !p.covers(c) { // the id may be that of an unknown method
			c = &callType{name: id, action: actionOf(id), principal: typeAgent, resource: typeMethod, present: true, groups: callGroups}
		}
		if p.covers(c) {
			possible, all = true, append(all, c)
		}
	}
	if !possible {
		l.report(p.place, config.Error, "", p.whyImpossible(), "no call matches the scope of the policy")
	}
	return all
}

// whyImpossible returns a hint for a scope that covers no calls.
func (p *policy) whyImpossible() string {
	for _, uid := range scopeEntities(p.scope.Action) {
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
	return "its principal, action and resource do not fit together"
}

// checkHas finds tests for members that no call has. Such a condition is valid Cedar and never
// holds, and a forbid that never holds is worse than one that fails. An argument is checked only
// if all tools in the scope of p are named and listed; such a finding is added to ofTools.
func (p *policy) checkHas(r, ofTools *policyFindings, listed toolsByID) {
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

// inContext reports whether the context can have a member at path. path must not lead into the
// arguments.
func inContext(path []string) bool {
	if len(path) == 1 {
		return memberNames[cedar.String(path[0])] != 0
	}
	r, closed := contextShape[types.String(path[0])].Type.(resolved.RecordType)
	if !closed || path[0] == "annotations" || len(path) > 2 {
		return true // annotations may have more members; the validator checks the rest
	}
	return r[types.String(path[1])].Type != nil
}

// withoutArgument returns the tools in the scope of p if all of them are named and listed, and
// none of them has the argument.
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

// checkFacts finds names of facts that don't exist.
func (p *policy) checkFacts(r *policyFindings) {
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

// factsIn returns the names of the facts that a node tests for.
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

// warnUnlisted warns of unknown tools and methods whose name resembles a known one.
func (l *loader) warnUnlisted(p *policy, near *neighbours) {
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
				l.report(p.place, config.Warning, "", fmt.Sprintf("did you mean %s?", actionOf(qualified(server, near))), "server %s has listed no tool %q", printable(server), tool)
			}
			continue
		}
		if method := near.method(server, id); method != "" {
			l.report(p.place, config.Warning, "", fmt.Sprintf("did you mean %s?", actionOf(method)), "there is no method %q, and no server has listed such a tool", id)
		}
	}
}

// neighbours finds similar names of tools and methods.
type neighbours struct {
	listed  toolsByID
	tools   map[string][]string // names by server, in order
	methods map[string]bool     // by server; whether it resembles the first part of a method's name; a cache
}

func newNeighbours(listed toolsByID) *neighbours {
	n := &neighbours{listed: listed, tools: map[string][]string{}, methods: map[string]bool{}}
	for _, id := range sortedKeys(listed) {
		t := listed[id]
		n.tools[t.Server] = append(n.tools[t.Server], t.Name)
	}
	return n
}

// method returns the method whose name resembles id, or "". id begins with server.
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

// policyFindings collects the findings about one policy, with the calls that each concerns.
type policyFindings struct {
	policy *policy
	found  []finding
	about  map[finding][]string
}

func (r *policyFindings) add(f finding, about string) {
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

// dropPlacesOf removes the findings at whose place other has one, too.
func (r *policyFindings) dropPlacesOf(other *policyFindings) {
	r.found = slices.DeleteFunc(r.found, func(f finding) bool {
		return slices.ContainsFunc(other.found, func(o finding) bool { return o.place == f.place })
	})
}

func (r *policyFindings) reportTo(l *loader, severity config.Severity) {
	_, open := r.policy.toolsNamed()
	for _, f := range r.found {
		about, first := r.about[f], r.about[f][0]
		subject := printable(first)
		if first == "a tool" {
			subject = first
		}
		if n := len(about) - 1; n > 0 && f.how != alone {
			subject += fmt.Sprintf(" (and %d more)", n)
		}
		hint := f.hint
		if hint == "" && open && strings.Contains(first, "/") && !isMethod(first) {
			hint = fmt.Sprintf("exclude it with `!(action in %s) && ...`", actionOf(first))
		}
		l.report(f.place, severity, "", hint, "%s", f.message(subject))
	}
}

// checkEntityTypes reports entity types that no call has. A forbid of Action::"tools/call",
// without the namespace, would silently never match.
func (l *loader) checkEntityTypes(p *policy) {
	l.checkTypes(p, " as its principal", typesInScope(p.scope.Principal), []cedar.EntityType{typeAgent, typeSession, typeUser, typeServer})
	l.checkTypes(p, " as its action", typesInScope(p.scope.Action), []cedar.EntityType{typeAction})
	l.checkTypes(p, " as its resource", typesInScope(p.scope.Resource), entityTypes)
	if p.reading.body != nil {
		ast.Inspect(ast.NewNode(p.reading.body), func(n ast.IsNode) bool {
			l.checkTypes(p, "", typesInNode(n), entityTypes)
			return true
		})
	}
}

// checkTypes reports the types in found that are not among known.
func (l *loader) checkTypes(p *policy, part string, found, known []cedar.EntityType) {
	for _, name := range found {
		if slices.Contains(known, name) {
			continue
		}
		bare := each(known, func(t cedar.EntityType) string { return strings.TrimPrefix(string(t), namespace) })
		hint := didYouMean(namespace+"%s", strings.TrimPrefix(string(name), namespace), bare)
		l.report(p.place, config.Error, "", hint, "no call has an entity of type %s%s", name, part)
	}
}

func typesInScope(scope ast.IsScopeNode) []cedar.EntityType {
	var found []cedar.EntityType
	switch s := scope.(type) {
	case ast.ScopeTypeIs:
		found = append(found, s.Type)
	case ast.ScopeTypeIsIn:
		found = append(found, s.Type)
	}
	for _, e := range scopeEntities(scope) {
		if e != (cedar.EntityUID{}) {
			found = append(found, e.Type)
		}
	}
	return found
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
