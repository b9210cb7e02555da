package facts_test

import (
	"path/filepath"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/facts"
)

// No text of a command makes an examination fail, and what may be granted of it is the same each time.
func FuzzGrain(f *testing.F) {
	for _, seed := range []string{"git push 2>&1", "env -S 'a \\_ ${X}' b", "git -C x -c a.b=c --git-dir=x log --output=a", "make -C.. a", "npm run 'a b' -- --x=~/y", "cat </dev/null >a; printf '' >b", "git apply -R <x; git diff >x", "f() { : ; } >a; f", "git clone --template=x a:b", "go test -exec 'sh -c x' ./...",
		"git merge -", "ls -- --", "tsc -I/a --b=c,~/d '=' ''", "make a:b @c", "git \xff"} {
		f.Add(seed, "")
	}
	top, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	finder := facts.New(facts.Options{Home: home})
	f.Fuzz(func(t *testing.T, command, cwd string) {
		c := shellCall(command, top+cwd, top)
		_ = finder.Of(t.Context(), c)
		first := c.Grain
		if again := finder.Grain(t.Context(), top, c.Arguments()); first != nil && again != nil && *first != *again {
			t.Errorf("%q: %+v, then %+v", command, first, again)
		}
		if first != nil && first.Alone == "" && !first.Covers(first) {
			t.Errorf("%q: %+v does not cover itself", command, first)
		}
	})
}
