package edit

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Unbroken returns src with an underscore for every byte that is no UTF-8, and the
// offsets of those. It is for readers that stop at such a byte wherever it stands;
// whatever stands at one is to be told by [Document.DoubtBytes].
func Unbroken(src []byte) (text []byte, broken []int) {
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

// NotUTF8 is the error for a byte that is none.
func (d *Document) NotUTF8(at int) *SyntaxError { return d.ErrorAt(at, "this is no UTF-8") }

// DoubtBytes marks the innermost value around each of the offsets broken, which are
// sorted, as doubtful. A name is a part of its object. It returns the offsets that
// are in no value.
func (d *Document) DoubtBytes(broken []int) (outside []int) {
	if len(broken) == 0 {
		return nil
	}
	return d.doubtIn(d.root, broken)
}

// doubtIn is DoubtBytes for v and what is in it.
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
