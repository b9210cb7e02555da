package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// unknownMember says that there is no such member, and which one may be meant.
func (t *trial) unknownMember(c chain) finding {
	name := c.path[len(c.path)-1]
	parent := c.path[:len(c.path)-1]
	if c.root == "context" && len(parent) > 0 && (parent[0] == "arguments" || parent[0] == "lists") {
		f := finding{how: clause, text: fmt.Sprintf("has no argument %q", name)}
		switch {
		case parent[0] == "lists":
			f.text = fmt.Sprintf("has no list %q among its arguments", name)
		case len(parent) > 1:
			f.text = fmt.Sprintf("has no member %q in its argument %q", name, strings.Join(parent[1:], "."))
		}
		f.hint = meant(name, t.namesAt(parent[1:]))
		return f
	}
	var names []string
	if c.root == "context" && len(parent) == 0 {
		for _, n := range sortedKeys(memberNames) {
			names = append(names, string(n))
		}
	} else {
		r, _ := t.recordAt(c.root, parent)
		for _, n := range sortedKeys(r) {
			names = append(names, string(n))
		}
	}
	what := strings.Join(append([]string{c.root}, parent...), ".")
	if len(parent) == 0 && c.root != "context" {
		kind := t.situation.principal
		if c.root == "resource" {
			kind = t.situation.resource
		}
		return finding{how: ofCall, text: fmt.Sprintf("the %s is a %s, which has no attribute %q", c.root, kind, name), hint: meant(name, names)}
	}
	return finding{text: fmt.Sprintf("%s has no member %q", what, name), hint: meant(name, names)}
}

// meant is a hint at which of the known names may be meant.
func meant(name string, known []string) string {
	if near := config.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) > 0 && len(known) <= 12 {
		return "there are " + strings.Join(known, ", ")
	}
	return ""
}

// namesAt lists the members of the arguments at a path, as the server names them.
func (t *trial) namesAt(path []string) []string {
	s := t.situation.takes
	for _, name := range path {
		if s == nil || s.Kind != shape.Object {
			return nil
		}
		m, ok := s.Member(name)
		if !ok {
			return nil
		}
		s = m.Shape
	}
	if s == nil {
		return nil
	}
	return s.Names()
}

// unasked says that a member may be missing, and how to ask.
func (t *trial) unasked(c chain) finding {
	name, parent := c.path[len(c.path)-1], chain{root: c.root, path: c.path[:len(c.path)-1]}
	f := finding{hint: fmt.Sprintf("write `%s has %s && ...`", parent, identifier(name))}
	switch {
	case c.path[0] == "arguments" && len(c.path) == 2:
		f.how, f.text = clause, fmt.Sprintf("may be called without the argument %q", name)
	case c.path[0] == "arguments":
		f.how, f.text = clause, fmt.Sprintf("may be called without %q in its argument %q", name, strings.Join(c.path[1:len(c.path)-1], "."))
	case c.path[0] == "lists":
		f.how, f.text = clause, fmt.Sprintf("may be called without a list %q", name)
	default:
		f.text = fmt.Sprintf("%s may lack the member %q", parent, name)
	}
	return f
}

// identifier is a name as it stands behind has.
func identifier(name string) string {
	for i := range len(name) {
		if !wordByte(name[i]) || i == 0 && '0' <= name[i] && name[i] <= '9' {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}

// guessed reports whether what is wrong with a condition may be that no guess was
// right: it looks at several things of which nothing is known, or at one beside
// a record or a set of sets, which are not guessed at.
func (t *trial) guessed(n ast.IsNode) bool {
	_, unknown := t.context()
	paths := lookedAt(n, unknown)
	if len(paths) != 1 || t.tooMany {
		return len(paths) > 0
	}
	compound := false
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		switch n := n.(type) {
		case ast.NodeTypeRecord:
			compound = true
		case ast.NodeTypeSet:
			compound = compound || slices.ContainsFunc(n.Elements, func(e ast.IsNode) bool {
				_, isSet := e.(ast.NodeTypeSet)
				return isSet
			})
		}
		return true
	})
	return compound
}

// withTypes adds to text what types the things have that a condition looks at.
func (t *trial) withTypes(n ast.IsNode, text string) (string, string) {
	var are []string
	hint := ""
	for _, c := range chains(n) {
		if c.has {
			continue
		}
		r, ok := t.recordAt(c.root, c.path[:len(c.path)-1])
		a, there := r[types.String(c.path[len(c.path)-1])]
		if !ok || !there {
			continue
		}
		is := typeName(a.Type)
		if is == "" {
			continue
		}
		are = append(are, fmt.Sprintf("%s is %s", c, is))
		if a.Type == decimalType {
			hint = fmt.Sprintf("compare decimals as in `%s.lessThan(decimal(\"1.5\"))`", c)
		}
	}
	if len(are) > 0 {
		text += " (" + strings.Join(slices.Compact(are), ", ") + ")"
	}
	return text, hint
}

// typeName names a type to a person; records are left out, since what matters
// are their members.
func typeName(t resolved.IsType) string {
	switch t := t.(type) {
	case resolved.StringType:
		return "a String"
	case resolved.LongType:
		return "a Long"
	case resolved.BoolType:
		return "a Bool"
	case resolved.ExtensionType:
		return "a " + string(t)
	case resolved.SetType:
		return "a set"
	}
	return ""
}

var plainer = strings.NewReplacer(
	"Set<__cedar::internal::AnyEntity>, or __cedar::internal::AnyEntity", "an entity or a set of them",
	"__cedar::internal::AnyEntity, or __cedar::internal::OpenRecord{}", "a record or an entity",
	"Set<__cedar::internal::Any>", "a set",
	"__cedar::internal::AnyEntity", "an entity",
	"__cedar::internal::True", "Bool",
	"__cedar::internal::False", "Bool",
	"Set<__cedar::internal::Never>", "an empty set",
	"datetime, or duration, or Long", "Long",
)

// plainly is what the validator says, without the names of its own types.
func plainly(fault string) string {
	if m := unexpected.FindStringSubmatch(fault); m != nil {
		fault = fmt.Sprintf("expected %s, found %s", m[1], m[2])
	}
	return plainer.Replace(fault)
}
