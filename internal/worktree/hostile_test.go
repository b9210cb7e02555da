package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNothingRuns makes repositories whose configuration runs a program in every way that git
// knows for reading, and that have what would block a reader.
func TestNothingRuns(t *testing.T) {
	canary := filepath.Join(t.TempDir(), "canary")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+canary+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(*repo){
		"file system monitor": func(r *repo) { r.git("config", "core.fsmonitor", program) },
		"clean filter": func(r *repo) {
			r.git("config", "filter.evil.clean", program)
			r.git("config", "filter.evil.smudge", program)
			r.git("config", "filter.evil.process", program)
			r.write(".gitattributes", "* filter=evil\n")
		},
		"hooks": func(r *repo) {
			hooks := filepath.Join(r.dir, "hooks")
			r.git("config", "core.hooksPath", hooks)
			for _, hook := range []string{"post-index-change", "fsmonitor-watchman", "reference-transaction"} {
				r.write("hooks/"+hook, "#!/bin/sh\ntouch "+canary+"\n")
				_ = os.Chmod(filepath.Join(hooks, hook), 0o755)
			}
		},
		"pager, editor, ssh, diff": func(r *repo) {
			for _, key := range []string{"core.pager", "core.editor", "core.sshCommand", "diff.external", "core.alternateRefsCommand", "gpg.program", "uploadpack.packObjectsHook"} {
				r.git("config", key, program)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.write("kept", "1")
			r.write("edited", "1")
			r.commit("1")
			plant(r)
			_ = os.Remove(canary) // git itself may have run it
			r.write("edited", "22")
			report := r.changes()
			if report.Kinds[Changed].Files+report.Kinds[Unclear].Files == 0 {
				t.Errorf("the edited file is missing: %v", counts(report))
			}
			tree := r.find(".")
			losses(t, tree, ".")
			if _, err := tree.Unpushed(context.Background(), ""); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(canary); err == nil {
				t.Error("a program of the repository ran")
			}
		})
	}
}

// TestNothingBlocks plants named pipes in the place of files that are read.
func TestNothingBlocks(t *testing.T) {
	for _, name := range []string{"pipe", "tracked", ".gitignore", ".gitattributes", ".git/index", ".git/HEAD", ".git/config", ".git/packed-refs",
		".git/refs/heads/main", ".git/info/exclude", ".git/shallow", ".git/refs/remotes/origin/main", ".git/logs/refs/stash", "dir/.git"} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.write("tracked", "1")
			r.write("dir/file", "1")
			r.commit("1")
			r.git("update-ref", "refs/remotes/origin/main", "HEAD")
			r.git("update-ref", "refs/stash", "HEAD")
			full := filepath.Join(r.dir, name)
			_ = os.Remove(full)
			_ = os.MkdirAll(filepath.Dir(full), 0o755)
			if err := unix.Mkfifo(full, 0o644); err != nil {
				t.Skip(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				tree := r.find(".")
				losses(t, tree, ".")
				_, _ = tree.Unpushed(context.Background(), "")
				_, _ = tree.Overwritten(context.Background(), "origin", "main", "")
				_, _ = tree.Stashes()
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("it blocks")
			}
		})
	}
}

// TestGitElsewhere has repositories that are not where git makes them.
func TestGitElsewhere(t *testing.T) {
	other := newRepo(t)
	other.write("secret", "1")
	other.commit("1")
	for name, plant := range map[string]func(dir string) error{
		"symbolic link": func(dir string) error {
			return os.Symlink(filepath.Join(other.dir, ".git"), filepath.Join(dir, ".git"))
		},
		"file": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: "+other.dir+"/.git\n"), 0o644)
		},
		"file to a device": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: /dev/fd\n"), 0o644)
		},
		"file to another work tree": func(dir string) error {
			other.git("worktree", "add", "-q", filepath.Join(t.TempDir(), "second"))
			return os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: "+other.dir+"/.git/worktrees/second\n"), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := filepath.EvalSymlinks(t.TempDir())
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "secret"), []byte("1"), 0o644), plant(dir)); err != nil {
				t.Fatal(err)
			}
			tree := find(t, dir, Limits{})
			if err := tree.Repository(); err == nil || errors.Is(err, ErrNoRepository) {
				t.Errorf("the repository can be read: %v", err)
			}
			report := losses(t, tree, "secret")
			if report.Kinds[Unclear].Files != 1 || report.Complete() {
				t.Errorf("got %v, want one file that is unclear: %q", counts(report), report.Gaps)
			}
			if _, err := tree.Unpushed(context.Background(), ""); err == nil {
				t.Error("commits of another repository were read")
			}
		})
	}
}

