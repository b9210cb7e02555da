package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// piece is one string of a result.
type piece struct {
	start, end int    // position in the result, with its quotes
	name       string // of the member with this value; empty in an array
	isName     bool   // it is itself the name of a member
	text       string // the decoded string
	blob       *base64.Encoding

	at int // offset of text in the text that is searched
}

// open is an object or array around the current position.
type open struct {
	object  bool
	name    string // of the current member
	hasName bool   // the next value belongs to name
	mime    string // value of its member mimeType
	pending int    // the piece that is its member blob or data, counted from 1; 0 for none
}

// walker extracts the strings of a result.
type walker struct {
	raw    []byte
	dec    *jsontext.Decoder
	stack  []open
	pieces []piece
}

// loose accepts an escaped lone surrogate, which JavaScript writes for truncated text. It also
// accepts invalid UTF-8, which is therefore checked first.
var loose = jsontext.AllowInvalidUTF8(true)

// stringsOf returns the strings of raw, one JSON text, in order.
func stringsOf(raw []byte) ([]piece, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("the result is not UTF-8")
	}
	w := walker{raw: raw, dec: jsontext.NewDecoder(bytes.NewBuffer(raw), loose), stack: []open{{}}}
	for {
		err := w.next()
		if err == io.EOF && len(w.stack) == 1 {
			return w.pieces, nil
		}
		if err != nil {
			// The decoder's error may quote what it read.
			return nil, fmt.Errorf("the result is no JSON at byte %d", w.dec.InputOffset())
		}
	}
}

func (w *walker) next() error {
	top := &w.stack[len(w.stack)-1]
	switch kind := w.dec.PeekKind(); kind {
	case '{', '[':
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
		top.hasName = false
		w.stack = append(w.stack, open{object: kind == '{'})
	case '}', ']':
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
		w.close(top)
		w.stack = w.stack[:len(w.stack)-1]
	case '"':
		value, err := w.dec.ReadValue()
		if err != nil {
			return err
		}
		w.found(top, value)
	default:
		if _, err := w.dec.ReadValue(); err != nil {
			return err
		}
		top.hasName = false
	}
	return nil
}

// found adds a string, a name or a value.
func (w *walker) found(top *open, quoted []byte) {
	end := int(w.dec.InputOffset())
	text, _ := jsontext.AppendUnquote(nil, quoted) // fails for lone surrogates, which become U+FFFD
	p := piece{start: end - len(quoted), end: end, text: string(text)}
	if top.object && !top.hasName {
		p.isName, top.name, top.hasName = true, p.text, true
		w.pieces = append(w.pieces, p)
		return
	}
	if top.object {
		p.name, top.hasName = top.name, false
	}
	w.pieces = append(w.pieces, p)
	switch p.name {
	case "mimeType":
		top.mime = p.text
	case "blob", "data":
		top.pending = len(w.pieces)
	}
}

// close handles the end of an object. If the object embeds content, text is searched as text,
// and binary data such as an image not at all.
func (w *walker) close(top *open) {
	if top.pending == 0 {
		return
	}
	p := &w.pieces[top.pending-1]
	encoding, content, ok := decode(p.text)
	switch {
	case !ok || p.name == "data" && top.mime == "": // a member that happens to have the name
	case textual(top.mime) || utf8.Valid(content):
		p.blob, p.text = encoding, string(content)
	case p.name == "blob" || top.mime != "":
		p.text = ""
	}
}

// decode decodes base64 in any of its variants.
func decode(text string) (*base64.Encoding, []byte, bool) {
	if text == "" {
		return nil, nil, false
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if content, err := encoding.DecodeString(text); err == nil {
			return encoding, content, true
		}
	}
	return nil, nil, false
}

// textual reports whether a MIME type is a text format.
func textual(mime string) bool {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	mime = strings.TrimSpace(mime)
	if strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml") || strings.HasSuffix(mime, "+yaml") {
		return true
	}
	switch mime {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/javascript",
		"application/x-sh", "application/x-pem-file", "application/x-www-form-urlencoded", "application/sql", "application/ndjson":
		return true
	}
	return false
}
