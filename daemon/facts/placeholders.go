package facts

import (
	"bytes"
	"slices"
)

// isPlaceholder reports whether a value stands for one that is filled in elsewhere, or is not a
// real value.
func isPlaceholder(v []byte) bool {
	if len(v) == 0 || isOneOf(noValues, v) {
		return true
	}
	last := v[len(v)-1]
	switch v[0] {
	case '$':
		if len(v) == 1 || v[1] == '{' || v[1] == '(' || isVariable(v[1:]) {
			return true
		}
	case '<':
		return last == '>'
	case '{', '[':
		return last == '}' || last == ']'
	case '%':
		return len(v) < 3 || last == '%'
	}
	if same := bytes.Count(v, v[:1]); same == len(v) && !isDigit(v[0]) {
		return true
	}
	return slices.ContainsFunc(placeholders, func(p string) bool { return containsFold(v, p) })
}

// isVariable reports whether v is a name in one case, as after a $.
func isVariable(v []byte) bool {
	var lower, upper bool
	for i, c := range v {
		lower = lower || c >= 'a' && c <= 'z'
		upper = upper || c >= 'A' && c <= 'Z'
		if !isWord(c) || isDigit(c) && (i == 0 || lower) {
			return false
		}
	}
	return !(lower && upper)
}

var noValues = set("null", "none", "nil", "true", "false", "yes", "no", "undefined", "unknown", "empty", "n/a", "string", "str", "text",
	"number", "integer", "boolean", "bool", "object", "required", "optional", "redacted", "masked", "hidden", "default", "bytes", "any",
	"expired", "invalid", "missing", "changeme", "todo", "tbd", "xxx", "basic", "bearer", "field", "input")

var placeholders = []string{"****", "••••", "xxxxxx", "process.env", "os.environ", "getenv", "your-", "your_", "yourpassword", "yourtoken",
	"redacted", "placeholder", "example_", "<insert", "{{", "${", "$(", "secrets.", "vault:", "_here"}

// containsFold is bytes.Contains ignoring ASCII case. word must be lower case.
func containsFold(text []byte, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		j := 0
		for j < len(word) && lowerASCII(text[i+j]) == word[j] {
			j++
		}
		if j == len(word) {
			return true
		}
	}
	return false
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
