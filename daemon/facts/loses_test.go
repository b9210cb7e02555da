package facts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// patience is how long tests let it be counted what a call would destroy: a busy machine must not make one fail.
const patience = time.Minute

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
		all := facts.New(facts.Options{Home: home, Patience: patience}).Of(t.Context(), c)
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

// The same command may destroy more at another time, and how much is known each time.
func TestExtent(t *testing.T) {
	work, _ := workTree(t)
	write := func(names ...string) func() {
		return func() {
			for _, name := range names {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte("changed"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	remove := func(name string) func() {
		return func() {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Each command is judged before and after something happens, in this order.
	for _, test := range []struct {
		what, command string
		happens       func()
		more          bool
	}{
		{"nothing", "rm -rf notes", func() {}, false},
		{"another file", "rm -rf notes", write(work + "/notes/c.txt"), true},
		{"a file less", "rm -rf notes", remove(work + "/notes/b.txt"), false},
		{"other names", "rm -rf notes", func() { remove(work + "/notes/c.txt")(); write(work + "/notes/d.txt")() }, false},
		{"the first file in no commit", "rm -rf docs", write(work + "/docs/new.md"), true},
		{"one more change", "git reset --hard", write(work + "/main.go"), true},
		{"files of the repository", "rm -rf .git/late", write(work + "/.git/late/x"), true},
		{"the same line, another loss", "rm -rf notes; git branch -D spare", remove(work + "/notes/a.txt"), false},
	} {
		extent := func() gate.Extent {
			raw, err := json.Marshal(map[string]string{"command": test.command, "cwd": work})
			if err != nil {
				t.Fatal(err)
			}
			c := ownToolCall("shell", string(raw), work)
			facts.New(facts.Options{Home: home, Patience: patience}).Of(t.Context(), c)
			return c.Extent
		}
		before := extent()
		test.happens()
		if after := extent(); after.IsBeyond(before) != test.more {
			t.Errorf("%s, %s: %v, then %v; want more: %v", test.command, test.what, before, after, test.more)
		}
	}
}
