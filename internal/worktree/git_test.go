package worktree

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A repo is a repository that the real git made.
type repo struct {
	t   testing.TB
	dir string
}

// newRepo makes a repository. Its path has no symbolic link.
func newRepo(t testing.TB, args ...string) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &repo{t, filepath.Join(dir, "work")}
	r.run(dir, append([]string{"init", "-q", "-b", "main", r.dir}, args...)...)
	return r
}

func (r *repo) run(dir string, args ...string) string {
	r.t.Helper()
	out, err := gitCommand(dir, args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		r.t.Fatalf("git %q: %v\n%s", args, err, failed.Stderr)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return string(out)
}

func gitCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0") // which would go on after the command
	return cmd
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	return r.run(r.dir, args...)
}

func (r *repo) write(name, text string) {
	r.t.Helper()
	full := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) commit(message string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return strings.TrimSpace(r.git("rev-parse", "HEAD"))
}

func (r *repo) find(sub string) *Tree {
	r.t.Helper()
	return find(r.t, filepath.Join(r.dir, sub), Limits{})
}

func find(t testing.TB, dir string, limits Limits) *Tree {
	t.Helper()
	tree, err := Find(context.Background(), dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return tree
}

func (r *repo) changes() *Report {
	r.t.Helper()
	report, err := r.find(".").Changes(context.Background(), false)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

func losses(t testing.TB, tree *Tree, paths ...string) *Report {
	t.Helper()
	report, err := tree.Losses(context.Background(), paths...)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// counts returns how many files there are of each kind, without those that have none.
func counts(r *Report) map[string]int {
	found := map[string]int{}
	for k, c := range r.Kinds {
		if c.Files > 0 {
			found[Kind(k).String()] = c.Files
		}
	}
	return found
}
