package facts

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
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
		in := f.inspect(t.Context(), c)
		tree, err := worktree.Find(t.Context(), dir, limits)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		line := shell.Parse(command, shell.Options{Dir: dir})
		e := effects.Of(line)
		s := losses{inspection: in, ctx: ctx, line: line, at: atTop, tree: tree}
		s.files(deleted(line, e))
		for _, d := range e.Deeds {
			if d.Kind == effects.GitDiscard {
				s.git(&d)
			}
		}
		if len(in.facts) != 1 || in.facts[0].Name != gate.FactDestroys || !strings.Contains(in.facts[0].Detail, want) {
			t.Errorf("%s: got %v, want %q", command, in.facts, want)
		}
		tree.Close()
		f.finish(in)
	}
}
