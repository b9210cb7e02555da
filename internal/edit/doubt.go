package edit

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Doubt is a value that some readers reject, or that readers may take in different ways, such
// as an object that has a name twice.
type Doubt struct {
	Path []string // if a name occurs twice, path of the value that came first
	Node Node
	Err  *SyntaxError // what is wrong, and where
}

// Doubts returns the doubts of the document. An object comes before the values in it.
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

// RequireNoDoubts takes the results of [Syntax.Read]. It returns the document, or an error if it has
// doubts.
func RequireNoDoubts(d *Document, err error) (*Document, error) {
	if err != nil {
		return nil, err
	}
	for _, doubt := range d.Doubts() {
		return nil, doubt.Err
	}
	return d, nil
}

// newDoubt returns the error of the first doubt in after that before does not have.
func newDoubt(before, after *Document) error {
	was := before.Doubts()
	for i, doubt := range after.Doubts() {
		if i >= len(was) || !slices.Equal(was[i].Path, doubt.Path) {
			return doubt.Err
		}
	}
	return nil
}

// ReplaceInvalidUTF8 returns src with an underscore in place of every byte that is not UTF-8, and the
// offsets of these bytes. It is for parsers that reject such a byte anywhere; the caller must
// then mark the values that contain one by [Document.MarkInvalidUTF8].
func ReplaceInvalidUTF8(src []byte) (text []byte, broken []int) {
	if utf8.Valid(src) {
		return src, nil
	}
	text = bytes.Clone(src)
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			text[i], broken = '_', append(broken, i)
		}
		i += size
	}
	return text, broken
}

// NotUTF8 returns the error for a byte that is not UTF-8.
func (d *Document) NotUTF8(at int) *SyntaxError { return d.ErrorAt(at, "this is no UTF-8") }

// MarkInvalidUTF8 marks the innermost value around each of the offsets in broken, which must be
// sorted, as doubtful. A name is part of its object. MarkInvalidUTF8 returns the offsets that are in
// no value.
func (d *Document) MarkInvalidUTF8(broken []int) (outside []int) {
	if len(broken) == 0 {
		return nil
	}
	return d.doubtIn(d.root, broken)
}

// doubtIn is MarkInvalidUTF8 for v and the values in it.
func (d *Document) doubtIn(v *Value, broken []int) (left []int) {
	left = broken
	doubt := func(start, end int) {
		from, _ := slices.BinarySearch(left, start)
		to, _ := slices.BinarySearch(left, end)
		if from < to {
			v.Unsure = d.NotUTF8(left[from])
			left = slices.Concat(left[:from], left[to:])
		}
	}
	for i, kid := range v.Kids {
		if v.Kind == Object {
			doubt(v.Names[i].Start, v.Names[i].End)
		}
		if len(left) == 0 {
			return nil
		}
		left = d.doubtIn(kid, left)
	}
	doubt(v.Start, v.End)
	return left
}
