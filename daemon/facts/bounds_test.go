package facts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// A path that occurs in a call many times is followed once, and files of ours are listed once for
// all links in the call.
func TestEqualPathsAreFollowedOnce(t *testing.T) {
	h := newFixture(t)
	for i := range 3 {
		name := fmt.Sprintf("%s/twice%d.txt", h.project, i)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(name, name+".too"); err != nil {
			t.Fatal(err)
		}
	}
	three := []string{quotedPath(h.project + "/twice0.txt"), quotedPath(h.project + "/twice1.txt"), quotedPath(h.project + "/twice2.txt")}
	c := callTo("read_files", `{"paths":[`+strings.Join(three, ",")+strings.Repeat(","+three[0], 5000)+`]}`)
	c.Project = h.project
	in := h.finder.inspect(context.Background(), c)
	in.json(c.Arguments())
	if in.follow != 3 || len(in.facts) > 0 {
		t.Errorf("followed %d times, want 3; facts %v", in.follow, in.facts)
	}
}

func quotedPath(p string) string { return string(quoted(p, true)) }

// A second name of a file of ours is recognized however many other files there are.
func TestLinkedAmongManyFiles(t *testing.T) {
	h := newFixture(t)
	state := h.home + "/.local/state/thoughtgate"
	for i := range 5000 {
		if err := os.WriteFile(fmt.Sprintf("%s/audit/%06d.jsonl", state, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unreadable := state + "/audit/000000.d"
	if err := os.Mkdir(unreadable, 0); err != nil { // for any but root
		t.Fatal(err)
	}
	if err := os.WriteFile(state+"/z", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, p := range []string{state + "/audit/004999.jsonl", state + "/z"} {
		name := fmt.Sprintf("linked%d", i)
		if err := os.Link(p, filepath.Join(h.project, name)); err != nil {
			t.Fatal(err)
		}
		if !h.isOurs("read_file", "path", name) {
			t.Errorf("a link to %s is not seen to be ours", p)
		}
	}
}

// Once its context is done, a look examines nothing more.
func TestLookingStopsWithItsContext(t *testing.T) {
	h := newFixture(t)
	var args []string
	for i := range 1000 {
		args = append(args, quotedPath(fmt.Sprintf("docs/%d.md", i)))
	}
	c := callTo("read_files", `{"paths":[`+strings.Join(args, ",")+`],"pattern":["*.md"]}`)
	c.Project = h.project
	ctx := &endsAfter{Context: context.Background(), left: 300}
	in := h.finder.inspect(ctx, c)
	defer h.finder.finish(in)
	in.json(c.Arguments())
	in.joined()
	if in.follow > 300 {
		t.Errorf("%d paths were followed", in.follow)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if led, _ := linkByLink(ended, "/", strings.Repeat("usr/../", 500)+"x"); led != "/" {
		t.Errorf("followed as far as %q", led)
	}
	if files := h.finder.own.inodes(ended, []string{h.home}, c.Received); len(files) > 0 {
		t.Errorf("found %d files", len(files))
	}
}

// endsAfter is a context that is done after a number of checks.
type endsAfter struct {
	context.Context
	left int
}

func (e *endsAfter) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// The expansion of folder variables is bounded: beyond the bound, a person is asked about the
// call.
func TestFoldersWrittenOutAreBounded(t *testing.T) {
	h := newFixture(t)
	for _, stands := range []string{"$PWD ", "${HOME} ", "~ "} {
		if h.isOurs("write_file", "content", strings.Repeat(stands, 1000)) {
			t.Errorf("%q a thousand times is taken for ours", stands)
		}
		n := mostExpanded/len(h.home) + 1
		if !h.isOurs("write_file", "content", strings.Repeat(stands, n)) {
			t.Errorf("%q %d times is written out", stands, n)
		}
	}
}

// The number of paths that are followed is bounded: beyond it, a person is asked, since each of the
// others may lead to files of ours.
func TestPathsThatAreFollowedAreBounded(t *testing.T) {
	h := newFixture(t)
	var paths []string
	for i := range mostFollowed + 1 {
		paths = append(paths, fmt.Sprintf(`"none/%d"`, i))
	}
	for _, n := range []int{1000, len(paths)} {
		c := callTo("read_files", `{"paths":[`+strings.Join(paths[:n], ",")+`]}`)
		c.Project = h.project
		l := h.finder.inspect(context.Background(), c)
		l.json(c.Arguments())
		if isOurs := slices.ContainsFunc(l.facts, func(f gate.Fact) bool { return f.Name == gate.FactOurs }); isOurs != (n > mostFollowed) {
			t.Errorf("of %d paths %d were followed; facts %v", n, l.follow, l.facts)
		}
	}
}
