package facts

import (
	"bytes"
	"encoding/base32"
)

// A host name can carry data to whoever answers for its domain, before any request is made: as
// labels that are an encoding of text, or by many labels into which a longer text was cut.

const (
	shortestCode  = 16 // a label that could be base32 or base64
	shortestHex   = 12
	shortestChunk = 8
	fewestChunks  = 4
)

// hostIn returns the host in a text that is an address, with its letters as they are.
func hostIn(text []byte) []byte {
	if _, rest, ok := bytes.Cut(text, []byte("://")); ok {
		text = rest
	}
	return hostOf(text[:endBefore(&endsAuthority, text, 0, 2*longestHost)])
}

// carriesData reports whether a host name carries data. The last two labels, at least, are the name
// of the domain.
func carriesData(host []byte) bool {
	labels := bytes.Split(host, []byte("."))
	if len(labels) < 3 || len(host) > longestHost {
		return false
	}
	chunks := 0
	for i, label := range labels[:len(labels)-2] {
		if isEncodedText(label) {
			return true
		}
		if i == 0 || len(label) != len(labels[i-1]) {
			chunks = 0
		}
		if chunks++; chunks >= fewestChunks && len(label) >= shortestChunk {
			return true
		}
	}
	return false
}

// isEncodedText reports whether a label is hex digits, base32 or base64 that text was encoded as. So
// is what is in capitals with digits: nobody writes a host like that.
func isEncodedText(label []byte) bool {
	upper, lower := bytes.ToUpper(label), bytes.ToLower(label)
	isUpper, isLower := bytes.Equal(label, upper), bytes.Equal(label, lower)
	switch n := len(label); {
	case n >= shortestHex && isHex(label) && (n >= 2*shortestHex || bytes.ContainsAny(lower, "abcdef")):
		return isSpelled(decodeHex(nil, label))
	case n < shortestCode:
		return false
	case isUpper || isLower:
		if len(bytes.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")) > 0 {
			return false
		}
		text, err := base32.StdEncoding.WithPadding(base32.NoPadding).AppendDecode(nil, upper)
		return err == nil && (isSpelled(text) || isUpper && hasDigit(label))
	}
	for _, c := range label {
		if base64Value[c] == 0 {
			return false
		}
	}
	return isSpelled(decodeBase64(nil, label))
}

// isSpelled reports whether text consists of letters, digits and the marks between parts of a name or an
// address.
func isSpelled(text []byte) bool {
	for _, c := range text {
		if madeOf[c]&(ofLower|ofUpper) == 0 && !isDigit(c) && bytes.IndexByte([]byte(" _-.:/@=+,;"), c) < 0 {
			return false
		}
	}
	return true
}
