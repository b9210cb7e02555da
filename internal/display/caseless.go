package display

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Caseless returns what says whether some program that takes capitals for small
// letters takes another name for this one: those that fold one letter at a time, as
// most do, or all of Unicode, where ß is ss and ﬁ is fi (Python's casefold, JavaScript's
// toUpperCase), those of Turkey, and those that compare what is compatible (full width
// letters).
func Caseless(name string) func(other string) bool {
	key, plain := caseKey(name), isASCII(name)
	return func(other string) bool {
		return strings.EqualFold(other, name) || !(plain && isASCII(other)) && caseKey(other) == key
	}
}

var turkish = strings.NewReplacer("\u0131", "i", "\u0130", "i")

func caseKey(name string) string {
	return cases.Fold().String(norm.NFKC.String(turkish.Replace(name)))
}

func isASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 })
}
