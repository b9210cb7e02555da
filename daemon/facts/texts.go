package facts

import (
	"bytes"
	"sort"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// manner describes how to examine a text.
type manner struct {
	secrets bool
	places  bool
	prose   bool // it may mention places without accessing them
}

// texts looks for secrets, and for places where secrets are kept, in one text after another.
type texts struct {
	inspection *inspection
	manner     manner
	at         where
	scan       scan
	places     placeSearch

	// Method values, bound once.
	secret func(find) bool
	place  func(start int)
}

func (t *texts) begin(in *inspection) {
	t.inspection, t.secret, t.place = in, t.found, t.places.at
}

// text examines a text until it has found both a secret and a place.
func (in *inspection) text(text []byte, m manner, at where) {
	if len(text) < 4 || in.pathsOnly {
		return
	}
	t := &in.texts
	t.manner, t.at = m, at
	eachReading(text, t.reading)
	t.at, t.scan, t.places = nil, scan{}, placeSearch{}
}

// found adds a fact for a secret.
func (t *texts) found(f find) (more bool) {
	t.inspection.add(gate.FactSecret, describe(f.kind), t.at())
	t.manner.secrets = false
	return false
}

// reading examines one reading of the text. It reports whether there is still something to look
// for.
func (t *texts) reading(reading []byte, as readAs) bool {
	in, s, p := t.inspection, &t.scan, &t.places
	*s = scan{engine: theEngine(), text: reading, budget: &in.budget, prose: t.manner.prose, joined: as == rejoined}
	if t.manner.secrets {
		s.secret = t.secret
	}
	*p = placeSearch{text: reading, alone: t.manner.prose}
	if t.manner.places && as != decoded && as != rejoined {
		s.place = t.place
	}
	if !s.run() {
		in.add(gate.FactSecret, "it has more possible credentials than can be checked", t.at())
		t.manner.secrets = false
	}
	p.whole()
	in.work += len(reading) + s.work + p.work
	if p.what != "" {
		in.add(gate.FactSecretPlace, "names "+p.what+", where credentials are kept", t.at())
		t.manner.places = false
	}
	return t.manner.secrets || t.manner.places
}

// checkMember reports whether the name of a member marks its value as a secret, and adds a fact if so.
func (in *inspection) checkMember(w *walk, name, value []byte) bool {
	what, is := judgeMember(name, value)
	if is {
		in.add(gate.FactSecret, describe(what), w.path())
	}
	return is
}

func describe(kind string) string {
	noun := strings.ReplaceAll(kind, "-", " ")
	switch {
	case strings.HasSuffix(noun, "s"):
		return "looks like " + noun
	case strings.ContainsAny(noun[:1], "aeio8"):
		return "looks like an " + noun
	}
	return "looks like a " + noun
}

// A secret may be split into parts: a list of lines, or several arguments. So the concatenation
// of short strings, in order, is examined as well.

const (
	longestPiece = 512
	mostPieces   = 64 << 10 // bytes that are examined together
	overlap      = 8 << 10  // bytes that are examined again together with those that follow
)

// pieces holds the short strings of a JSON text, concatenated.
type pieces struct {
	text []byte
	each []piece
}

// piece is a string: its start in the concatenation, and its place in the JSON.
type piece struct {
	at int
	in span
}

// add appends a string. A string that is too long to be a part separates the others. add reports
// whether there is room for another one; if not, the caller must look and then call discardExamined.
func (p *pieces) add(said []byte, in span) (room bool) {
	switch {
	case len(said) == 0:
	case len(said) > longestPiece:
		p.text = append(p.text, '\n')
	default:
		p.each = append(p.each, piece{len(p.text), in})
		p.text = append(p.text, said...)
	}
	return len(p.text) <= mostPieces-longestPiece
}

// discardExamined discards all but the end of the examined text.
func (p *pieces) discardExamined() {
	keep := sort.Search(len(p.each), func(i int) bool { return p.each[i].at >= len(p.text)-overlap })
	from := len(p.text)
	if keep < len(p.each) {
		from = p.each[keep].at
	}
	p.text = append(p.text[:0], p.text[from:]...)
	p.each = append(p.each[:0], p.each[keep:]...)
	for i := range p.each {
		p.each[i].at -= from
	}
}

// reset empties p and keeps its buffers.
func (p *pieces) reset() {
	clear(p.text)
	p.text, p.each = p.text[:0], p.each[:0]
}

// of returns the pieces that a find covers, or nil if it is only one.
func (p *pieces) of(f find) []piece {
	behind := func(at int) int {
		return sort.Search(len(p.each), func(i int) bool { return p.each[i].at >= at })
	}
	first, last := max(0, behind(f.start+1)-1), behind(f.end)-1
	if first >= last {
		return nil
	}
	return p.each[first : last+1]
}

// find calls found with each secret that spans several pieces, until found returns false. It
// reports whether the examination was complete.
func (p *pieces) find(budget *int, found func(find) (more bool)) bool {
	s := scan{engine: theEngine(), text: p.text, budget: budget, joined: true, secret: func(f find) bool {
		return len(p.of(f)) == 0 || found(f)
	}}
	return s.run()
}

// inParts looks for secrets that span several strings.
func (in *inspection) inParts() {
	if len(in.pieces.each) < 2 {
		return
	}
	whole := in.pieces.find(&in.budget, func(f find) bool {
		in.add(gate.FactSecret, describe(f.kind)+", in parts", "")
		return false
	})
	if !whole {
		in.add(gate.FactSecret, "it has more possible credentials than can be checked", "")
	}
}

// inParts replaces the strings that form a secret together.
func (r *redactor) inParts() (whole bool) {
	if len(r.pieces.each) < 2 {
		return true
	}
	return r.pieces.find(&r.budget, func(f find) bool {
		for _, p := range r.pieces.of(f) {
			r.whole(&r.walk, p.in)
		}
		return true
	})
}

// isFound reports whether a secret in another reading was found in the written form, too,
// ignoring blanks and escapes.
func (r *redactor) isFound(secret []byte) bool {
	if r.known == nil {
		r.known = make(map[string]bool, len(r.found))
		for _, f := range r.found {
			r.known[bare(r.said[f.start:f.end])] = true
		}
	}
	return r.known[bare(secret)]
}

func bare(text []byte) string {
	return string(bytes.Map(func(c rune) rune {
		if c <= ' ' || c == '\\' {
			return -1
		}
		return c
	}, text))
}
