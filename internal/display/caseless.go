package display

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Caseless is a name that is compared without regard to case.
type Caseless struct {
	name, key string
	plain     bool
}

// NewCaseless returns the Caseless for name.
func NewCaseless(name string) Caseless { return Caseless{name: name, plain: IsASCII(name)} }

// Is reports whether some case-insensitive program takes other for the name. It covers
// programs that fold one letter at a time, as most do; full Unicode folding, where ß is
// ss and ﬁ is fi (Python's casefold, JavaScript's toUpperCase); Turkish folding; and
// compatibility forms (full-width letters).
func (c *Caseless) Is(other string) bool {
	if strings.EqualFold(other, c.name) {
		return true
	}
	if c.plain && IsASCII(other) {
		return false
	}
	if c.key == "" {
		c.key = caseKey(c.name)
	}
	return caseKey(other) == c.key
}

var turkish = strings.NewReplacer("\u0131", "i", "\u0130", "i")

func caseKey(name string) string {
	return cases.Fold().String(norm.NFKC.String(turkish.Replace(name)))
}

// IsASCII reports whether text is all ASCII.
func IsASCII[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
