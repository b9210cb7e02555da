package edit

import (
	"fmt"
	"slices"
	"strconv"
)

// tree is a value as plain data: what a text says, without how it says it.
type tree struct {
	kind  Kind
	text  string   // of a scalar; of a number as written
	names []string // of an object's members
	kids  []*tree
}

func (n Node) tree() *tree {
	t := &tree{kind: n.Kind()}
	if t.kind != Object && t.kind != Array {
		t.text = n.Text()
	}
	for step, kid := range n.Children() {
		if t.kind == Object {
			t.names = append(t.names, step)
		}
		t.kids = append(t.kids, kid.tree())
	}
	return t
}

// apply returns t with op carried out at path, leaving t as it is.
func (t *tree) apply(path []string, op Op, syntax Syntax) (*tree, error) {
	if len(path) > 0 {
		i := slices.Index(t.names, path[0])
		if t.kind == Array {
			i, _ = strconv.Atoi(path[0])
		}
		if i < 0 || i >= len(t.kids) {
			return nil, fmt.Errorf("there is no such value any more")
		}
		kid, err := t.kids[i].apply(path[1:], op, syntax)
		if err != nil {
			return nil, err
		}
		copied := *t
		copied.kids = slices.Clone(t.kids)
		copied.kids[i] = kid
		return &copied, nil
	}
	switch op.Do {
	case Replace:
		return valueOf(op.Text, syntax)
	case Shorten:
		return &tree{kind: Array, kids: t.kids[op.Count:]}, nil
	case Remove:
		left := &tree{kind: Object}
		for i, name := range t.names {
			if !slices.Contains(op.Names, name) {
				left.names, left.kids = append(left.names, name), append(left.kids, t.kids[i])
			}
		}
		return left, nil
	}
	return t.grow(op, syntax)
}

// grow returns t with the items or members of op before its own.
func (t *tree) grow(op Op, syntax Syntax) (*tree, error) {
	grown := &tree{kind: t.kind}
	values := op.Items
	for _, m := range op.Members {
		grown.names = append(grown.names, m.Name)
		values = append(values, m.Value)
	}
	for _, text := range values {
		kid, err := valueOf(text, syntax)
		if err != nil {
			return nil, err
		}
		grown.kids = append(grown.kids, kid)
	}
	grown.names = append(grown.names, t.names...)
	grown.kids = append(grown.kids, t.kids...)
	return grown, nil
}

func valueOf(text string, syntax Syntax) (*tree, error) {
	n, err := syntax.Value(text)
	if err != nil {
		return nil, fmt.Errorf("the new value %q: %w", text, err)
	}
	return n.tree(), nil
}

// compare reports whether two values are the same, order included, and if not
// where they differ first.
func (t *tree) compare(other *tree, path []string) ([]string, bool) {
	if t.kind != other.kind || t.text != other.text || !slices.Equal(t.names, other.names) || len(t.kids) != len(other.kids) {
		return path, false
	}
	for i, kid := range t.kids {
		step := strconv.Itoa(i)
		if t.kind == Object {
			step = t.names[i]
		}
		if at, same := kid.compare(other.kids[i], append(slices.Clip(path), step)); !same {
			return at, false
		}
	}
	return nil, true
}
