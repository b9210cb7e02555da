package edit

import (
	"bytes"
	"errors"
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
	want := before.v
	for _, op := range ops {
		var err error
		if want, err = want.apply(op.Path[len(path):], op, p.syntax); err != nil {
			return fmt.Errorf("edit %s: %w", display(op.Path), err)
		}
	}
	if at, same := want.compare(after.v, path); !same {
		return unexpectedChangeError(at)
	}
	p.proved += len(ops)
	return nil
}

// descend compares the children of two values one by one, where none may have been added or
// removed.
func (p *verifier) descend(before, after Node, path []string) error {
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

// apply returns v with op applied at path. It does not change v. The result has no positions: only
// kinds, texts and names count.
func (v *Value) apply(path []string, op Op, syntax Syntax) (*Value, error) {
	changed := &Value{Kind: v.Kind, Names: v.Names, Kids: slices.Clone(v.Kids)}
	if len(path) > 0 {
		i := slices.IndexFunc(v.Names, func(name *Value) bool { return name.Text == path[0] })
		if v.Kind == Array {
			i, _ = strconv.Atoi(path[0])
		}
		if i < 0 || i >= len(v.Kids) {
			return nil, fmt.Errorf("there is no such value any more")
		}
		var err error
		changed.Kids[i], err = v.Kids[i].apply(path[1:], op, syntax)
		return changed, err
	}
	switch op.Do {
	case Replace:
		return valueOf(op.Text, syntax)
	case Paste:
		d, at, err := syntax.Lift(op.Text, op.Path)
		if err == nil && !d.At(at).Exists() {
			err = errors.New("the new text has no value there")
		}
		return d.At(at).v, err
	case Shorten:
		changed.Kids = v.Kids[op.Count:]
		return changed, nil
	case Cut:
		changed.Kids = nil
		for i, kid := range v.Kids {
			if !slices.Contains(op.Indexes, i) {
				changed.Kids = append(changed.Kids, kid)
			}
		}
		return changed, nil
	case Remove:
		changed.Names, changed.Kids = nil, nil
		for i, name := range v.Names {
			if !slices.Contains(op.Names, name.Text) {
				changed.Names, changed.Kids = append(changed.Names, name), append(changed.Kids, v.Kids[i])
			}
		}
		return changed, nil
	}
	return v.grow(op, syntax)
}

// grow returns v with the items or members of op before its own.
func (v *Value) grow(op Op, syntax Syntax) (*Value, error) {
	grown := &Value{Kind: v.Kind}
	values := op.Items
	for _, m := range op.Members {
		grown.Names = append(grown.Names, &Value{Kind: String, Text: m.Name})
		values = append(values, m.Value)
	}
	for _, text := range values {
		kid, err := valueOf(text, syntax)
		if err != nil {
			return nil, err
		}
		grown.Kids = append(grown.Kids, kid)
	}
	grown.Names = append(grown.Names, v.Names...)
	grown.Kids = append(grown.Kids, v.Kids...)
	return grown, nil
}

func valueOf(text string, syntax Syntax) (*Value, error) {
	n, err := syntax.Value(text)
	if err != nil {
		return nil, fmt.Errorf("the new value %q: %w", text, err)
	}
	return n.v, nil
}

// compare reports whether two values are equal, including order, and if not, the path of the
// first difference.
func (v *Value) compare(other *Value, path []string) ([]string, bool) {
	if v.Kind != other.Kind || v.Text != other.Text || !slices.EqualFunc(v.Names, other.Names, sameName) || len(v.Kids) != len(other.Kids) {
		return path, false
	}
	for i, kid := range v.Kids {
		step := strconv.Itoa(i)
		if v.Kind == Object {
			step = v.Names[i].Text
		}
		if at, same := kid.compare(other.Kids[i], append(slices.Clip(path), step)); !same {
			return at, false
		}
	}
	return nil, true
}

func sameName(a, b *Value) bool { return a.Text == b.Text }
