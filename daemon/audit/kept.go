package audit

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Kept takes a line of values apart: what was kept of the values, nil for
// nothing, whether that is all of them as they were, and whether they are the params
// of a call and not its arguments alone. What was redacted, cut
// or not kept is not.
func (l *Log) Kept(line []byte) (values []byte, whole, params bool) {
	var sum []byte
	members, err := rawjson.Members(line)
	for _, m := range members {
		switch {
		case (m.Name == ofArguments || m.Name == ofParams) && m.Value.Kind() == '{':
			values, params = bytes.Clone(m.Value), m.Name == ofParams
		case m.Name == "hmac" && m.Value.Kind() == '"':
			sum, err = hex.DecodeString(string(m.Value[1 : len(m.Value)-1]))
		}
	}
	if err != nil {
		return nil, false, false
	}
	key := l.key.Load()
	if values == nil || key == nil {
		return values, false, params
	}
	was := key.sum(values)
	return values, hmac.Equal(sum, was[:]), params
}
