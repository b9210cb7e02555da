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
