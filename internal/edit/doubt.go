package edit

import "slices"

// Doubt is a value that its readers may take in different ways, as an object that
// has a name twice, or that some of them refuse.
type Doubt struct {
	Path []string // of the first value by these names where one is there twice
	Node Node
	Err  *SyntaxError // what is wrong, and where
}

// Doubts returns what is doubtful in the document, an object before what it holds.
func (d *Document) Doubts() []Doubt {
	return d.Root().doubts(nil, nil)
}

func (n Node) doubts(path []string, found []Doubt) []Doubt {
	if n.v.Unsure != nil {
		found = append(found, Doubt{path, n, n.v.Unsure})
	}
	for step, kid := range n.Children() {
		found = kid.doubts(append(slices.Clip(path), step), found)
	}
	return found
}

// Certain returns the document that [Syntax.Read] returned, and an error if
// anything in it is doubtful.
func Certain(d *Document, err error) (*Document, error) {
	if err != nil {
		return nil, err
	}
	for _, doubt := range d.Doubts() {
		return nil, doubt.Err
	}
	return d, nil
}

// newDoubt returns the error of what is doubtful in after, and was not before.
func newDoubt(before, after *Document) error {
	was := before.Doubts()
	for i, doubt := range after.Doubts() {
		if i >= len(was) || !slices.Equal(was[i].Path, doubt.Path) {
			return doubt.Err
		}
	}
	return nil
}
