package facts

import (
	"bytes"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Redact returns values, a raw JSON value, with each secret that it recognizes and each member
// that paths name replaced by the result of mask. All other bytes are unchanged. Redact does not
// modify values, and returns it if there is nothing to replace. For the syntax of paths see
// [rawjson.Paths].
//
// mask receives the unescaped secret: the secret part of a string, or the value of a named member
// (as raw JSON if it is not a string). If a secret is disguised or could not be isolated in
// bounded time, that is the whole string. mask may return any text. If values is not JSON, the
// result is a single masked string.
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

// redactor collects the replacements during a walk.
type redactor struct {
	given  []string        // paths as given
	paths  rawjson.Paths   // given, parsed
	open   []rawjson.Paths // paths that continue at each frame of the walk
	mask   func([]byte) string
	budget int
	edits  []edit

	walk   walk
	pieces pieces
	partly bool // not all pieces were examined

	// State of the current string.
	scan      scan
	said      []byte          // the decoded string
	known     map[string]bool // what was found in it; set when another reading has a secret
	as        readAs          // the current reading
	found     []span
	disguised bool
	secret    func(find) bool // the method note, bound once
}

var redactors = sync.Pool{New: func() any {
	r := &redactor{}
	r.secret = r.recordSecret
	return r
}}

// mostEdits is the maximum number of edits for which a redactor keeps its buffer.
const mostEdits = 64

// release returns r to its pool. It retains nothing that r was given, except the paths, which
// come from the configuration.
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

// splitting parses the paths, unless they are the same as last time.
func (r *redactor) splitting(paths []string) {
	if !slices.Equal(r.given, paths) {
		r.given, r.paths = slices.Clone(paths), rawjson.ParsePaths(paths)
	}
}

// edit is a replacement of a string or of a part of one.
type edit struct {
	span
	secret []byte
	whole  bool // including the quotes
}

func (r *redactor) member(w *walk, name span) { r.text(w, name) }

// enter returns false for a value that a path names, so that it is treated as a whole.
func (r *redactor) enter(w *walk) bool {
	p := r.leading(w)
	r.open = append(r.open[:len(w.frames)], p)
	return !p.End()
}

// leading returns the rest of the paths that lead to the position of the walk.
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
			r.pieces.discardExamined()
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

// whole replaces an entire value.
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

// reading examines one reading of the current string.
func (r *redactor) reading(reading []byte, as readAs) bool {
	r.as = as
	r.scan = scan{engine: theEngine(), text: reading, budget: &r.budget, secret: r.secret, joined: as == rejoined}
	r.disguised = !r.scan.run() || r.disguised
	return !r.disguised
}

// recordSecret records a secret.
func (r *redactor) recordSecret(f find) (more bool) {
	if r.as != asWritten {
		r.disguised = !r.isFound(r.scan.text[f.start:f.end])
		return !r.disguised
	}
	r.found = append(r.found, span{f.start, f.end})
	return !r.disguised
}

// merged sorts finds, extends each to the end of the token in which it ends, and joins those that
// touch.
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
	// An edit inside another one is covered by it.
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

// quoted encodes text as a JSON string, without the quotes if marks is false.
func quoted(text string, marks bool) []byte {
	out := wire.AppendQuote(nil, text)
	if marks {
		return out
	}
	return bytes.TrimSuffix(bytes.TrimPrefix(out, []byte{'"'}), []byte{'"'})
}