// TestLinkedTrees has the two kinds of .git files that are followed.
func TestLinkedTrees(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1")
	r.commit("1")
	r.git("update-ref", "refs/remotes/origin/main", "HEAD")
	second := filepath.Join(filepath.Dir(r.dir), "second")
	r.git("worktree", "add", "-q", "-b", "other", second)
	for _, command := range [][]string{{"commit", "-q", "--allow-empty", "-m", "2"}} {
		r.run(second, command...)
	}
	if err := os.WriteFile(filepath.Join(second, "b"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tree := find(t, second, Limits{})
	if got := counts(losses(t, tree, "a", "b")); tree.Repository() != nil || got["committed"] != 1 || got["untracked"] != 1 {
		t.Errorf("work tree: %v, %v", got, tree.Repository())
	}
	if got, err := tree.Unpushed(context.Background(), ""); err != nil || got.Count != 1 {
		t.Errorf("work tree: %d unpushed commits, %v", got.Count, err)
	}

	sub := newRepo(t)
	sub.write("c", "1")
	sub.commit("1")
	r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "sub")
	r.commit("2")
	r.write("sub/d", "1")
	tree = r.find("sub")
	if got := counts(losses(t, tree, "c", "d")); tree.Repository() != nil || got["committed"] != 1 || got["untracked"] != 1 {
		t.Errorf("submodule: %v, %v", got, tree.Repository())
	}
	if got := counts(losses(t, r.find("."), "sub")); got["nested"] != 3 { // with its .git file
		t.Errorf("submodule, from outside: %v", got)
	}
}

// TestPlacesOutside gives paths that lead out of the tree.
func TestPlacesOutside(t *testing.T) {
	r := newRepo(t)
	r.write("a/b", "1")
	outside := filepath.Join(filepath.Dir(r.dir), "outside")
	if err := errors.Join(os.Mkdir(outside, 0o755), os.WriteFile(outside+"/x", nil, 0o644), os.Symlink(outside, r.dir+"/link"),
		os.Symlink(r.dir, filepath.Dir(r.dir)+"/alias")); err != nil {
		t.Fatal(err)
	}
	tree := find(t, filepath.Dir(r.dir)+"/alias/a", Limits{})
	for path, want := range map[string]string{
		"b": "a/b", "./b": "a/b", "../a/b": "a/b", "..": ".", "../link": "link", r.dir + "/a": "a",
		filepath.Dir(r.dir) + "/alias/a/b": "a/b",
		"../..":                            "", "../../outside": "", "../link/x": "", "../link/../a": "", "../link/": "", "/": "", outside: "", r.dir + "2": "", "": "", "a\x00": "",
		"/../etc": "", "b/..": "",
	} {
		name, err := tree.Locate(path)
		if want == "" && err == nil || want != "" && name != want {
			t.Errorf("Locate(%q): got %q, %v, want %q", path, name, err, want)
		}
	}
	// A link in a tree is one file, wherever it leads.
	if got := counts(losses(t, tree, "..")); got["untracked"] != 2 {
		t.Errorf("got %v, want the file and the link", got)
	}
	for pattern, want := range map[string][]string{
		"*": {"a/b"}, "../*": {"a", "link"}, "../*/b": {"a/b"}, "../**": {"a", "a/b", "link"}, "../*/": {"a"}, `../\a/?`: {"a/b"}, "../[!b-z]": {"a"},
		r.dir + "/a/*": {"a/b"}, "../link/*": nil, "/etc/*": nil, "../../*": nil,
	} {
		got, _ := tree.Expand(context.Background(), pattern)
		for n := range got {
			got[n], _ = filepath.Rel(r.dir, got[n])
		}
		if !slices.Equal(got, want) {
			t.Errorf("Expand(%q): got %q, want %q", pattern, got, want)
		}
	}
}

// TestBorrowedObjects has repositories that do not have all objects.
func TestBorrowedObjects(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1")
	r.commit("1")
	r.write("a", "2")
	r.commit("2")
	for name, args := range map[string][]string{"alternates": {"--shared"}, "shallow": {"--depth=1"}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "clone")
			r.run(r.dir, append([]string{"clone", "-q", "file://" + r.dir, dir}, args...)...)
			if args[0] == "--shared" {
				_ = os.RemoveAll(dir)
				r.run(r.dir, "clone", "-q", "--shared", r.dir, dir)
			}
			tree := find(t, dir, Limits{})
			if got, err := tree.Unpushed(context.Background(), ""); err != nil || got.Count != 0 {
				t.Errorf("%d unpushed commits, %v, of a branch that the remote has", got.Count, err)
			}
			r.run(dir, "remote", "remove", "origin")
			if got, err := tree.Unpushed(context.Background(), ""); err == nil {
				t.Errorf("%d unpushed commits, want an error", got.Count)
			}
			report := losses(t, tree, "a")
			if args[0] == "--shared" && (report.Kinds[Unclear].Files != 1 || report.Complete()) {
				t.Errorf("got %v", counts(report))
			}
		})
	}
}

