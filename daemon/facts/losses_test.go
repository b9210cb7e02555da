package facts

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/shell"
	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
	"github.com/thoughtgate/thoughtgated/internal/worktree"
)

// What could not be counted in time counts as destroyed, and the question says so.
func TestNotCountedInTime(t *testing.T) {
	dir := t.TempDir()
	for command, want := range map[string]string{
		"rm -rf a b":       "what is lost could not be counted in time",
		"rm -rf *":         "what it matches could not be counted in time",
		"git reset --hard": "what it discards could not be counted in time",
	} {
		c := callTo("shell", `{}`)
		c.Project = dir
		f := finder()
		l := f.look(t.Context(), c)
		tree, err := worktree.Find(t.Context(), dir, limits)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		line := shell.Parse(command, shell.Options{Dir: dir})
		e := effects.Of(line)
		s := losses{look: l, ctx: ctx, line: line, at: here, tree: tree}
		s.files(deleted(line, e))
		for _, d := range e.Deeds {
			if d.Kind == effects.GitDiscard {
				s.git(&d)
			}
		}
		if len(l.facts) != 1 || l.facts[0].Name != Destroys || !strings.Contains(l.facts[0].Detail, want) {
			t.Errorf("%s: got %v, want %q", command, l.facts, want)
		}
		tree.Close()
		f.looked(l)
	}
}
