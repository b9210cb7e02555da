package extension_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

func TestInstallUpgradeRemove(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	src := h.source(fake.Extension{Name: "x", Modes: []string{"block"}})
	shown, err := h.Look(src)
	if err != nil || shown.Manifest.Name != "x" || shown.Files != 2 || shown.Installed != nil || !strings.HasSuffix(shown.Program, "/sh") {
		t.Fatalf("look: %+v, %v", shown, err)
	}
	by := extension.Actor{Decider: "the test", Surface: "terminal"}
	// Exactly what was shown is installed, or nothing.
	other := filepath.Join(src, "more.txt")
	if err := os.WriteFile(other, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Install(t.Context(), src, shown.Digest[:], by); !errors.Is(err, gate.ErrChanged) {
		t.Errorf("install of something else: %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	before := h.Revision()
	if _, err := h.Install(t.Context(), src, shown.Digest[:], by); err != nil {
		t.Fatal(err)
	}
	if v := h.settled("x"); v.Status.State != supervise.Running || v.Decider != "the test" || v.Installed.IsZero() || len(v.Declared.Tools) != 5 {
		t.Errorf("installed: %+v", v)
	}
	c := call(t, "files", "write_file", `{}`)
	if got := h.Before(t.Context(), c); got.Move != gate.Deny || h.Revision() == before {
		t.Errorf("before: %+v", got)
	}
	// An upgrade takes effect without a restart of the daemon; so does a downgrade.
	h.install(fake.Extension{Name: "x", Version: "2.0.0"})
	if got := h.Before(t.Context(), c); got.Move != gate.Forward {
		t.Errorf("before, once upgraded: %+v", got)
	}
	if v, _ := h.Get("x"); v.Manifest.Version != "2.0.0" {
		t.Errorf("upgraded: %+v", v)
	}
	if _, err := h.Remove(t.Context(), "x", false, by); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Get("x"); !errors.Is(err, gate.ErrNotFound) || h.Wants(c, false) {
		t.Errorf("removed, and %v", err)
	}
	if left, err := os.ReadDir(h.extensions()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := h.Remove(t.Context(), "x", false, by); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("removed again: %v", err)
	}
	if got := h.records.said(); got != "installed x, installed x, removed x" {
		t.Errorf("on record: %s", got)
	}
}

func TestWhatIsNotInstalled(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	for _, test := range []struct {
		name string
		make func(dir string) error
		want error
		says string
	}{
		{"no manifest", func(dir string) error { return os.Remove(filepath.Join(dir, "extension.yaml")) }, gate.ErrInvalid, "extension.yaml"},
		{"a wrong manifest", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "extension.yaml"), []byte("schema: 1\nnmae: x\n"), 0o600)
		}, gate.ErrInvalid, `unknown key "nmae"`},
		{"a link", func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "link")) }, gate.ErrInvalid, "link: invalid: it is a link"},
		{"a pipe", func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600) }, gate.ErrInvalid, "a device, a pipe or a socket"},
		{"a name that can't be shown", func(dir string) error { return os.WriteFile(filepath.Join(dir, "a\u202eb"), nil, 0o600) }, gate.ErrInvalid, "not printable"},
		{"a file that is too large", func(dir string) error {
			f, err := os.Create(filepath.Join(dir, "large"))
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(129 << 20)
		}, gate.ErrTooLarge, "large: too large: more than 134217728 bytes"},
		{"a command that can't be executed", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "extension.yaml"), []byte("schema: 1\nname: x\nversion: a\ndescription: b\nprotocol: 1\ncommand: ./run.sh\n"), 0o600)
		}, gate.ErrInvalid, "not an executable file in it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := h.source(fake.Extension{Name: "x"})
			if err := test.make(src); err != nil {
				t.Fatal(err)
			}
			_, looked := h.Look(src)
			_, installed := h.Install(t.Context(), src, nil, extension.Actor{})
			for _, err := range []error{looked, installed} {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v; want %v and %q", err, test.want, test.says)
				}
			}
		})
	}
	if _, err := h.Install(t.Context(), h.dir, nil, extension.Actor{}); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("of the folder above: %v", err)
	}
	if _, err := h.Install(t.Context(), "relative", nil, extension.Actor{}); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("of a relative path: %v", err)
	}
	if _, err := h.Install(t.Context(), "/no/such/folder", nil, extension.Actor{}); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("of no folder: %v", err)
	}
	if left, err := os.ReadDir(h.extensions()); err != nil && !os.IsNotExist(err) || len(left) != 0 || h.List() != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Nothing is started or kept running if that can't be recorded.
func TestInstallWithoutARecord(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	h.records.mu.Lock()
	h.records.fail = errors.New("the disk is full")
	h.records.mu.Unlock()
	if _, err := h.Install(t.Context(), h.source(fake.Extension{Name: "x", Version: "2.0.0"}), nil, extension.Actor{}); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("install: %v", err)
	}
	if _, err := h.Remove(t.Context(), "x", true, extension.Actor{}); err == nil {
		t.Error("removed without a record")
	}
	if v, err := h.Get("x"); err != nil || v.Manifest.Version != "1.0.0" || v.Status.State != supervise.Running {
		t.Errorf("what was there: %+v, %v", v, err)
	}
}

