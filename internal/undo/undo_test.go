package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A world is a store, and a folder to make snapshots of. Their paths have no link.
type world struct {
	t     testing.TB
	dir   string // of both
	root  string
	store *Store
}

func newWorld(t testing.TB, limits Limits) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, root: filepath.Join(dir, "root")}
	if err := os.Mkdir(w.root, 0o755); err != nil {
		t.Fatal(err)
	}
	w.open(limits)
	return w
}

func (w *world) open(limits Limits) {
	w.t.Helper()
	store, err := Open(filepath.Join(w.dir, "store"), limits)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(store.Close)
	w.store = store
}

func (w *world) write(name, text string) {
	w.t.Helper()
	full := filepath.Join(w.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) snapshot(names ...string) Info {
	w.t.Helper()
	info, err := w.store.Snapshot(context.Background(), "", w.root, names...)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

func (w *world) restore(id string) *Result {
	w.t.Helper()
	result, err := w.store.Restore(context.Background(), id, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// tree describes everything below a folder, but not when folders were changed.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %s %.20q %d", info.ModTime().UTC().Truncate(time.Microsecond), content, len(content))
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			text = "link to " + target
		}
		found[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// manyKinds writes files of every kind that can be restored.
func (w *world) manyKinds() {
	w.t.Helper()
	w.write("a/b/c", "1")
	w.write("a/b/same", "1")
	w.write("a/empty-file", "")
	w.write("a/odd \n\"\\name", "2")
	w.write("a/large", strings.Repeat("0123456789abcdef", 3<<20/16)+"end")
	w.write("program", "3")
	w.write(".hidden/x", "4")
	old := time.Date(2001, 2, 3, 4, 5, 6, 789_000, time.UTC)
	if err := errors.Join(os.Mkdir(w.root+"/a/empty", 0o750), os.Chmod(w.root+"/program", 0o755), os.Chmod(w.root+"/.hidden/x", 0o600),
		os.Symlink("b/c", w.root+"/a/link"), os.Symlink("/nowhere", w.root+"/a/dangling"), os.Chtimes(w.root+"/a/b/c", old, old)); err != nil {
		w.t.Fatal(err)
	}
	_ = os.WriteFile(w.root+"/a/not-utf8-\xff", []byte("5"), 0o644) // where the file system allows it
}

func (w *world) removeAll() {
	w.t.Helper()
	names, err := os.ReadDir(w.root)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(w.root, name.Name())); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestRestore(t *testing.T) {
	w := newWorld(t, Limits{})
	w.manyKinds()
	before := tree(t, w.root)
	info := w.snapshot(".")
	w.removeAll()
	plan, err := w.store.Plan(context.Background(), info.ID)
	if err != nil || len(plan.Write) != len(before)-1 || len(plan.Replace)+len(plan.Failed)+plan.Same > 0 {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	result, err := w.store.Restore(context.Background(), info.ID, plan.Digest)
	if err != nil || result.Written != len(plan.Write) || len(result.Kept)+len(result.Failed) > 0 {
		t.Fatalf("got %+v, %v", result, err)
	}
	if diff := cmp.Diff(before, tree(t, w.root)); diff != "" {
		t.Errorf("-before +restored:\n%s", diff)
	}
	again := w.restore(info.ID)
	if again.Written+len(again.Kept) > 0 || again.Same != len(plan.Write) {
		t.Errorf("the second time: %+v", again)
	}
	list, err := w.store.List()
	if err != nil || len(list) != 1 || list[0].Digest != info.Digest || list[0].Files != info.Files {
		t.Errorf("list: %+v, %v", list, err)
	}
	if st, err := os.Stat(filepath.Join(w.dir, "store", info.ID)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the snapshot has mode %v, %v", st.Mode(), err)
	}
}

// TestSomeNames makes a snapshot of some files, whose folders are gone afterwards.
func TestSomeNames(t *testing.T) {
	w := newWorld(t, Limits{})
	w.manyKinds()
	if err := os.Chmod(w.root+"/a/b", 0o711); err != nil {
		t.Fatal(err)
	}
	info := w.snapshot("a/b/c", "program", "missing/x", "a/b", ".hidden")
	w.removeAll()
	w.restore(info.ID)
	var names []string
	for name, text := range tree(t, w.root) {
		names = append(names, name)
		if name == "a/b" && !strings.HasPrefix(text, "drwx--x--x") {
			t.Error(text)
		}
	}
	slices.Sort(names)
	if want := []string{".", ".hidden", ".hidden/x", "a", "a/b", "a/b/c", "a/b/same", "program"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestChangedSince restores where other things are now.
func TestChangedSince(t *testing.T) {
	w := newWorld(t, Limits{})
	for _, name := range []string{"edited", "now-folder", "now-link", "mode", "same", "dir/x", "gone"} {
		w.write(name, "old")
	}
	outside := filepath.Join(w.dir, "outside")
	info := w.snapshot(".")
	w.write("edited", "new")
	if err := errors.Join(os.Remove(w.root+"/now-folder"), os.Remove(w.root+"/now-link"), os.RemoveAll(w.root+"/dir"), os.Remove(w.root+"/gone"),
		os.Mkdir(outside, 0o755), os.WriteFile(outside+"/x", []byte("outside"), 0o644),
		os.Symlink(outside+"/x", w.root+"/now-link"), os.Symlink(outside, w.root+"/dir"), os.Chmod(w.root+"/mode", 0o600)); err != nil {
		t.Fatal(err)
	}
	w.write("now-folder/y", "new")
	plan, err := w.store.Plan(context.Background(), info.ID)
	if want := []string{"dir", "edited", "mode", "now-folder", "now-link"}; err != nil || !slices.Equal(plan.Replace, want) ||
		!slices.Equal(plan.Write, []string{"gone", "dir/x"}) || plan.Same != 1 {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	w.write("edited", "newer")
	if _, err := w.store.Restore(context.Background(), info.ID, plan.Digest); !errors.Is(err, ErrChanged) {
		t.Errorf("a plan of before: %v", err)
	}
	result := w.restore(info.ID)
	for _, name := range []string{"edited", "now-folder", "now-link", "mode", "same", "dir/x", "gone"} {
		if text, err := os.ReadFile(filepath.Join(w.root, name)); string(text) != "old" {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
	kept := map[string]string{}
	for _, k := range result.Kept {
		if k.Now == k.Name || filepath.Dir(k.Now) != filepath.Dir(k.Name) {
			t.Errorf("%q is now %q", k.Name, k.Now)
		}
		kept[k.Name] = filepath.Join(w.root, k.Now)
	}
	if text, err := os.ReadFile(kept["edited"]); string(text) != "newer" {
		t.Errorf("what was edited: got %q, %v", text, err)
	}
	if text, err := os.ReadFile(kept["now-folder"] + "/y"); string(text) != "new" {
		t.Errorf("what is a folder: got %q, %v", text, err)
	}
	if target, err := os.Readlink(kept["dir"]); target != outside {
		t.Errorf("what is a link: got %q, %v", target, err)
	}
	if got, _ := os.ReadDir(outside); len(got) != 1 {
		t.Errorf("outside: %v", got)
	}
	if text, err := os.ReadFile(outside + "/x"); string(text) != "outside" {
		t.Errorf("outside: got %q, %v", text, err)
	}
}

func TestNeverARepository(t *testing.T) {
	w := newWorld(t, Limits{})
	names := []string{".git/hooks/pre-commit", "sub/.git/config", ".GIT/x", "git~1/x", ".g\u200cit/x", "linked/.git"}
	for _, name := range names {
		w.write(name, "1")
	}
	w.write("sub/file", "1")
	info := w.snapshot(".", ".git/hooks", "sub/.git/config")
	if info.Files != 1 || len(info.Left) < len(names) {
		t.Errorf("got %d files, without %v", info.Files, info.Left)
	}
	w.removeAll()
	w.restore(info.ID)
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(w.root, name)); err == nil {
			t.Errorf("%q was restored", name)
		}
	}
	if _, err := w.store.Check(context.Background(), filepath.Join(w.root, ".git"), "hooks"); err == nil {
		t.Error("a folder in .git can be the root")
	}
}

func TestWhatIsLeft(t *testing.T) {
	w := newWorld(t, Limits{})
	w.write("file", "1")
	if err := unix.Mkfifo(w.root+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(l)
	t.Chdir(w.root)
	if err := unix.Bind(l, &unix.SockaddrUnix{Name: "socket"}); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(w.root, "state", "undo")
	inner, err := Open(store, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	info, err := inner.Snapshot(context.Background(), "", w.root, ".")
	var left []string
	for _, l := range info.Left {
		left = append(left, string(l.Name)+": "+l.Why)
	}
	slices.Sort(left)
	want := []string{"pipe: it is a named pipe", "socket: it is a socket", "state/undo: it has the snapshots"}
	if err != nil || !slices.Equal(left, want) || info.Files != 1 {
		t.Errorf("got %q, %d files, %v; want %q", left, info.Files, err, want)
	}
}

func TestTooLarge(t *testing.T) {
	w := newWorld(t, Limits{Files: 5, Bytes: 1000})
	w.write("large", strings.Repeat("x", 1001))
	for n := range 6 {
		w.write(fmt.Sprintf("many/%d", n), "")
	}
	for _, names := range [][]string{{"large"}, {"many"}, {"many/1", "large"}} {
		_, err := w.store.Check(context.Background(), w.root, names...)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("Check(%q): %v", names, err)
		}
		if _, err := w.store.Snapshot(context.Background(), "", w.root, names...); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Snapshot(%q): %v", names, err)
		}
	}
	if list, err := w.store.List(); len(list) > 0 || err != nil {
		t.Errorf("snapshots: %v, %v", list, err)
	}
	if ids, _ := w.store.ids(); len(ids) > 0 {
		t.Errorf("left: %q", ids)
	}
	if _, err := w.store.Check(context.Background(), w.root, "../store"); err == nil {
		t.Error("a name may lead out of the root")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.store.Snapshot(ctx, "", w.root, "many/1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestExpire(t *testing.T) {
	w := newWorld(t, Limits{Count: 3, Total: 20_000, Age: time.Hour})
	now := time.Now()
	w.store.now = func() time.Time { return now }
	w.write("file", strings.Repeat("x", 1000))
	check := func(want ...Info) {
		t.Helper()
		list, err := w.store.List()
		var got, ids []string
		for _, i := range list {
			got = append(got, i.ID)
		}
		for _, i := range want {
			ids = append(ids, i.ID)
		}
		if err != nil || !slices.Equal(got, ids) {
			t.Errorf("got %q, want %q (%v)", got, ids, err)
		}
	}
	make := func() Info {
		now = now.Add(time.Minute)
		return w.snapshot("file")
	}
	a, b, c := make(), make(), make()
	check(c, b, a)
	d := make() // the fourth
	check(d, c, b)
	now = now.Add(58*time.Minute + 30*time.Second)
	if err := w.store.Expire(); err != nil {
		t.Error(err)
	}
	check(d, c)
	now = now.Add(time.Minute)
	w.write("file", strings.Repeat("y", 18_000))
	e := make()
	check(e)
	dir, err := w.store.open(e.ID, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if _, err := w.store.Snapshot(context.Background(), "", w.root, "file"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the other one is in use: %v", err)
	}
	check(e)
	dir.Close()
	if _, err := w.store.Plan(context.Background(), a.ID); !errors.Is(err, ErrNoSnapshot) {
		t.Error(err)
	}
	if _, err := w.store.Plan(context.Background(), "../"+e.ID); !errors.Is(err, ErrNoSnapshot) {
		t.Error(err)
	}
}

// TestAltered alters a snapshot before it is restored.
func TestAltered(t *testing.T) {
	alter := func(t *testing.T, change func(m map[string]any, dir string)) (*world, Info) {
		w := newWorld(t, Limits{})
		w.write("a/file", "content")
		w.write("a/large", strings.Repeat("x", smallBytes+1))
		info := w.snapshot("a")
		dir := filepath.Join(w.dir, "store", info.ID)
		text, err := os.ReadFile(dir + "/manifest")
		var m map[string]any
		if err = errors.Join(err, json.Unmarshal(text, &m)); err != nil {
			t.Fatal(err)
		}
		change(m, dir)
		text, _ = json.Marshal(m)
		if err := os.WriteFile(dir+"/manifest", text, 0o600); err != nil {
			t.Fatal(err)
		}
		w.removeAll()
		return w, info
	}
	item := func(m map[string]any, n int) map[string]any { return m["items"].([]any)[n].(map[string]any) }
	for name, change := range map[string]func(m map[string]any, dir string){
		"content": func(_ map[string]any, dir string) { _ = os.WriteFile(dir+"/data", []byte("CONTENT"), 0o600) },
		"shorter": func(_ map[string]any, dir string) { _ = os.WriteFile(dir+"/data", nil, 0o600) },
		"a link": func(_ map[string]any, dir string) {
			_ = errors.Join(os.Remove(dir+"/data"), os.Symlink("/etc/passwd", dir+"/data"))
		},
		"large":         func(_ map[string]any, dir string) { _ = os.WriteFile(dir+"/own-0", nil, 0o600) },
		"outside":       func(m map[string]any, _ string) { item(m, 1)["name"] = "../file" },
		"absolute":      func(m map[string]any, _ string) { item(m, 1)["name"] = "/file" },
		"repository":    func(m map[string]any, _ string) { item(m, 1)["name"] = "a/.git" },
		"no folder":     func(m map[string]any, _ string) { item(m, 1)["name"] = "b/file" },
		"twice":         func(m map[string]any, _ string) { item(m, 1)["name"] = "a" },
		"kind":          func(m map[string]any, _ string) { item(m, 1)["kind"] = "device" },
		"other store":   func(m map[string]any, _ string) { item(m, 2)["own"] = "../../x" },
		"another id":    func(m map[string]any, _ string) { m["id"] = "20200101T000000-00000000" },
		"another root":  func(m map[string]any, _ string) { m["root"] = "/proc/self" },
		"relative root": func(m map[string]any, _ string) { m["root"] = "." },
	} {
		t.Run(name, func(t *testing.T) {
			w, info := alter(t, change)
			result, err := w.store.Restore(context.Background(), info.ID, "")
			if err == nil && len(result.Failed) == 0 {
				t.Errorf("it was restored: %+v", result)
			}
			for name := range tree(t, w.dir) {
				if base := filepath.Base(name); base == "file" || strings.HasPrefix(base, tempPrefix) {
					t.Errorf("%s was written", name)
				}
			}
		})
	}
}

// TestRootGone restores after the folder itself was removed, or something else is in its place.
func TestRootGone(t *testing.T) {
	w := newWorld(t, Limits{})
	w.manyKinds()
	before := tree(t, w.root)
	info := w.snapshot(".")
	if err := os.Rename(w.root, w.root+"-moved"); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(w.dir, "outside")
	if err := errors.Join(os.Mkdir(outside, 0o755), os.Symlink(outside, w.root)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Restore(context.Background(), info.ID, ""); err == nil {
		t.Error("it was restored through a link")
	}
	if err := os.Remove(w.root); err != nil {
		t.Fatal(err)
	}
	plan, err := w.store.Plan(context.Background(), info.ID)
	if err != nil || !plan.RootGone || len(plan.Write) != len(before)-1 {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	if _, err := w.store.Restore(context.Background(), info.ID, plan.Digest); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, tree(t, w.root)); diff != "" {
		t.Errorf("-before +restored:\n%s", diff)
	}
	if plan, err := w.store.Plan(context.Background(), info.ID); err != nil || !plan.RootReplaced || plan.Same != len(before)-1 {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	if got, _ := os.ReadDir(outside); len(got) > 0 {
		t.Errorf("outside: %v", got)
	}
}

func TestSameContentOnce(t *testing.T) {
	w := newWorld(t, Limits{})
	for n := range 100 {
		w.write(fmt.Sprint(n), strings.Repeat("x", 10_000))
	}
	info := w.snapshot(".")
	st, err := os.Stat(filepath.Join(w.dir, "store", info.ID, dataName))
	if err != nil || st.Size() != 10_000 {
		t.Errorf("got %d bytes, %v", st.Size(), err)
	}
	w.removeAll()
	if result := w.restore(info.ID); result.Written != 100 {
		t.Errorf("got %+v", result)
	}
}

func TestLongNames(t *testing.T) {
	w := newWorld(t, Limits{})
	name := strings.Repeat("é", 127)
	w.write(name, "old")
	info := w.snapshot(name)
	w.write(name, "new")
	result := w.restore(info.ID)
	if len(result.Kept) != 1 || len(result.Failed) > 0 {
		t.Errorf("got %+v", result)
	}
}

func TestForeignStore(t *testing.T) {
	w := newWorld(t, Limits{})
	dir := filepath.Join(w.dir, "store")
	if err := errors.Join(os.Mkdir(dir+"/20200101T000000-abcdef01", 0o700), os.Mkdir(dir+"/not-ours", 0o700), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	w.open(Limits{})
	if got, _ := os.ReadDir(dir); len(got) != 1 || got[0].Name() != "not-ours" {
		t.Errorf("got %v", got)
	}
	if st, _ := os.Stat(dir); st.Mode().Perm() != 0o700 {
		t.Errorf("the store has mode %v", st.Mode())
	}
}
