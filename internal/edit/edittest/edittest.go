// Package edittest has the test that every syntax of package edit must pass: undoing an edit
// restores the original text.
package edittest

import (
	"slices"
	"strconv"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Failer reports a failed test. It is implemented by testing.T and rapid.T.
type Failer interface {
	Fatalf(format string, args ...any)
}

// InsertAndDrop edits every value in d separately, and undoes the edit. If may is not nil, it
// reports whether the syntax has to support an operation.
func InsertAndDrop(t Failer, d *edit.Document, may func(n edit.Node, op edit.Op) bool) {
	syntax := d.Syntax()
	items := []string{syntax.Quote("é"), syntax.List([]string{"1", syntax.Table(nil)})}
	members := []edit.Member{{Name: "new", Value: "1.50"}, {Name: "newer", Value: syntax.Quote("")}}
	try := func(n edit.Node, there, back edit.Op) {
		if may == nil || may(n, there) {
			roundTrip(t, d, there, back)
		}
	}
	var each func(n edit.Node, path []string)
	each = func(n edit.Node, path []string) {
		path = slices.Clip(path)
		switch n.Kind() {
		case edit.Array:
			try(n, edit.Prepend(path, items...), edit.DropItems(path, len(items)))
			for i, item := range n.Items() {
				each(item, append(path, strconv.Itoa(i)))
			}
		case edit.Object:
			if !n.Member("new").Exists() && !n.Member("newer").Exists() {
				try(n, edit.Add(path, members...), edit.DropMembers(path, "newer", "new"))
				exchange(t, d, n, path, func(op edit.Op) bool { return may == nil || may(n, op) })
			}
			for name, value := range n.Members() {
				each(value, append(path, name.Text()))
			}
		default:
			try(n, edit.Set(path, syntax.Quote("other")), edit.Set(path, n.Raw()))
		}
	}
	each(d.Root(), nil)
}

// exchange replaces the object n at path by one with more members, both times as its extent, and
// undoes that.
func exchange(t Failer, d *edit.Document, n edit.Node, path []string, may func(edit.Op) bool) {
	extent, err := n.Extent()
	if err != nil || len(path) == 0 || !may(edit.Add(path, edit.Member{Name: "new", Value: "1.50"})) {
		return
	}
	lifted, at, err := d.Syntax().Lift(extent, path)
	if err != nil && may(edit.Put(path, extent)) {
		t.Fatalf("lift %q of %q: %v", extent, d.Bytes(), err)
	}
	if err != nil {
		return
	}
	if !edit.Equal(lifted.At(at), n) {
		t.Fatalf("lift %q of %q: %v", extent, d.Bytes(), err)
	}
	add := edit.Add(at, edit.Member{Name: "new", Value: "1.50"})
	edited, err := lifted.Edit(add)
	if err == nil {
		lifted, err = d.Syntax().Parse(edited)
	}
	if err != nil {
		t.Fatalf("edit %q: %v", extent, err)
	}
	more, err := lifted.At(at).Extent()
	if err != nil {
		t.Fatalf("the extent in %q: %v", edited, err)
	}
	roundTrip(t, d, edit.Put(path, more), edit.Put(path, extent))
}

func roundTrip(t Failer, d *edit.Document, there, back edit.Op) {
	edited, err := d.Edit(there)
	if err != nil {
		t.Fatalf("edit %q of %q: %v", there.Path, d.Bytes(), err)
	}
	again, err := d.Syntax().Parse(edited)
	if err != nil {
		t.Fatalf("parse %q: %v", edited, err)
	}
	undone, err := again.Edit(back)
	if err != nil {
		t.Fatalf("undo %q of %q: %v", back.Path, edited, err)
	}
	if string(undone) != string(d.Bytes()) {
		t.Fatalf("not undone:\nbefore %q\nedited %q\nafter  %q", d.Bytes(), edited, undone)
	}
}
