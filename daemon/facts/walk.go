package facts

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a half-open range of bytes.
type span struct{ start, end int }

// visitor is told of what a walk meets. Spans are of the raw text, quotes
// included, and w.raw[s.start:s.end] is valid for as long as raw is.
type visitor interface {
	// member is told of each member name.
	member(w *walk, name span)
	// enter is asked before a member or an element is read; false takes it as
	// a whole, and value is told of it.
	enter(w *walk) bool
	// value is told of each string, number and literal.
	value(w *walk, kind jsontext.Kind, v span)
	// pair is told of an object that has a name and a value as members, as
	// {"name": "PASSWORD", "value": "..."}. It comes after both.
	pair(w *walk, name, value span)
}

// walk goes once through a JSON text, knowing where it is.
type walk struct {
	raw    []byte
	frames []frame
}

// frame is an object or an array that the walk is in.
type frame struct {
	object bool
	named  bool // object: the name has been read, its value is next
	name   span
	index  int // array: of the element being read
	label  span
	worth  span
}

var errShape = errors.New("not one JSON value")

// run walks raw. It ends early, with an error, where raw isn't JSON.
func (w *walk) run(v visitor) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(w.raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for done := false; ; done = len(w.frames) == 0 {
		kind := d.PeekKind()
		if done || kind == 0 {
			if _, err := d.ReadToken(); err != io.EOF || !done {
				return errors.Join(errShape, err)
			}
			return nil
		}
		top := w.top()
		isName := top != nil && top.object && !top.named && kind == '"'
		if top != nil && !top.object && kind != ']' {
			top.index++
		}
		switch {
		case kind == '}', kind == ']':
			if _, err := d.ReadToken(); err != nil {
				return err
			}
			if top.label.end > 0 && top.worth.end > 0 {
				v.pair(w, top.label, top.worth)
			}
			w.frames = w.frames[:len(w.frames)-1]
			w.finished()
		case (kind == '{' || kind == '[') && v.enter(w):
			if _, err := d.ReadToken(); err != nil {
				return err
			}
			w.frames = append(w.frames, frame{object: kind == '{', index: -1})
		default:
			raw, err := d.ReadValue()
			if err != nil {
				return err
			}
			end := int(d.InputOffset())
			s := span{end - len(raw), end}
			if isName {
				v.member(w, s)
				top.name, top.named = s, true
				continue
			}
			w.note(kind, s)
			v.value(w, kind, s)
			w.finished()
		}
	}
}

func (w *walk) top() *frame {
	if len(w.frames) == 0 {
		return nil
	}
	return &w.frames[len(w.frames)-1]
}

// finished says that the value of a member has been read.
func (w *walk) finished() {
	if top := w.top(); top != nil {
		top.named = false
	}
}

// note remembers what may be one half of a pair.
func (w *walk) note(kind jsontext.Kind, v span) {
	top := w.top()
	if top == nil || !top.object || v.end-v.start > 512 {
		return
	}
	name := w.raw[top.name.start+1 : top.name.end-1]
	switch {
	case kind == '"' && isOneOf(labelNames, name):
		if top.label.end == 0 || bytes.EqualFold(name, []byte("name")) {
			top.label = v
		}
	case isOneOf(worthNames, name):
		top.worth = v
	}
}

var (
	labelNames = map[string]bool{"name": true, "key": true, "field": true, "label": true, "header": true, "variable": true, "parameter": true, "element": true, "property": true}
	worthNames = map[string]bool{"value": true, "text": true, "val": true, "data": true, "content": true}
)

// isOneOf looks a short name up without regard to ASCII case.
func isOneOf(table map[string]bool, name []byte) bool {
	var lower [32]byte
	if len(name) > len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return table[string(lower[:len(name)])]
}

// name returns the text of the name of the member the walk is in; within
// arrays that of the nearest member around them.
func (w *walk) name() []byte {
	for i := len(w.frames) - 1; i >= 0; i-- {
		if f := &w.frames[i]; f.object && f.name.end > 0 {
			return unquoted(w.raw[f.name.start:f.name.end])
		}
	}
	return nil
}

const longestPath = 200

// path returns where the walk is, as `items[2].path`.
func (w *walk) path() string {
	var out []byte
	for _, f := range w.frames {
		switch {
		case f.object && f.name.end > 0:
			if len(out) > 0 {
				out = append(out, '.')
			}
			out = append(out, shown(unquoted(w.raw[f.name.start:f.name.end]))...)
		case !f.object && f.index >= 0:
			out = append(out, '[')
			out = strconv.AppendInt(out, int64(f.index), 10)
			out = append(out, ']')
		}
		if len(out) > longestPath {
			return string(bytes.ToValidUTF8(out[:longestPath], nil)) + "…"
		}
	}
	return string(out)
}

// shown returns as much of a member's name as may be told: it could be a secret
// itself.
func shown(name []byte) []byte {
	if len(name) >= 20 && machineMade(name) {
		return append(bytes.Clone(name[:4]), "…"...)
	}
	return name
}

// unquoted returns what a JSON string says. Without an escape that is a part
// of raw itself. Half a surrogate pair is read as U+FFFD.
func unquoted(raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	at := bytes.IndexByte(inner, '\\')
	if at < 0 {
		return inner
	}
	out := append(make([]byte, 0, len(inner)), inner[:at]...)
	for i := at; i < len(inner); {
		if inner[i] != '\\' {
			out = append(out, inner[i])
			i++
			continue
		}
		r, n := escape(inner[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out
}

// escape reads the escape at the head of text: the character it stands for and
// how many bytes it takes.
func escape(text []byte) (rune, int) {
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(text)
		if utf16.IsSurrogate(r) {
			if len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
				if both := utf16.DecodeRune(r, hex4(text[6:])); both != utf8.RuneError {
					return both, 12
				}
			}
			return utf8.RuneError, 6
		}
		return r, 6
	}
	return rune(text[1]), 2 // " \ /
}

// hex4 reads the digits of \uXXXX.
func hex4(text []byte) rune {
	var r rune
	for _, c := range text[2:6] {
		r = r<<4 | rune(hexValue(c))
	}
	return r
}

// within translates a range of what a JSON string says to the range of the raw
// string that says it, for ranges that come in order.
func within(raw []byte, ranges []span) []span {
	out := make([]span, 0, len(ranges))
	at, said := 1, 0 // said bytes have been said before raw[at]
	upTo := func(n int) int {
		for said < n && at < len(raw)-1 {
			if raw[at] != '\\' {
				at++
				said++
				continue
			}
			r, width := escape(raw[at:])
			at += width
			said += utf8.RuneLen(r)
		}
		return at
	}
	for _, s := range ranges {
		start := upTo(s.start)
		out = append(out, span{start, upTo(s.end)})
	}
	return out
}
