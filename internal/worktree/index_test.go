package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// TestEditedAtOnce edits files so soon after git looked at them that they differ in nothing but
// their content.
func TestEditedAtOnce(t *testing.T) {
	r := newRepo(t)
	for n := range 20 {
		name := fmt.Sprint("file", n)
		r.write(name, "1")
		r.commit("1")
		r.write(name, "2")
		if got := r.changes(); got.Files(Changed) != 1 {
			t.Fatalf("after %d commits: got %v", n, counts(got))
		}
		r.git("checkout", "-q", ".")
	}
}

// TestForgedTime edits a file and gives it its time back, which its size can't tell from before.
func TestForgedTime(t *testing.T) {
	r := newRepo(t)
	full := filepath.Join(r.dir, "a")
	r.write("a", "1")
	old := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	if err := os.Chtimes(full, old, old); err != nil {
		t.Fatal(err)
	}
	r.commit("1")
	if got := r.changes(); got.Files(Committed) != 1 {
		t.Fatalf("got %v", counts(got))
	}
	r.write("a", "2")
	if err := os.Chtimes(full, old, old); err != nil {
		t.Fatal(err)
	}
	if got := r.changes(); got.Files(Changed) != 1 {
		t.Errorf("got %v", counts(got))
	}
}

// TestUnseenFiles has files that git was told not to look at.
func TestUnseenFiles(t *testing.T) {
	r := newRepo(t)
	for _, name := range []string{"assumed", "skipped", "other"} {
		r.write(name, "1")
	}
	r.commit("1")
	r.git("update-index", "--assume-unchanged", "assumed")
	r.git("update-index", "--skip-worktree", "skipped")
	r.write("assumed", "22")
	r.write("skipped", "22")
	if got := r.changes(); got.Files(Changed) != 2 {
		t.Errorf("got %v", counts(got))
	}
}

// TestSparseIndex has an index with folders in it.
func TestSparseIndex(t *testing.T) {
	r := newRepo(t)
	r.write("in/a", "1")
	r.write("out/deep/b", "1")
	r.commit("1")
	r.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
	if got := r.changes(); got.Files(Committed) != 1 || got.InNoCommit() != 0 || !got.Complete() {
		t.Errorf("got %v, %q", counts(got), got.Gaps)
	}
	r.write("out/deep/b", "1")
	if got := losses(t, r.find("."), "out"); got.Files(Unclear) != 1 || got.Complete() {
		t.Errorf("outside: got %v, %q", counts(got), got.Gaps)
	}
}

// TestConflict has a file of which there is no version without a conflict.
func TestConflict(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1")
	r.commit("1")
	r.git("checkout", "-q", "-b", "other")
	r.write("a", "2")
	r.commit("2")
	r.git("checkout", "-q", "main")
	r.write("a", "3")
	r.commit("3")
	if gitCommand(r.dir, "merge", "other").Run() == nil {
		t.Fatal("the merge has no conflict")
	}
	if got := r.changes(); got.Files(Changed) != 1 {
		t.Errorf("got %v", counts(got))
	}
	if tree := r.find("."); !tree.IsUnmerged("a") || tree.IsUnmerged("b") {
		t.Error("not told which file is unmerged")
	}
}

func TestStashes(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1")
	r.commit("1")
	for n := range 3 {
		if got, err := r.find(".").Stashes(); got != n || err != nil {
			t.Errorf("got %d, %v, want %d", got, err, n)
		}
		r.write("a", fmt.Sprint("stash", n))
		r.git("stash", "-q")
	}
}

// TestYoungEntry has files that changed in the moment in which the index was written, or later.
func TestYoungEntry(t *testing.T) {
	info := beneath.Info{Size: 1, Mtime: unix.Timespec{Sec: 5, Nsec: 5}, Ctime: unix.Timespec{Sec: 5, Nsec: 5}}
	e := entry{size: 1, mtime: [2]uint32{5, 5}, ctime: [2]uint32{5, 5}}
	for index, want := range map[[2]uint32]bool{{5, 6}: true, {6, 0}: true, {5, 5}: false, {5, 4}: false, {4, 9}: false} {
		if got := e.isUnchanged(info, index); got != want {
			t.Errorf("an index of %v: got %v", index, got)
		}
	}
}

// TestHostilePatterns has more patterns, and longer ones, than can be tried in the time.
func TestHostilePatterns(t *testing.T) {
	r := newRepo(t)
	one := strings.Repeat("**/a*b*/", 100) + "x\n"
	dir := ""
	for range 20 {
		dir += strings.Repeat("ab", 40) + "/"
		r.write(dir+".gitignore", strings.Repeat(one, 1000))
		r.write(dir+"file", "1")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	started := time.Now()
	report, err := r.find(".").Losses(ctx, ".")
	if took := time.Since(started); took > time.Minute || err == nil && report.Complete() {
		t.Errorf("it took %v; %v, %+v", took, err, report)
	}
}
