package policy

import (
	"bytes"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// tooDeep returns the offset at which brackets, and ifs within one policy, nest
// deeper than maxNesting, or -1. It looks at the text alone, because the parser
// that would know better calls itself once for each level.
func tooDeep(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			i = stringEnd(text, i)
		case b == '/' && bytes.HasPrefix(text[i:], []byte("//")):
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				return -1
			}
			i += n
		case b == '(' || b == '[' || b == '{':
			depth++
		case b == ')' || b == ']' || b == '}':
			depth--
		case b == ';':
			depth = 0
		case wordByte(b):
			start := i
			for i+1 < len(text) && wordByte(text[i+1]) {
				i++
			}
			if string(text[start:i+1]) == "if" {
				depth++
			}
		}
		if depth > maxNesting {
			return i
		}
	}
	return -1
}

// stringEnd returns the offset of the quote that ends the string that begins
// at start, or of the last byte.
func stringEnd(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// placeAt is the place of the byte at offset.
func placeAt(path string, text []byte, offset int) config.Place {
	before := text[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return config.Place{
		File: path, Line: 1 + bytes.Count(before, []byte("\n")), Column: 1 + utf8.RuneCount(before[start:]),
	}
}
