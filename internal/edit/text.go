package edit

import (
	"errors"
	"fmt"
	"strings"
)

// Quoted is s in double quotes, with a backslash before each quote and backslash,
// and the characters that escape names written as \uXXXX. It is for syntaxes that
// share that much.
func Quoted(s string, escape func(rune) bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case escape(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// LoneValue reads text as the value of a member in a file of its own; joint is what
// the syntax has between a name and its value. Text that is more than one value is
// an error.
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