// A change of an extension's folder, for example by an agent's file tool, removes no hook.
func TestAFolderThatChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(dir string) error
		says   string
	}{
		{"altered", func(dir string) error {
			path := filepath.Join(dir, "extension.yaml")
			if err := os.Chmod(path, 0o600); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("schema: 1\n"), 0o600)
		}, "extension.yaml was altered"},
		{"a new file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) }, "new is new"},
		{"a link in place of a file", func(dir string) error {
			path := filepath.Join(dir, "run.sh")
			if err := os.Rename(path, path+"2"); err != nil {
				return err
			}
			return os.Symlink(path+"2", path)
		}, "it is a link"},
		{"gone", os.RemoveAll, "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t).start()
			h.install(fake.Extension{Name: "x"})
			dir := filepath.Join(h.extensions(), "x")
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			c := call(t, "files", "write_file", `{}`)
			refused := func(when string) {
				t.Helper()
				h.until("it has failed "+when, func() bool { v, _ := h.Get("x"); return v.Status.State == supervise.Failed })
				v, err := h.Get("x")
				if err != nil || !v.Changed || !strings.Contains(v.Status.Err.Error(), "it has changed since it was installed") || !strings.Contains(v.Status.Err.Error(), test.says) {
					t.Errorf("%s: %+v, %v", when, v.Status, err)
				}
				if got := h.Before(t.Context(), c); got.Move != gate.Deny || !strings.Contains(got.Reason, "changed since it was installed") {
					t.Errorf("%s: %+v", when, got)
				}
			}
			if err := h.Scan(t.Context()); err != nil {
				t.Fatal(err)
			}
			refused("after a reload")
			h.stop()
			h.start()
			refused("after a restart of the daemon")
			// Installing it again is agreeing to it again.
			h.install(fake.Extension{Name: "x"})
			if got := h.Before(t.Context(), c); got.Move != gate.Forward {
				t.Errorf("installed again: %+v", got)
			}
		})
	}
}

func TestAFolderThatIsMendedRunsAgain(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	path := filepath.Join(h.extensions(), "x", "new")
	for range 2 {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.until("it has failed", func() bool { v, _ := h.Get("x"); return v.Status.State == supervise.Failed })
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := h.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.until("it runs", func() bool { v, _ := h.Get("x"); return v.Status.State == supervise.Running })
	}
	if warned := h.Warnings(); warned != nil {
		t.Errorf("warnings: %q", warned)
	}
}

// A folder that nobody has agreed to is not run. If it wants to see calls, they are still
// denied: a person may have agreed to it before the state was lost.
func TestAFolderThatNobodyAgreedTo(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	src := h.source(fake.Extension{Name: "x"})
	if err := os.MkdirAll(h.extensions(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(src, filepath.Join(h.extensions(), "x")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(h.extensions(), "unreadable"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.start()
	v, err := h.Get("x")
	if err != nil || v.Status.State != supervise.Failed || v.Status.PID != 0 || v.Digest != "" || !strings.Contains(v.Status.Err.Error(), "it is not accepted") {
		t.Errorf("listed: %+v, %v", v, err)
	}
	if got := h.Before(t.Context(), call(t, "files", "write_file", `{}`)); got.Move != gate.Deny || !strings.Contains(got.Reason, "it is not accepted") {
		t.Errorf("before: %+v", got)
	}
	if warned := h.Warnings(); len(warned) != 2 || !strings.Contains(warned[0], "unreadable") {
		t.Errorf("warnings: %q", warned)
	}
	if _, err := h.Install(t.Context(), v.Dir, nil, extension.Actor{}); err != nil {
		t.Errorf("install it where it lies: %v", err)
	}
	if v := h.settled("x"); v.Status.State != supervise.Running {
		t.Errorf("installed: %+v", v)
	}
	if _, err := h.Remove(t.Context(), "unreadable", false, extension.Actor{}); err != nil {
		t.Error(err)
	}
}

func TestARestartOfTheDaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x", Modes: []string{"modify"}})
	h.stop()
	// A crash during an installation leaves nothing behind.
	if err := os.MkdirAll(filepath.Join(h.extensions(), ".staging-ABC"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.open()
	c := call(t, "files", "write_file", `{}`)
	if !h.Wants(c, false) {
		t.Error("its hook does not count before Run")
	}
	h.start()
	if got := h.Before(t.Context(), c); string(got.Changed) != `{"seen_by":"x"}` {
		t.Errorf("before: %+v", got)
	}
	if _, err := os.Lstat(filepath.Join(h.extensions(), ".staging-ABC")); !os.IsNotExist(err) {
		t.Errorf("the staging folder is left: %v", err)
	}
}
