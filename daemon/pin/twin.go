package pin

import "github.com/thoughtgate/thoughtgated/internal/display"

// mostForeign is how many names with letters that pass for ASCII ones are
// compared with all others, each with each; past that they are all withheld.
const mostForeign = 256

// twins returns which of names look like another of them, or like one of those
// in place already, and which one that is. What is in place stays: a server can
// only harm itself by offering a twin of its own tool.
func twins(inPlace, names []string) map[string]string {
	found := map[string]string{}
	var index twinIndex
	stays := map[string]bool{}
	for _, name := range inPlace {
		index.add(name)
		stays[name] = true
	}
	for _, name := range names {
		index.add(name)
	}
	for _, name := range names {
		if stays[name] {
			continue
		}
		if other, is := index.twin(name); is {
			found[name] = other
		}
	}
	return found
}

// twinIndex finds names by what they look like.
type twinIndex struct {
	names   []string // each once
	shapes  map[string]display.Shape
	folded  map[string][]string // by key; two of a key are enough to know
	similar map[string][]string
	foreign []string // names with letters that pass for ASCII ones
}

func (x *twinIndex) add(name string) {
	if x.shapes == nil {
		x.shapes, x.folded, x.similar = map[string]display.Shape{}, map[string][]string{}, map[string][]string{}
	}
	if _, ok := x.shapes[name]; ok {
		return
	}
	s := display.ShapeOf(name)
	x.shapes[name] = s
	x.names = append(x.names, name)
	if s.HasTwins() {
		x.foreign = append(x.foreign, name)
		return
	}
	folded, similar := s.Keys()
	if len(x.folded[folded]) < 2 {
		x.folded[folded] = append(x.folded[folded], name)
	}
	if len(x.similar[similar]) < 2 {
		x.similar[similar] = append(x.similar[similar], name)
	}
}

// twin returns another name that looks like this one.
func (x *twinIndex) twin(name string) (other string, is bool) {
	s := x.shapes[name]
	candidates := x.foreign
	if s.HasTwins() {
		if len(x.foreign) > mostForeign {
			return "", true
		}
		candidates = x.names
	} else {
		folded, similar := s.Keys()
		for _, of := range [][]string{x.folded[folded], x.similar[similar]} {
			for _, other := range of {
				if other != name {
					return other, true
				}
			}
		}
		if len(x.foreign) > mostForeign {
			candidates = nil // they are withheld themselves
		}
	}
	for _, other := range candidates {
		if other != name && s.Like(x.shapes[other]) {
			return other, true
		}
	}
	return "", false
}
