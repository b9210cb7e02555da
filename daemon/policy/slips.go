package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// Some slips are valid Cedar: to ask whether a member is there that can't be,
// or for a fact that nobody finds. Such a condition never holds, and a forbid
// that never holds is worse than one that fails.

// checkSlips adds to r the names that a policy asks for in vain, and to ofTools
// the arguments among them.
func (l *loader) checkSlips(p *policy, r, ofTools *report, listed toolsByID) {
	if p.reading.body == nil {
		return
	}
	at := newLocator(p.place.File, p.text, p.place, p.cedar.Position().Offset)
	count := map[string]int{}
	for _, c := range chains(p.reading.body) {
		key := c.String()
		if c.has {
			key += "?"
		}
		count[key]++
		if !c.has || c.root != "context" {
			continue
		}
		if f, ok := askedInVain(p, c); ok {
			f.place = at.place(c, count[key]-1)
			r.add(f, "")
		}
		if f, ok := noSuchArgument(p, c, listed); ok {
			f.place = at.place(c, count[key]-1)
			ofTools.add(f, "")
		}
	}
	facts := chain{root: "context", path: []string{"facts"}}
	n := 0
	ast.Inspect(ast.NewNode(p.reading.body), func(node ast.IsNode) bool {
		if c, ok := chainOf(node); ok && !c.has && c.String() == facts.String() {
			n++
		}
		for _, name := range factsIn(node) {
			if !slices.Contains(config.Facts(), name) {
				r.add(finding{place: at.place(facts, n), text: fmt.Sprintf("there is no fact %q", name), hint: meant(name, config.Facts())}, "")
			}
		}
		return true
	})
}

// ofArguments reports whether a chain leads into the arguments.
func (c chain) ofArguments() bool {
	return c.root == "context" && (c.path[0] == "arguments" || c.path[0] == "lists")
}

// askedInVain returns what is wrong with asking for the member at the end of c,
// which is none of the arguments.
func askedInVain(p *policy, c chain) (finding, bool) {
	if c.ofArguments() {
		return finding{}, false
	}
	name, parent := c.path[len(c.path)-1], c.path[:len(c.path)-1]
	r := contextShape
	for _, step := range parent {
		next, ok := r[types.String(step)].Type.(resolved.RecordType)
		if !ok {
			return finding{}, false
		}
		r = next
	}
	if _, ok := r[types.String(name)]; ok || c.path[0] == "inputResponses" || c.path[0] == "params" || len(parent) > 0 && parent[0] == "annotations" {
		return finding{}, false
	}
	t := trial{reading: &p.reading, situation: &situation{action: actionCall, principal: typeAgent, resource: typeMethod}}
	return t.unknownMember(c), true
}

// noSuchArgument is for policies that name all the tools they are about: one
// that is about others too may ask for whatever one of them has.
func noSuchArgument(p *policy, c chain, listed toolsByID) (f finding, ok bool) {
	ids, open := p.head.toolsNamed()
	if open || !c.ofArguments() || len(c.path) == 1 {
		return f, false
	}
	var names []string
	for _, id := range ids {
		tool := listed[id]
		if tool == nil || tool.Takes == nil {
			return f, false
		}
		s := toolSituation(tool.Server, tool.Name, tool.Takes)
		t := trial{reading: &p.reading, situation: &s}
		if !t.lacks(c) {
			return f, false
		}
		f = t.unknownMember(c)
		names = append(names, t.namesAt(c.path[1:len(c.path)-1])...)
	}
	if len(ids) > 1 {
		slices.Sort(names)
		f.text, f.hint = strings.Replace(f.text, "has", "have", 1), meant(c.path[len(c.path)-1], slices.Compact(names))
	}
	f.text, f.how = strings.Join(ids, " and ")+" "+f.text, alone
	return f, len(ids) > 0
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
	if c, ok := chainOf(pair.Left); !ok || c.has || c.root != "context" || !slices.Equal(c.path, []string{"facts"}) {
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
