package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// access describes what a policy reads of a record: some of its members and, of these, some of
// their members, or the record as a whole.
type access struct {
	members map[string]*access
	order   []string // the names of the members, sorted
	whole   bool
}

// at returns what is read of a member, or nil if the member is not read. a may be nil.
func (a *access) at(name string) *access {
	if a == nil {
		return nil
	}
	return a.members[name]
}

// names returns the members that are read, sorted. a may be nil.
func (a *access) names() []string {
	if a == nil {
		return nil
	}
	return a.order
}

// add adds a path of members and returns the access at its end.
func (a *access) add(path []string) *access {
	for _, name := range path {
		next := a.members[name]
		if next == nil {
			next = &access{}
			if a.members == nil {
				a.members = map[string]*access{}
			}
			a.members[name] = next
			i, _ := slices.BinarySearch(a.order, name)
			a.order = slices.Insert(a.order, i, name)
		}
		a = next
	}
	return a
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// ref is a reference to a member by its path from a variable, such as context.arguments.amount.
type ref struct {
	root string // principal, action, resource or context
	path []string
	has  bool // tests whether the last member is present
	node ast.IsNode
}

func (r ref) String() string { return strings.Join(append([]string{r.root}, r.path...), ".") }

// inArguments reports whether r leads into the arguments.
func (r ref) inArguments() bool {
	return r.root == "context" && len(r.path) > 1 && (r.path[0] == "arguments" || r.path[0] == "lists")
}

// refOf returns n as a reference. ok is false if n is not one.
func refOf(n ast.IsNode) (r ref, ok bool) {
	defer func() { r.node = n }()
	switch n := n.(type) {
	case ast.NodeTypeVariable:
		return ref{root: string(n.Name)}, true
	case ast.NodeTypeAccess:
		if r, ok = refOf(n.Arg); ok {
			r.path = append(slices.Clip(r.path), string(n.Value))
		}
		return r, ok
	case ast.NodeTypeHas:
		if r, ok = refOf(n.Arg); ok {
			r.path, r.has = append(slices.Clip(r.path), string(n.Value)), true
		}
		return r, ok
	}
	return ref{}, false
}

// refs returns the references in n, outermost first. For context.arguments.amount it returns
// context.arguments.amount and context.arguments.
func refs(n ast.IsNode) []ref {
	var all []ref
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		switch n.(type) {
		case ast.NodeTypeAccess, ast.NodeTypeHas:
			if r, ok := refOf(n); ok {
				all = append(all, r)
			}
		}
		return true
	})
	return all
}

// outermost returns the references in n that are not part of another one.
func outermost(n ast.IsNode) []ref {
	var all []ref
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		r, ok := refOf(n)
		if ok {
			all = append(all, r)
		}
		return !ok
	})
	return all
}

// reading describes what the conditions of a policy read.
type reading struct {
	body       ast.IsNode                // all conditions as one expression; nil if there are none
	context    access                    // members of the context
	actions    []cedar.EntityUID         // actions that they name
	attributes map[cedar.String]bool     // attributes of entities
	types      map[cedar.EntityType]bool // types of entities that they name
}

func read(conditions []ast.ConditionType) reading {
	r := reading{attributes: map[cedar.String]bool{}, types: map[cedar.EntityType]bool{}}
	for _, c := range conditions {
		body := c.Body
		if c.Condition == ast.ConditionUnless {
			body = ast.NodeTypeNot{UnaryNode: ast.UnaryNode{Arg: body}}
		}
		r.body = and(r.body, body)
	}
	if r.body == nil {
		return r
	}
	ast.Inspect(ast.NewNode(r.body), func(n ast.IsNode) bool {
		for _, t := range typesInNode(n) {
			r.types[t] = true
		}
		switch n := n.(type) {
		case ast.NodeTypeAccess:
			return r.member(n, n.Value)
		case ast.NodeTypeHas:
			return r.member(n, n.Value)
		case ast.NodeTypeVariable:
			return r.member(n, "")
		case ast.NodeValue:
			if uid, ok := n.Value.(cedar.EntityUID); ok && uid.Type == typeAction {
				r.actions = append(r.actions, uid)
			}
		}
		return true
	})
	return r
}

// member records a node that names a member or a variable. It reports whether the nodes below
// must be visited.
func (r *reading) member(n ast.IsNode, name cedar.String) bool {
	is, ok := refOf(n)
	switch {
	case !ok:
		r.attributes[name] = true
	case is.root == "context":
		at := r.context.add(is.path)
		at.whole = at.whole || !is.has
	default:
		for _, name := range is.path {
			r.attributes[cedar.String(name)] = true
		}
	}
	return !ok
}

// and joins two conditions. left may be nil.
func and(left, right ast.IsNode) ast.IsNode {
	if left == nil {
		return right
	}
	return ast.NodeTypeAnd{BinaryNode: ast.BinaryNode{Left: left, Right: right}}
}

// arguments returns what is read of the arguments, through context.arguments and context.lists.
func (r *reading) arguments() []*access {
	if r.context.whole {
		return []*access{{whole: true}}
	}
	var all []*access
	for _, name := range []string{"arguments", "lists"} {
		if a := r.context.at(name); a != nil {
			all = append(all, a)
		}
	}
	return all
}

// uses returns the members of the context that are read.
func (r *reading) uses() members {
	var used members
	if r.context.whole {
		used = useAll
	}
	for _, name := range r.context.names() {
		used |= memberNames[cedar.String(name)]
	}
	if r.attributes[attributeHash] {
		used |= useHash
	}
	return used
}
