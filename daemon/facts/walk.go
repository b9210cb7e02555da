package facts

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a half-open range of bytes.
type span struct{ start, end int }

// visitor receives what a walk encounters. Spans refer to the raw text and include quotes.
// w.raw[s.start:s.end] is valid as long as raw is.
type visitor interface {
	// member is called for each member name.
	member(w *walk, name span)
	// enter is called before an object or array is read. If it returns false, the object or array
	// is read as a whole and passed to value.
	enter(w *walk) bool
	// value is called for each string, number and literal.
	value(w *walk, kind jsontext.Kind, v span)
	// pair is called, after both, for an object that has a name and a value as members, such as
	// {"name": "PASSWORD", "value": "..."}.
	pair(w *walk, name, value span)
}

// walk traverses a JSON text and keeps track of its position. It can be reused for one text after
// another.
type walk struct {
	raw     []byte
	frames  []frame
	decoder jsontext.Decoder
	text    bytes.Buffer // raw, for decoder
}

// frame is an object or array that encloses the position of the walk.
type frame struct {
	object bool
	name   span
	index  int // index of the current element of an array
	label  span
	worth  span
}

var errShape = errors.New("not one JSON value")

// decoderOptions are the options of the decoder. JSON that two parsers may read differently has already
// been refused.
var decoderOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// deepest is the maximum number of frames whose buffer is kept for the next text.
const deepest = 64

// end drops all references to the text except raw.
func (w *walk) end() {
	if w.frames = w.frames[:0]; cap(w.frames) > deepest {
		w.frames = nil
	}
	w.text = bytes.Buffer{}
	w.decoder.Reset(&w.text)
}

// run walks raw. It fails early if raw is not JSON.
func (w *walk) run(v visitor) error {
	w.text = *bytes.NewBuffer(w.raw)
	d := &w.decoder
	d.Reset(&w.text, decoderOptions...)
	defer w.end()
	for done := false; ; done = len(w.frames) == 0 {
		kind := d.PeekKind()
		if done || kind == 0 {
			if _, err := d.ReadToken(); err != io.EOF || !done {
				return errors.Join(errShape, err)
			}
			return nil
		}
		top := w.top()
		in, read := d.StackIndex(d.StackDepth()) // count of names and values, or of elements
		if in == '[' && kind != ']' {
			top.index = int(read)
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
			if in == '{' && read%2 == 0 {
				v.member(w, s)
				top.name = s
				continue
			}
			w.recordPairHalf(kind, s)
			v.value(w, kind, s)
		}
	}
}

func (w *walk) top() *frame {
	if len(w.frames) == 0 {
		return nil
	}
	return &w.frames[len(w.frames)-1]
}

// said returns the text of the value at v: the decoded string, or the raw value of another kind.
func (w *walk) said(v span) []byte {
	raw := w.raw[v.start:v.end]
	if raw[0] == '"' {
		return unquoted(raw)
	}
	return raw
}

// recordPairHalf records a value that may be one half of a pair.
func (w *walk) recordPairHalf(kind jsontext.Kind, v span) {
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

// isOneOf looks up a short name, ignoring ASCII case.
func isOneOf(table map[string]bool, name []byte) bool { return lookUp(table, name) }

// lookUp returns the value for a short name, ignoring ASCII case.
func lookUp[V any](table map[string]V, name []byte) (value V) {
	var lower [32]byte
	if len(name) > len(lower) {
		return value
	}
	for i, c := range name {
		lower[i] = lowerASCII(c)
	}
	return table[string(lower[:len(name)])]
}

// name returns the text of the current member's name. Inside arrays, that is the nearest
// enclosing member.
func (w *walk) name() []byte {
	for i := len(w.frames) - 1; i >= 0; i-- {
		if name := w.nameAt(i); name != nil {
			return name
		}
	}
	return nil
}

// nameAt returns the text of the current member's name in the frame at depth. It returns nil if
// there is no such frame, or if it is an array or at its start.
func (w *walk) nameAt(depth int) []byte {
	if depth >= len(w.frames) || w.frames[depth].name.end == 0 {
		return nil
	}
	return w.said(w.frames[depth].name)
}

const longestPath = 200

// path returns the position of the walk, such as `items[2].path`.
func (w *walk) path() string {
	var room [64]byte
	out := room[:0]
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
			return strings.ToValidUTF8(string(out[:longestPath]), "") + "…"
		}
	}
	return string(out)
}

// shown returns the part of a member's name that may be shown, since the name itself could be a
// secret.
func shown(name []byte) []byte {
	if len(name) >= 20 && machineMade(name) {
		return append(bytes.Clone(name[:4]), "…"...)
	}
	return name
}
