package protocol

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// OneLine returns valid JSON without line breaks: as it came if it has none.
func OneLine(raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Compact(); err != nil {
		return raw // it is no JSON, and nobody takes it for that
	}
	return value
}

// Plain returns text that an extension chose on one line, at most most bytes of it.
func Plain(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
