package worktree

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var randomCases = flag.Uint64("cases", 5, "how many repositories TestAgreesWithGit changes at random")

// TestAgreesWithGit changes repositories at random, and compares what is found with what git says.
func TestAgreesWithGit(t *testing.T) {
	variants := [][]string{
		nil,
		{"--object-format=sha256"},
		{"index.version=4"},
		{"index.version=3", "core.untrackedCache=true"},
		{"index.skipHash=true", "core.preloadIndex=false"},
	}
	for seed := range *randomCases {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			var init []string
			variant := variants[seed%uint64(len(variants))]
			if len(variant) == 1 && strings.HasPrefix(variant[0], "--") {
				init, variant = variant, nil
			}
			r := newRepo(t, init...)
			for _, setting := range variant {
				name, value, _ := strings.Cut(setting, "=")
				r.git("config", name, value)
			}
			rnd := rand.New(rand.NewPCG(seed, 17))
			for round := range 6 {
				for range 12 {
					changeAtRandom(r, rnd)
				}
				if diff := cmp.Diff(r.gitStatus(), r.ourStatus()); diff != "" {
					t.Fatalf("seed %d, round %d (-git +ours):\n%s", seed, round, diff)
				}
				compareCommits(t, r, rnd)
			}
		})
	}
}

var randomPatterns = []string{"*.log", "/build", "build/", "!keep.log", "a/**/c", "**/x.txt", "foo*", "\\#odd", "d?r/", "[a-c].txt", "doc/*.md", "!doc/b.md",
	"trailing \\ ", "a/b/", "**", "!*/", "!*.txt", "*.t[!a-w]t", "x/**", "/*.md"}

func randomName(rnd *rand.Rand) string {
	parts := []string{"a", "b", "build", "dir", "doc", "x", "foo1"}
	files := []string{"a.txt", "b.md", "c", "keep.log", "y.log", "x.txt", "#odd", "sp ace", "é.txt", "foo"}
	name := ""
	for range rnd.IntN(4) {
		name += parts[rnd.IntN(len(parts))] + "/"
	}
	return name + files[rnd.IntN(len(files))]
}

func changeAtRandom(r *repo, rnd *rand.Rand) {
	name := randomName(rnd)
	full := filepath.Join(r.dir, name)
	switch rnd.IntN(12) {
	case 0, 1, 2, 3:
		if os.MkdirAll(filepath.Dir(full), 0o755) == nil { // a part of it may be a file
			_ = os.WriteFile(full, []byte(strings.Repeat("x\n", rnd.IntN(5))), 0o644)
		}
	case 4:
		_ = os.Remove(full)
	case 5:
		dirs := strings.Split(name, "/")
		dir := strings.Join(dirs[:rnd.IntN(len(dirs))], "/") // the top as well
		full := filepath.Join(r.dir, dir, ".gitignore")
		text, _ := os.ReadFile(full)
		if _, err := os.Stat(filepath.Dir(full)); err == nil {
			_ = os.WriteFile(full, append(text, randomPatterns[rnd.IntN(len(randomPatterns))]+"\n"...), 0o644)
		}
	case 6:
		_, _ = gitCommand(r.dir, "add", "--", name).CombinedOutput() // may be ignored or missing
	case 7:
		_, _ = gitCommand(r.dir, "add", "-A").CombinedOutput()
	case 8:
		_, _ = gitCommand(r.dir, "commit", "-q", "-m", name).CombinedOutput()
	case 9:
		_, _ = gitCommand(r.dir, "rm", "-q", "--cached", "--", name).CombinedOutput()
	case 10:
		_ = os.Remove(full)
		_ = os.Symlink("target", full)
	case 11:
		_, _ = gitCommand(r.dir, "gc", "-q").CombinedOutput()
	}
}

// gitStatus returns the kind of each file that is in no commit, as git says.
func (r *repo) gitStatus() map[string]string {
	status := map[string]string{}
	fields := strings.Split(r.git("-c", "core.fileMode=false", "status", "--porcelain=v2", "-z", "--ignored", "-uall", "--no-renames"), "\x00")
	for _, line := range fields {
		if line == "" {
			continue
		}
		switch line[0] {
		case '?':
			status[line[2:]] = "untracked"
		case '!':
			status[line[2:]] = "ignored"
		case '1':
			f := strings.SplitN(line, " ", 9)
			x, y := f[1][0], f[1][1]
			switch {
			case y == 'M' || y == 'T':
				status[f[8]] = "changed"
			case y == 'A':
				status[f[8]] = "changed"
			case x != '.' && x != 'D':
				status[f[8]] = "staged"
			}
		default:
			r.t.Fatalf("git says %q", line)
		}
	}
	return status
}

