package facts

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A place is looked for only in a text with a keyword, so a place without one is never found.
func TestEverySecretPlaceHasAKeyword(t *testing.T) {
	for _, place := range slices.Concat(secretPaths, slices.Sorted(maps.Keys(secretFolders)), slices.Sorted(maps.Keys(secretFiles)),
		slices.Sorted(maps.Keys(secretEnds))) {
		named := strings.Trim(place, "/") // a text may name it without the slashes around it
		if !slices.ContainsFunc(placeKeywords, func(keyword string) bool { return strings.Contains(named, keyword) }) {
			t.Errorf("no keyword of placeKeywords is in %q", place)
		}
		if place != strings.ToLower(place) {
			t.Errorf("%q is not in lower case", place)
		}
	}
}
