package edit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// verifyEdit parses the result of an edit and compares it with the document. Where no operation
// applies, the text must be the same. Where one does, the values must be the old ones with the
// operations applied.
func (d *Document) verifyEdit(result []byte, ops []Op) error {
	after, err := d.syntax.Read(result)
	if err == nil {
		err = newDoubt(d, after)
	}
	if err != nil {
		return fmt.Errorf("the edited text would not parse: %w", err)
	}
	p := &verifier{ops: ops, syntax: d.syntax}
	if err := p.compare(d.Root(), after.Root(), nil); err != nil {
		return err
	}
	if p.proved != len(ops) {
		return fmt.Errorf("the edit would leave out %d of %d changes", len(ops)-p.proved, len(ops))
	}
	return nil
}

// verifier compares two documents in parallel.
type verifier struct {
	ops    []Op
	syntax Syntax
	proved int // operations whose effect was verified
}

func (p *verifier) compare(before, after Node, path []string) error {
	here, below := p.concerning(path)
	switch {
	case len(here) > 0:
		return p.compareChanged(before, after, path, append(here, below...))
	case len(below) == 0:
		if !before.scattered() && !after.scattered() {
			if !bytes.Equal(before.bytes(), after.bytes()) {
				return unexpectedChangeError(path)
			}
			return nil
		}
	}
	return p.descend(before, after, path)
}

// scattered reports whether n is a table, or an array of tables, whose members are not in one
// piece of text.
func (n Node) scattered() bool {
	return n.v.Start == n.v.End && (n.v.Kind == Object || n.v.Kind == Array)
}

// concerning returns the operations at path, and those below it.
func (p *verifier) concerning(path []string) (here, below []Op) {
	for _, op := range p.ops {
		switch {
		case slices.Equal(op.Path, path):
			here = append(here, op)
		case len(op.Path) > len(path) && slices.Equal(op.Path[:len(path)], path):
			below = append(below, op)
		}
	}
	return here, below
}

// compareChanged compares two values as plain data. It applies deeper operations first, since
// an operation higher up may move the values that they concern.
func (p *verifier) compareChanged(before, after Node, path []string, ops []Op) error {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b Op) int { return len(b.Path) - len(a.Path) })
	want := before.tree()
	for _, op := range ops {
		var err error
		if want, err = want.apply(op.Path[len(path):], op, p.syntax); err != nil {
			return fmt.Errorf("edit %s: %w", display(op.Path), err)
		}
	}
	if at, same := want.compare(after.tree(), path); !same {
		return unexpectedChangeError(at)
	}
	p.proved += len(ops)
	return nil
}

// descend compares the children of two values one by one, where none may have been added or
// removed.
func (p *verifier) descend(before, after Node, path []string) error {
	sameName := func(a, b *Value) bool { return a.Text == b.Text }
	if before.Kind() != after.Kind() || len(before.v.Kids) != len(after.v.Kids) || !slices.EqualFunc(before.v.Names, after.v.Names, sameName) {
		return unexpectedChangeError(path)
	}
	i := 0
	for step, kid := range before.Children() {
		if err := p.compare(kid, Node{after.d, after.v.Kids[i]}, append(slices.Clip(path), step)); err != nil {
			return err
		}
		i++
	}
	return nil
}

func unexpectedChangeError(path []string) error {
	return fmt.Errorf("the edit would change more than it should, at %s", display(path))
}

// tree is a value as plain data, without its original notation.
type tree struct {
	kind  Kind
	text  string   // value of a scalar; a number as written
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

// apply returns t with op applied at path. It does not change t.
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

// compare reports whether two values are equal, including order, and if not, the path of the
// first difference.
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