// TestUnreadFormats has repositories in formats that are not read.
func TestUnreadFormats(t *testing.T) {
	for name, plant := range map[string]func(*repo){
		"reftable":      func(r *repo) { r.git("config", "extensions.refStorage", "reftable") },
		"split index":   func(r *repo) { r.git("update-index", "--split-index") },
		"other version": func(r *repo) { r.git("config", "core.repositoryFormatVersion", "9") },
		"extension":     func(r *repo) { r.git("config", "extensions.unheard", "true") },
		"work tree":     func(r *repo) { r.git("config", "core.worktree", "/") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.write("a", "1")
			r.commit("1")
			plant(r)
			report := losses(t, r.find("."), "a")
			if report.Kinds[Unclear].Files != 1 || report.Complete() {
				t.Errorf("got %v, %q", counts(report), report.Gaps)
			}
		})
	}
}

// TestConvertedFiles has files that git stores in another form.
func TestConvertedFiles(t *testing.T) {
	r := newRepo(t)
	r.git("config", "core.autocrlf", "true")
	r.write("crlf", "a\r\nb\r\n")
	r.write("plain", "a\nb\n")
	r.commit("1")
	r.write("crlf", "a\r\nb\r\n")
	r.write("plain", "a\nc\n")
	got := counts(r.changes())
	if got["unclear"] != 1 || got["changed"] != 1 {
		t.Errorf("got %v", got)
	}
}

// TestLimits has more than may be looked at.
func TestLimits(t *testing.T) {
	r := newRepo(t)
	for n := range 50 {
		r.write(fmt.Sprintf("d/%02d", n), strings.Repeat("x", 1000))
	}
	r.commit("1")
	for n := range 50 {
		r.write(fmt.Sprintf("d/%02d", n), strings.Repeat("x", 1000)) // the same, but git has to look
	}
	report := losses(t, find(t, r.dir, Limits{Entries: 20, Names: 3}), "d")
	if report.Files() != 20 || report.Complete() || len(report.Kinds[Committed].Names) != 3 {
		t.Errorf("entries: got %d files, %q", report.Files(), report.Gaps)
	}
	report = losses(t, find(t, r.dir, Limits{Hashed: 10_500}), "d")
	if report.Files() != 50 || report.Files(Committed) != 10 || report.Files(Unclear) != 40 || report.Complete() {
		t.Errorf("bytes: got %v, %q", counts(report), report.Gaps)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tree := r.find(".")
	cancel()
	if _, err := tree.Losses(ctx, "d"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := find(t, r.dir, Limits{Commits: 1}).Unpushed(context.Background(), ""); err != nil {
		t.Error(err)
	}
	r.commit("2")
	r.git("commit", "-q", "--allow-empty", "-m", "3")
	if _, err := find(t, r.dir, Limits{Commits: 1}).Unpushed(context.Background(), ""); err == nil {
		t.Error("more commits than the limit were read")
	}
}

// TestDeepFolders nests folders deeper than a path may be long.
func TestDeepFolders(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1")
	r.commit("1")
	fd, err := unix.Open(r.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 200)
	for range 40 {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		if fd = next; err != nil {
			t.Fatal(err)
		}
	}
	unix.Close(fd)
	report := losses(t, r.find("."), ".")
	// Where openat2 is missing, every folder can be reached.
	if report.Complete() && report.Folders < 40 || report.Folders < 15 || report.Files(Committed) != 1 {
		t.Errorf("got %d folders, %v, %q", report.Folders, counts(report), report.Gaps)
	}
}

func TestMissingPaths(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1")
	report := losses(t, r.find("."), "a", "b/c", ".git")
	if !slices.Equal(report.Missing, []string{"b/c"}) || !report.Repository || report.Files(Internal) == 0 || report.Files(Untracked) != 1 {
		t.Errorf("got %+v", report)
	}
	if _, err := Find(context.Background(), r.dir+"/none", Limits{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if report := losses(t, find(t, t.TempDir(), Limits{}), "."); report.Files() != 0 || !report.Complete() {
		t.Errorf("an empty folder: %+v", report)
	}
}
