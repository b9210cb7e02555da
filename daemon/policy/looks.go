package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// looks is what a policy looks at in a record: its members, and what it looks
// at in these; or the record as a whole.
type looks struct {
	members map[string]*looks
	order   []string // the names of the members, sorted
	whole   bool
}

// at is what the policy looks at in a member, nil where it doesn't. l may be nil.
func (l *looks) at(name string) *looks {
	if l == nil {
		return nil
	}
	return l.members[name]
}

// names lists the members that are looked at, in order. l may be nil.
func (l *looks) names() []string {
	if l == nil {
		return nil
	}
	return l.order
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// look goes down a path and returns what is at its end.
func (l *looks) look(path []string) *looks {
	for _, name := range path {
		next := l.members[name]
		if next == nil {
			next = &looks{}
			if l.members == nil {
				l.members = map[string]*looks{}
			}
			l.members[name] = next
			at, _ := slices.BinarySearch(l.order, name)
			l.order = slices.Insert(l.order, at, name)
		}
		l = next
	}
	return l
}

// chain is a path from one of the variables, as context.arguments.amount.
type chain struct {
	root string // principal, action, resource, context
	path []string
	has  bool // it is asked whether the last member is there
}

func (c chain) String() string { return strings.Join(append([]string{c.root}, c.path...), ".") }

// chainOf returns the chain that a node is, if it is one.
func chainOf(n ast.IsNode) (c chain, ok bool) {
	switch n := n.(type) {
	case ast.NodeTypeVariable:
		return chain{root: string(n.Name)}, true
	case ast.NodeTypeAccess:
		if c, ok = chainOf(n.Arg); ok {
			c.path = append(slices.Clip(c.path), string(n.Value))
		}
		return c, ok
	case ast.NodeTypeHas:
		if c, ok = chainOf(n.Arg); ok {
			c.path, c.has = append(slices.Clip(c.path), string(n.Value)), true
		}
		return c, ok
	}
	return chain{}, false
}

// chains lists every member that an expression looks at or asks for, outermost
// first: of context.arguments.amount it lists context.arguments.amount and
// context.arguments. Chains beside each other are in the order in which they are
// written.
func chains(n ast.IsNode) []chain {
	var all []chain
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		switch n.(type) {
		case ast.NodeTypeAccess, ast.NodeTypeHas:
			if c, ok := chainOf(n); ok {
				all = append(all, c)
			}
		}
		return true
	})
	return all
}

// reading is what there is to know of a policy's conditions before they are
// checked.
type reading struct {
	body    ast.IsNode        // all conditions as one expression, nil without any
	context looks             // what they look at
	actions []cedar.EntityUID // that they name
	action  bool              // they look at the action
}

func read(conditions []ast.ConditionType) reading {
	var r reading
	for _, c := range conditions {
		body := c.Body
		if c.Condition == ast.ConditionUnless {
			body = ast.NodeTypeNot{UnaryNode: ast.UnaryNode{Arg: body}}
		}
		if r.body == nil {
			r.body = body
		} else {
			r.body = ast.NodeTypeAnd{BinaryNode: ast.BinaryNode{Left: r.body, Right: body}}
		}
	}
	if r.body == nil {
		return r
	}
	ast.Inspect(ast.NewNode(r.body), func(n ast.IsNode) bool {
		switch n := n.(type) {
		case ast.NodeTypeAccess, ast.NodeTypeHas, ast.NodeTypeVariable:
			c, ok := chainOf(n)
			if !ok {
				return true
			}
			switch {
			case c.root == "action":
				r.action = true
			case c.root == "context" && c.has:
				r.context.look(c.path)
			case c.root == "context":
				r.context.look(c.path).whole = true
			}
			return false
		case ast.NodeValue:
			if uid, ok := n.Value.(cedar.EntityUID); ok && uid.Type == typeAction {
				r.actions = append(r.actions, uid)
			}
		}
		return true
	})
	return r
}
