package display

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Caseless is a name without regard to case.
type Caseless struct {
	name, key string
	plain     bool
}

// NewCaseless returns that of name.
func NewCaseless(name string) Caseless { return Caseless{name: name, plain: IsASCII(name)} }

// Is reports whether some program that takes capitals for small letters takes other
// for the name: those that fold one letter at a time, as most do, or all of Unicode,
// where ß is ss and ﬁ is fi (Python's casefold, JavaScript's toUpperCase), those of
// Turkey, and those that compare what is compatible (full width letters).
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

// IsASCII reports whether text has no byte outside of ASCII.
func IsASCII[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
