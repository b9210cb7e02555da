package jsonc

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Quote implements [edit.Syntax].
func (Syntax) Quote(s string) string { return Quote(s) }

// List implements [edit.Syntax].
func (Syntax) List(values []string) string { return "[" + strings.Join(values, ", ") + "]" }

// Table implements [edit.Syntax].
func (Syntax) Table(members []edit.Member) string {
	return "{" + edit.Members(members, Quote, ": ") + "}"
}

// Quote writes s as a JSON string. Bytes that are not UTF-8 stay as they are.
func Quote(s string) string {
	return edit.Quoted(s, func(r rune) bool { return r < ' ' })
}

// unquote returns what a JSON string, known to be well formed, stands for.
// encoding/json would make one replacement character of every lone surrogate
// and every byte that is not UTF-8; here a surrogate without its partner becomes
// the three bytes that UTF-8 would have for it, so that different strings stay
// different.
func unquote(literal hujson.Literal) string {
	inner := string(literal[1 : len(literal)-1])
	if !strings.Contains(inner, `\`) {
		return inner
	}
	b := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			b = append(b, inner[i])
			continue
		}
		i++
		if inner[i] != 'u' {
			b = append(b, unescape(inner[i]))
			continue
		}
		r := hexRune(inner[i+1:])
		i += 4
		if utf16.IsSurrogate(r) && strings.HasPrefix(inner[i+1:], `\u`) {
			if pair := utf16.DecodeRune(r, hexRune(inner[i+3:])); pair != utf8.RuneError {
				r = pair
				i += 6
			}
		}
		b = appendRune(b, r)
	}
	return string(b)
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}

func hexRune(s string) rune {
	n, _ := strconv.ParseUint(s[:4], 16, 16) // four digits: the parser saw to it
	return rune(n)
}

// appendRune is utf8.AppendRune, with surrogates written as if they were runes.
func appendRune(b []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(b, r)
}
