package facts_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/facts"
)

// A call knows which files of the work tree nothing else has, so that they can be copied.
func TestLoses(t *testing.T) {
	work, _ := workTree(t)
	for _, test := range []struct {
		command, names string // none: nothing can be copied
		more           bool
	}{
		{"rm -rf notes", "notes/a.txt notes/b.txt", false},
		{"rm -rf docs notes node_modules", "notes/a.txt notes/b.txt", false},
		{"rm scratch.txt changed.go main.go", "changed.go scratch.txt", false},
		{"rm -rf .", "changed.go notes/a.txt notes/b.txt scratch.txt", true},
		{"rm scratch.txt /etc/hostname", "scratch.txt", true},
		{"rm scratch.txt && dropdb shop", "scratch.txt", true},
		{"git reset --hard", "changed.go", false},
		{"git checkout .", "changed.go", false},
		{"git checkout -f spare", "changed.go", false},
		{"git stash -u && git stash clear", "changed.go notes/a.txt notes/b.txt scratch.txt", false},
		{"git restore -s spare scratch.txt changed.go docs", "changed.go scratch.txt", false},
		{"git clean -fd", "notes/a.txt notes/b.txt scratch.txt", false},
		{"git reset && git clean -fd", "notes/a.txt notes/b.txt scratch.txt", false},
		{"git rm -r --cached . && git clean -fd", "changed.go notes/a.txt notes/b.txt scratch.txt", false},
		{"git clean -fd && git branch -D spare", "notes/a.txt notes/b.txt scratch.txt", true},
		{"git branch -D spare", "none", false},
		{"rm -rf docs", "none", false},
		{"rm -rf ../clean", "none", false},
	} {
		raw, err := json.Marshal(map[string]string{"command": test.command, "cwd": work})
		if err != nil {
			t.Fatal(err)
		}
		c := ownToolCall("shell", string(raw), work)
		all := facts.New(facts.Options{Home: home}).Of(t.Context(), c)
		names, more := "none", false
		if c.Loses != nil {
			slices.Sort(c.Loses.Names)
			names, more = strings.Join(c.Loses.Names, " "), c.Loses.More
			if c.Loses.Root != work {
				t.Errorf("%s: below %s", test.command, c.Loses.Root)
			}
		}
		if names != test.names || more != test.more {
			t.Errorf("%s: loses %q, more %v; want %q, %v\n%v", test.command, names, more, test.names, test.more, all)
		}
	}
}
