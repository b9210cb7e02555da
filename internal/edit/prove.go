package edit

import (
	"bytes"
	"fmt"
	"slices"
)

// prove parses the result of an edit and holds it against what was there before.
// Where no operation went, the text must be the same; where one did, the values
// must be those before, changed as the operations say.
func (d *Document) prove(result []byte, ops []Op) error {
	after, err := d.syntax.Read(result)
	if err == nil {
		err = newDoubt(d, after)
	}
	if err != nil {
		return fmt.Errorf("the edited text would not parse: %w", err)
	}
	p := &proof{ops: ops, syntax: d.syntax}
	if err := p.compare(d.Root(), after.Root(), nil); err != nil {
		return err
	}
	if p.proved != len(ops) {
		return fmt.Errorf("the edit would leave out %d of %d changes", len(ops)-p.proved, len(ops))
	}
	return nil
}

// proof walks two documents at once.
type proof struct {
	ops    []Op
	syntax Syntax
	proved int // operations whose outcome was seen
}

func (p *proof) compare(before, after Node, path []string) error {
	here, below := p.concerning(path)
	switch {
	case len(here) > 0:
		return p.compareChanged(before, after, path, append(here, below...))
	case len(below) == 0:
		if !before.scattered() && !after.scattered() {
			if !bytes.Equal(before.bytes(), after.bytes()) {
				return tooMuch(path)
			}
			return nil
		}
	}
	return p.descend(before, after, path)
}

// scattered reports whether n is a table, or an array of tables, whose members
// do not stand together.
func (n Node) scattered() bool {
	return n.v.Start == n.v.End && (n.v.Kind == Object || n.v.Kind == Array)
}

// concerning returns the operations at a path, and those below it.
func (p *proof) concerning(path []string) (here, below []Op) {
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

// compareChanged compares two values as plain data. Operations further down come
// first: one higher up may move what they are about.
func (p *proof) compareChanged(before, after Node, path []string, ops []Op) error {
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
		return tooMuch(at)
	}
	p.proved += len(ops)
	return nil
}

// descend compares what two values hold, one by one, where nothing may have been
// added or taken away.
func (p *proof) descend(before, after Node, path []string) error {
	sameName := func(a, b *Value) bool { return a.Text == b.Text }
	if before.Kind() != after.Kind() || len(before.v.Kids) != len(after.v.Kids) || !slices.EqualFunc(before.v.Names, after.v.Names, sameName) {
		return tooMuch(path)
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

func tooMuch(path []string) error {
	return fmt.Errorf("the edit would change more than it should, at %s", display(path))
}
