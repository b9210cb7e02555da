package tomledit

import (
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// sort puts what stands right in a table before what headers further down add to
// it: that is the order in which lines can be added to it. Between tables order
// has no meaning.
func (b *builder) sort(t *table) {
	var order []int
	for _, headers := range []bool{false, true} {
		for i := range t.value.Kids {
			if t.about[i][0].header == headers {
				order = append(order, i)
			}
		}
	}
	names, kids := slices.Clone(t.value.Names), slices.Clone(t.value.Kids)
	about, inner := slices.Clone(t.about), slices.Clone(t.inner)
	for to, from := range order {
		t.value.Names[to], t.value.Kids[to], t.about[to], t.inner[to] = names[from], kids[from], about[from], inner[from]
	}
	t.byName = nil
	for i, kid := range t.value.Kids {
		if kid.Kind == edit.Array {
			for _, item := range kid.Kids {
				if layout, ok := item.Layout.(*table); ok {
					b.sort(layout)
				}
			}
		} else if t.inner[i] != nil {
			b.sort(t.inner[i])
		}
	}
}
