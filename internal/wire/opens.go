package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// OpensMessage reports whether somebody who reads one JSON value after the other could
// take text for a message, or for several in an array.
func OpensMessage(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		depth := d.StackDepth()
		if err != nil || depth == 0 {
			return false
		}
		outermost, _ := d.StackIndex(1)
		kind, n := d.StackIndex(depth)
		if kind == '{' && n%2 == 1 && (depth == 1 || depth == 2 && outermost == '[') {
			if name := token.String(); name == "jsonrpc" || name == "method" {
				return true
			}
		}
	}
}
