package audit

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
)

// Kept takes a line of values apart: what was kept of the values, nil for
// nothing, and whether that is all of them as they were. What was redacted, cut
// or not kept is not.
func (l *Log) Kept(line []byte) (values []byte, whole bool) {
	var sum []byte
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		member := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		switch {
		case member == "arguments" && value.Kind() == '{':
			values = bytes.Clone(value)
		case member == "hmac" && value.Kind() == '"':
			if sum, err = hex.DecodeString(string(value[1 : len(value)-1])); err != nil {
				return nil, false
			}
		}
	}
	key := l.key.Load()
	if values == nil || key == nil {
		return values, false
	}
	was := key.sum(values)
	return values, hmac.Equal(sum, was[:])
}
