package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/shape"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A policy is checked when it is loaded: in the situation of every method that
// its scope lets in, against every tool that is known, and, when it is about
// tools in general, against a tool of which nothing is known. A tool that it
// names and that no list has shown has no schema; the policy waits for it.

// checkGenerated holds the policies to the schema that the servers' own lists
// come to.
func (l *loader) checkGenerated() {
	listed := toolsByID{}
	misfits := map[*policy]*report{}
	for _, t := range l.current() {
		listed[qualified(t.Server, t.Name)] = t
		for _, m := range l.checked(t).misfits {
			if misfits[m.policy] == nil {
				misfits[m.policy] = &report{policy: m.policy}
			}
			misfits[m.policy].add(m.finding, qualified(t.Server, t.Name))
		}
	}
	severity := config.Error
	if l.digest == l.standing {
		severity = config.Warning
	}
	near := newNeighbours(listed)
	for _, p := range l.policies {
		r := &report{policy: p}
		for _, s := range l.situations(p, listed) {
			for _, f := range p.examine(&s) {
				r.add(f, s.about())
			}
		}
		m := misfits[p]
		if m == nil {
			m = &report{policy: p}
		}
		l.checkSlips(p, r, m, listed)
		r.tell(l, config.Error)
		m.without(r)
		m.tell(l, severity)
		l.unlisted(p, near)
	}
}

// toolsByID are the tools that are known, by server/tool.
type toolsByID map[string]*shape.Tool

// shape is what a tool takes, nil where that isn't known.
func (ts toolsByID) shape(id string) *shape.Shape {
	if t := ts[id]; t != nil {
		return t.Takes
	}
	return nil
}

// situations lists those that a policy can meet, but for tools that are listed.
// It reports a scope that lets nothing in.
func (l *loader) situations(p *policy, listed toolsByID) []situation {
	var all []situation
	for i := range methodSituations {
		if s := &methodSituations[i]; p.head.lets(s) {
			all = append(all, *s)
		}
	}
	ids, open := p.head.toolsNamed()
	anyTool := situation{action: actionOf(neutral), principal: typeAgent, resource: typeTool, isTool: true, server: p.head.serverNamed()}
	if open && p.head.lets(&anyTool) {
		all = slices.Insert(all, 0, anyTool)
	}
	possible := len(all) > 0
	for _, id := range ids {
		for _, s := range possibly(id, listed.shape(id) != nil) {
			if !p.head.lets(&s) {
				continue
			}
			possible = true
			if listed.shape(id) == nil {
				all = append(all, s)
			}
			break // a method that nobody knows looks like a tool
		}
	}
	if !possible {
		l.report(p.place, config.Error, "", l.whyImpossible(p), "no call can match the scope of the policy")
	}
	return all
}

// possibly lists the situations that an action's id can stand for which is no
// known method: a tool, or where no list has shown it a method that nobody knows.
func possibly(id string, listed bool) []situation {
	server, tool, ok := unqualified(id)
	if !ok {
		return nil
	}
	s := toolSituation(server, tool, nil)
	s.sure = true
	if listed {
		return []situation{s}
	}
	return []situation{s, {action: s.action, principal: typeAgent, resource: typeMethod, sure: true}}
}

// whyImpossible says what may be wrong with a scope that lets nothing in.
func (l *loader) whyImpossible(p *policy) string {
	for _, uid := range named(p.head.action) {
		_, isEq := p.head.action.(ast.ScopeTypeEq)
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

func knownActions() []string {
	return append(slices.Concat(mcp.Methods(wire.FromAgent), mcp.Methods(wire.FromServer)), string(actionCall.ID))
}

// unlisted warns of names that no list has shown and that look like another.
func (l *loader) unlisted(p *policy, near *neighbours) {
	ids, _ := p.head.toolsNamed()
	for _, id := range append(ids, idsIn(p.reading.actions)...) {
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

func idsIn(uids []cedar.EntityUID) []string {
	var ids []string
	for _, uid := range uids {
		if uid != actionCall && uid != actionTools {
			ids = append(ids, string(uid.ID))
		}
	}
	return ids
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
	_, open := r.policy.head.toolsNamed()
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
		l.report(f.place, severity, "", hint, "%s", f.say(subject))
	}
}
