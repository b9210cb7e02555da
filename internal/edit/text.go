package edit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Quoted returns s in double quotes. A backslash is inserted before each quote and backslash,
// and the characters for which escape returns true are written as \uXXXX. Bytes that are not
// UTF-8 stay as they are.
func Quoted(s string, escape func(rune) bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case escape(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	b.WriteByte('"')
	return b.String()
}

// Members returns the text of the members of an object, separated by commas. joint separates a
// name from its value.
func Members(members []Member, quote func(string) string, joint string) string {
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = quote(m.Name) + joint + m.Value
	}
	return strings.Join(texts, ", ")
}

// HashComment returns the offset after the # comment that begins at i, or i+1 if none begins
// there.
func HashComment(text []byte, i int) int {
	if text[i] != '#' {
		return i + 1
	}
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}

// IsBraced reports whether text is one object between braces.
func IsBraced(s Syntax, text string) bool {
	n, err := s.Value(text)
	return err == nil && n.Kind() == Object
}

// LiftBraced is [Syntax.Lift] for an object between braces. joint is the text between a name and its
// value.
func LiftBraced(s Syntax, joint, text string) (*Document, []string, error) {
	d, err := s.Read([]byte("v" + joint + text))
	return d, []string{"v"}, err
}

// LoneValue parses text as the value of the only member of a file. joint is the text between a
// name and its value in the syntax. It is an error if text is more than one value.
func LoneValue(s Syntax, joint, text string) (Node, error) {
	d, err := s.Parse([]byte("v" + joint + text))
	if err != nil {
		return Node{}, err
	}
	n := d.Root().Member("v")
	if len(d.Root().Value().Kids) != 1 || n.Raw() != text {
		return Node{}, errors.New("it is more than a value")
	}
	return n, nil
}
