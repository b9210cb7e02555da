package wire

import "bytes"

// IsHTTP2Preface reports whether line is the first line that every HTTP/2
// connection opens with. What follows is not text: there is nothing to go on
// with.
func IsHTTP2Preface(line []byte) bool {
	return bytes.Equal(line, []byte("PRI * HTTP/2.0"))
}

// IsHeader reports whether line looks like a header of ContentLength framing,
// which a peer that was written for a language server sends. The lines are
// refused like any other bad line; it is worth telling a person once.
func IsHeader(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return false
	}
	return bytes.EqualFold(name, []byte("Content-Length")) || bytes.EqualFold(name, []byte("Content-Type"))
}
