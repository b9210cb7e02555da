package daemon_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// TestMain lets the test binary act as an extension.
func TestMain(m *testing.M) {
	if code, ok := fake.PlayExtension(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// unrecorded is a recorder that discards records.
type unrecorded struct{}

func (unrecorded) Record(context.Context, *record.Record, []byte, []string) error { return nil }

// installed installs an extension while no daemon runs.
func (h *home) installed(t *testing.T, e fake.Extension) {
	t.Helper()
	db, err := store.Open(h.paths.StateDB())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := extension.Open(extension.Options{Dir: h.paths.ExtensionsDir(), Store: db, Recorder: unrecorded{}, Getenv: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	if e.Program, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Install(t.Context(), dir, nil, extension.Actor{}); err != nil {
		t.Fatal(err)
	}
}

// The daemon runs installed extensions, reports those that fail, and ends them when it ends.
func TestExtensionsOfADaemon(t *testing.T) {
	h := newHome(t, "")
	log := t.TempDir() + "/owner"
	h.installed(t, fake.Extension{Name: "good", Modes: []string{"log=" + log}})
	h.installed(t, fake.Extension{Name: "bad", Modes: []string{"version", "log=" + log}})
	_, stop := h.start(t)
	control := h.control(t)
	running := func() string {
		out, _ := exec.Command("pgrep", "-f", "fake-extension.*log="+log).Output() // pgrep exits with 1 if there are none
		return strings.TrimSpace(string(out))
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it does not come about that %s", what)
			}
		}
	}
	warned := func() string {
		s, err := control.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(s.Warnings, "\n")
	}
	until("the bad one is named", func() bool {
		return strings.Contains(warned(), "the extension bad is not run") && strings.Contains(warned(), "protocol_version 2")
	})
	until("the good one runs alone", func() bool { return running() != "" && !strings.Contains(running(), "\n") })
	if strings.Contains(warned(), "good") {
		t.Errorf("warnings: %s", warned())
	}
	// A reload scans the folders again.
	if err := os.WriteFile(h.paths.ExtensionsDir()+"/good/new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	until("the good one is refused", func() bool { return strings.Contains(warned(), "new is new") && running() == "" })
	if err := os.Remove(h.paths.ExtensionsDir() + "/good/new"); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	until("the good one runs again", func() bool { return running() != "" })
	stop()
	if left := running(); left != "" {
		t.Errorf("left: %s", left)
	}
}

// A daemon that stops while an extension is called denies nothing: the next daemon, which gets the
// pipes, calls it again.
func TestStoppedWhileAnExtensionIsAsked(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {defaults: {action: forward}}\n")
	var a *played
	t.Cleanup(func() { a.close() }) // when the pipes are not kept any more
	fixture := rig.NewFixture(t)
	t.Setenv("NOTIFY_SOCKET", fixture.Path("notify.sock"))
	t.Setenv("FDSTORE", "100")
	var err error
	if h.keep, err = keep.Open(); err != nil {
		t.Fatal(err)
	}
	log := t.TempDir() + "/said"
	h.installed(t, fake.Extension{Name: "slow", Modes: []string{"hang", "log=" + log}, Manifest: "hooks: {before: {}}\n"})
	_, stop := h.start(t)
	a = h.attach(t)
	a.send(callOf("read_file"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if said, _ := os.ReadFile(log); strings.Contains(string(said), "hook") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the extension is not asked")
		}
	}
	stop()
	if fixture.Kept() == 0 {
		t.Error("nothing is kept for the next daemon")
	}
	if strings.Contains(h.onDisk(t), `"verdict":"deny"`) {
		t.Error("the call was refused")
	}
}

// onDisk returns the audit log as read without a daemon.
func (h *home) onDisk(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(h.paths.AuditDir() + "/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("the record: %q, %v", files, err)
	}
	var all strings.Builder
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}