func (r *repo) ourStatus() map[string]string {
	r.t.Helper()
	tree := find(r.t, r.dir, Limits{Names: 1 << 20})
	report, err := tree.Changes(context.Background(), false)
	if err != nil || !report.Complete() {
		r.t.Fatal(err, report.Gaps)
	}
	status := map[string]string{}
	for k, c := range report.Kinds {
		if Kind(k) != Committed {
			for _, name := range c.Names {
				status[name] = Kind(k).String()
			}
		}
	}
	return status
}

// compareCommits makes branches and remote-tracking references at random, and compares which
// commits only some of them have.
func compareCommits(t *testing.T, r *repo, rnd *rand.Rand) {
	t.Helper()
	if gitCommand(r.dir, "rev-parse", "-q", "--verify", "HEAD").Run() != nil {
		return
	}
	all := strings.Fields(r.git("rev-list", "--all", "HEAD"))
	tree := strings.TrimSpace(r.git("rev-parse", "HEAD^{tree}"))
	for range 4 { // a history with merges, and clocks that are wrong
		args := []string{"commit-tree", tree, "-m", "m"}
		for range 1 + rnd.IntN(3) {
			args = append(args, "-p", all[rnd.IntN(len(all))])
		}
		cmd := gitCommand(r.dir, args...)
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_COMMITTER_DATE=%d +0000", 1_700_000_000+rnd.IntN(100_000_000)))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(string(out)))
	}
	for _, ref := range []string{"refs/heads/b1", "refs/heads/b2", "refs/remotes/origin/main", "refs/remotes/origin/b1", "refs/remotes/other/x/y"} {
		r.git("update-ref", ref, all[rnd.IntN(len(all))])
	}
	if rnd.IntN(2) == 0 {
		r.git("pack-refs", "--all")
	}
	reached := func(refs ...string) []string {
		if len(refs) == 0 {
			return nil
		}
		return strings.Fields(r.git(append([]string{"rev-list"}, refs...)...))
	}
	// Each set is read whole and subtracted here, since git's own difference can be wrong where
	// clocks were.
	compare := func(name string, got Commits, err error, from string, others ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(name, err)
		}
		ids := []string{}
		for _, c := range got.First {
			ids = append(ids, c.ID)
		}
		excluded := reached(others...)
		want := slices.DeleteFunc(reached(from), func(id string) bool { return slices.Contains(excluded, id) })
		slices.Sort(ids)
		slices.Sort(want)
		if diff := cmp.Diff(want, ids); diff != "" || got.Count != len(want) {
			t.Fatalf("%s, %d commits (-git +ours):\n%s", name, got.Count, diff)
		}
	}
	ctx, ours := context.Background(), find(t, r.dir, Limits{Names: 1 << 20})
	got, err := ours.Unpushed(ctx, "")
	compare("Unpushed(HEAD)", got, err, "HEAD", "--remotes")
	got, err = ours.Unpushed(ctx, "b2")
	compare("Unpushed(b2)", got, err, "b2", "--remotes")
	got, err = ours.Overwritten(ctx, "origin", "b1", "b1")
	compare("Overwritten(b1)", got, err, "refs/remotes/origin/b1", "refs/heads/b1")
	got, err = ours.Overwritten(ctx, "other", "x/y", "")
	compare("Overwritten(HEAD)", got, err, "refs/remotes/other/x/y", "HEAD")
	got, err = ours.OnlyOn(ctx, "refs/heads/b1")
	compare("OnlyOn(b1)", got, err, "b1", "--exclude=refs/heads/b1", "--all")
	parent := strings.TrimSpace(r.git("rev-list", "--max-count=1", "--skip=1", "b1"))
	got, err = ours.OnlyOn(ctx, "refs/heads/b1", "HEAD", parent)
	compare("OnlyOn(b1, HEAD, parent)", got, err, "b1", strings.Fields("--exclude=refs/heads/b1 --all HEAD "+parent)...)
}

// TestKindsAreComplete makes sure that no file is counted twice or left out.
func TestKindsAreComplete(t *testing.T) {
	r := newRepo(t)
	r.write(".gitignore", "*.log\n")
	r.write("a/kept", "1")
	r.write("a/edited", "1")
	r.commit("1")
	r.write("a/edited", "22")
	r.write("a/new", "1")
	r.write("a/x.log", "1")
	r.write("staged", "1")
	r.git("add", "staged")
	r.write("nested/file", "1")
	r.run(r.dir, "init", "-q", "nested")
	report := r.changes()
	want := map[string]int{"committed": 2, "changed": 1, "untracked": 1, "ignored": 1, "staged": 1}
	got := counts(report)
	if got["nested"] < 2 {
		t.Errorf("nested: got %d", got["nested"])
	}
	delete(got, "nested")
	if !maps.Equal(got, want) || report.InNoCommit() != 3 || !slices.Equal(report.Repositories, []string{"nested"}) {
		t.Errorf("got %v, want %v, of which 3 are in no commit (%d), and nested (%v)", got, want, report.InNoCommit(), report.Repositories)
	}
	if _, err := os.Stat(filepath.Join(r.dir, ".git")); err != nil {
		t.Fatal(err)
	}
}
