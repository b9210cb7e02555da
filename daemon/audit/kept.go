package audit

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
)

// Kept takes a line of values apart: what was kept of the values, nil for
// nothing, whether that is all of them as they were, and whether they are the params
// of a call and not its arguments alone. What was redacted, cut
// or not kept is not.
func (l *Log) Kept(line []byte) (values []byte, whole, params bool) {
	var sum []byte
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, false, false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, false, false
		}
		member := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, false, false
		}
		switch {
		case (member == ofArguments || member == ofParams) && value.Kind() == '{':
			values, params = bytes.Clone(value), member == ofParams
		case member == "hmac" && value.Kind() == '"':
			if sum, err = hex.DecodeString(string(value[1 : len(value)-1])); err != nil {
				return nil, false, false
			}
		}
	}
	key := l.key.Load()
	if values == nil || key == nil {
		return values, false, params
	}
	was := key.sum(values)
	return values, hmac.Equal(sum, was[:]), params
}
