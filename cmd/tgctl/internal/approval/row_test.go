package approval

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/notifications.md lists the facts that make a notification urgent.
func TestPageListsGraveFacts(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "[facts](facts.md) ")
	list, _, found := strings.Cut(list, " are marked urgent")
	var got []string
	for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(list, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(graveFacts)); !found || !slices.Equal(got, want) {
		t.Errorf("docs/notifications.md lists %q, graveFacts are %q", got, want)
	}
}
