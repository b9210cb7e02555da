package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/session"
)

// A file that a wrap may rewrite counts from the moment that its journal names it.
func TestWrapsSeeAJournalThatChanges(t *testing.T) {
	journal := func(path string) []byte {
		return fmt.Appendf(nil, `{"pointed":1,"session":"0a","folder":"/home/u/.cache/0a","path":%q}`, path)
	}
	var w wraps
	for _, step := range []struct {
		files []session.File
		want  []string
	}{
		{nil, nil},
		{[]session.File{{Path: "/a", Journal: []byte("no journal")}}, []string{"/a"}},
		{[]session.File{{Path: "/a", Journal: journal("/a")}}, []string{"/a", "/home/u/.cache/0a", "/home/u/.cache/0a/mcp.json"}},
		{[]session.File{{Path: "/a", Journal: journal("/b")}}, []string{"/b", "/home/u/.cache/0a", "/home/u/.cache/0a/mcp.json"}},
		{[]session.File{{Path: "/a"}, {Path: "/c"}}, []string{"/a", "/c"}},
		{nil, nil},
	} {
		for range 2 {
			if got := w.paths(step.files); !slices.Equal(got, step.want) {
				t.Errorf("of %s: got %q, want %q", step.files, got, step.want)
			}
		}
	}
}

// The result of ours is cached between calls, until there are more files.
func TestOursGrows(t *testing.T) {
	v := newVerdicts(t, false)
	file := filepath.Join(v.project, config.ProjectFileName)
	for _, there := range []bool{false, true} {
		if there {
			if err := os.WriteFile(file, []byte("schema: 1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		v.daemon.projects.scope(v.project)
		for range 2 {
			if got := v.daemon.ours(); slices.Contains(got, file) != there || !slices.Contains(got, v.daemon.options.Paths.State) {
				t.Errorf("the project's file is there: %v; ours: %q", there, got)
			}
		}
	}
}
