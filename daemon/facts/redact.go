package facts

import (
	"bytes"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Redact returns values, one raw JSON value, with each secret it recognises and
// each member that paths name replaced by what mask returns for it. All other
// bytes stay as they are. values itself is not changed; without anything to
// replace it is returned as it is. Paths are those of [rawjson.Paths].
//
// mask is given the secret itself, unescaped: the part of a string that is
// secret, or what a named member says (the raw JSON of one that is no string).
// Where a secret is disguised, or was not to be told apart in reasonable time,
// that is the whole string. What mask returns may be any text. What is not JSON
// comes back as one masked string.
func Redact(values []byte, paths []string, mask func(secret []byte) string) []byte {
	r := redactors.Get().(*redactor)
	defer r.release()
	r.mask, r.budget = mask, budget
	r.splitting(paths)
	return r.redacted(values)
}

func (r *redactor) redacted(values []byte) []byte {
	r.walk.raw = values
	if err := r.walk.run(r); err != nil || !r.inParts() || r.partly {
		return quoted(r.mask(values), true)
	}
	return r.spliced(values)
}

// redactor notes what is to be replaced while it walks.
type redactor struct {
	given  []string        // the paths, as they were given
	paths  rawjson.Paths   // read
	open   []rawjson.Paths // those that lead on from each frame of the walk
	mask   func([]byte) string
	budget int
	edits  []edit

	walk   walk
	pieces pieces
	partly bool // not all pieces could be looked at

	// Of the string at hand.
	scan      scan
	said      []byte          // itself
	known     map[string]bool // what was found in it, once another reading shows some
	as        readAs          // how it is being read
	found     []span
	disguised bool
	secret    func(find) bool // note, made once
}

var redactors = sync.Pool{New: func() any { return newRedactor() }}

func newRedactor() *redactor {
	r := &redactor{}
	r.secret = r.note
	return r
}

// mostEdits is how many edits a redactor keeps room for.
const mostEdits = 64

// release gives r back. But for the paths, which are those of the configuration,
// nothing of what it was given is held on to.
func (r *redactor) release() {
	r.walk.raw = nil
	kept := redactor{given: r.given, paths: r.paths, secret: r.secret, walk: r.walk}
	if cap(r.edits) <= mostEdits && cap(r.found) <= mostEdits {
		clear(r.edits)
		kept.edits, kept.found = r.edits[:0], r.found[:0]
	}
	if cap(r.open) <= deepest {
		kept.open = r.open[:0]
	}
	r.pieces.reset()
	kept.pieces = r.pieces
	*r = kept
	redactors.Put(r)
}

// splitting takes the paths apart, unless they are those of the last time.
func (r *redactor) splitting(paths []string) {
	if !slices.Equal(r.given, paths) {
		r.given, r.paths = slices.Clone(paths), rawjson.ParsePaths(paths)
	}
}

// edit is a string or a part of one that is replaced.
type edit struct {
	span
	secret []byte
	whole  bool // marks included
}

func (r *redactor) member(w *walk, name span) { r.text(w, name) }

// enter takes what a path names as a whole.
func (r *redactor) enter(w *walk) bool {
	p := r.leading(w)
	r.open = append(r.open[:len(w.frames)], p)
	return !p.End()
}

// leading returns the paths that lead to where the walk is.
func (r *redactor) leading(w *walk) rawjson.Paths {
	top := w.top()
	switch {
	case top == nil:
		return r.paths
	case top.object && len(r.open[len(w.frames)-1]) > 0:
		return r.open[len(w.frames)-1].Member(string(unquoted(w.raw[top.name.start:top.name.end])))
	}
	return r.open[len(w.frames)-1].Element(top.index)
}

func (r *redactor) value(w *walk, kind jsontext.Kind, v span) {
	if r.leading(w).End() {
		r.whole(w, v)
		return
	}
	switch kind {
	case '"':
		said := unquoted(w.raw[v.start:v.end])
		if !r.pieces.add(said, v) {
			r.partly = !r.inParts() || r.partly
			r.pieces.moveOn()
		}
		if _, is := judgeMember(w.name(), said); is {
			r.whole(w, v)
			return
		}
		r.text(w, v)
	case '0':
		if _, is := judgeMember(w.name(), w.raw[v.start:v.end]); is {
			r.whole(w, v)
		}
	}
}

func (r *redactor) pair(w *walk, name, value span) {
	if _, is := judgeMember(w.said(name), w.said(value)); is {
		r.whole(w, value)
	}
}

// whole replaces a value.
func (r *redactor) whole(w *walk, v span) {
	r.edits = append(r.edits, edit{v, w.said(v), true})
}

// text replaces the secrets in a string.
func (r *redactor) text(w *walk, v span) {
	raw := w.raw[v.start:v.end]
	text := unquoted(raw)
	if len(text) < 6 {
		return
	}
	r.said, r.known, r.found, r.disguised = text, nil, r.found[:0], false
	eachReading(text, r.reading)
	r.said, r.known, r.scan = nil, nil, scan{}
	if r.disguised {
		r.whole(w, v)
		return
	}
	if len(r.found) == 0 {
		return
	}
	found := merged(text, r.found)
	for i, s := range within(raw, found) {
		s.start += v.start
		s.end += v.start
		r.edits = append(r.edits, edit{s, text[found[i].start:found[i].end], false})
	}
}

// reading looks at one way to read the string at hand.
func (r *redactor) reading(reading []byte, as readAs) bool {
	r.as = as
	r.scan = scan{engine: theEngine(), text: reading, budget: &r.budget, secret: r.secret, joined: as == rejoined}
	r.disguised = !r.scan.run() || r.disguised
	return !r.disguised
}

// note takes a secret down.
func (r *redactor) note(f find) (more bool) {
	if r.as != asWritten {
		r.disguised = !r.isFound(r.scan.text[f.start:f.end])
		return !r.disguised
	}
	r.found = append(r.found, span{f.start, f.end})
	return !r.disguised
}

// merged sorts finds, carries each on to the end of the token it ends in, and
// joins those that touch.
func merged(text []byte, found []span) []span {
	slices.SortFunc(found, func(a, b span) int { return a.start - b.start })
	out := found[:0]
	for _, f := range found {
		if isRun[text[f.end-1]] {
			f.end += lengthOfRun(text[f.end:])
		}
		if n := len(out); n > 0 && f.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, f.end)
			continue
		}
		out = append(out, f)
	}
	return out
}

func (r *redactor) spliced(values []byte) []byte {
	if len(r.edits) == 0 {
		return values
	}
	// What lies within another replacement goes with it.
	slices.SortFunc(r.edits, func(a, b edit) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	var out []byte
	at := 0
	for _, e := range r.edits {
		if e.start < at {
			continue
		}
		out = append(append(out, values[at:e.start]...), quoted(r.mask(e.secret), e.whole)...)
		at = e.end
	}
	return append(out, values[at:]...)
}

// quoted writes text as a JSON string, or as a part of one.
func quoted(text string, marks bool) []byte {
	out := wire.AppendQuote(nil, text)
	if marks {
		return out
	}
	return bytes.TrimSuffix(bytes.TrimPrefix(out, []byte{'"'}), []byte{'"'})
}
