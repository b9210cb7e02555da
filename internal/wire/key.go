package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var errNotID = errors.New("not an id: want a string or an integer")

// Key returns a canonical form of a raw id for use in maps: equal ids have equal keys
// however they are escaped, and 1 differs from "1". It fails for an id that readers may
// not all correlate alike.
func Key(id []byte) (string, error) {
	switch {
	case !validID(id):
		return "", errNotID
	case id[0] != '"':
		return string(id), nil // an integer has only one form
	case bytes.IndexByte(id, '\\') < 0:
		return string(id[:len(id)-1]), nil
	}
	text, err := jsontext.AppendUnquote([]byte{'"'}, id)
	if err != nil {
		return "", fmt.Errorf("read id: %w", err)
	}
	return string(text), nil
}

// Unquote returns the value of the JSON string at s in line. It fails if s is absent, is
// not a string, or contains a lone surrogate.
func Unquote(s Span, line []byte) (string, error) {
	raw := s.Of(line)
	if len(raw) == 0 || raw[0] != '"' {
		return "", errors.New("not a string")
	}
	var room [64]byte
	text, err := jsontext.AppendUnquote(room[:0], raw)
	if err != nil {
		return "", fmt.Errorf("read string: %w", err)
	}
	return string(text), nil
}

// AppendQuote appends text as a JSON string to dst. Invalid UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, text string) []byte {
	dst, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(text, "\uFFFD")) // fails for invalid UTF-8 only
	return dst
}

// validID reports whether all readers correlate raw alike: it is a 64-bit integer, or a
// string of valid Unicode that is not too long.
func validID(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	if raw[0] != '"' {
		_, ok := Integer(raw)
		return ok
	}
	if len(raw) > 6*MaxID+2 || len(raw) < 2 || raw[len(raw)-1] != '"' {
		return false
	}
	text := raw[1 : len(raw)-1]
	for _, c := range text {
		if c < ' ' {
			return false
		}
	}
	if bytes.IndexByte(text, '\\') >= 0 {
		var room [256]byte
		unquoted, err := jsontext.AppendUnquote(room[:0], raw)
		return err == nil && len(unquoted) <= MaxID
	}
	return bytes.IndexByte(text, '"') < 0 && len(text) <= MaxID && utf8.Valid(text)
}

// Integer parses a JSON number that is a 64-bit integer: no fraction, no exponent, no
// negative zero.
func Integer(raw []byte) (int64, bool) {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(raw) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}
