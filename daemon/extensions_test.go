package daemon_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/extension"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/fake"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// TestMain lets the test binary play an extension.
func TestMain(m *testing.M) {
	if code, ok := fake.PlayExtension(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// unrecorded is a recorder that keeps nothing.
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
	if _, err := r.Install(t.Context(), dir, nil, extension.By{}); err != nil {
		t.Fatal(err)
	}
}

// What is installed is run by the daemon, named where it fails, and gone with it.
func TestExtensionsOfADaemon(t *testing.T) {
	h := newHome(t, "")
	log := t.TempDir() + "/owner"
	h.installed(t, fake.Extension{Name: "good", Modes: []string{"log=" + log}})
	h.installed(t, fake.Extension{Name: "bad", Modes: []string{"version", "log=" + log}})
	_, stop := h.start(t)
	control := h.control(t)
	running := func() string {
		out, _ := exec.Command("pgrep", "-f", "fake-extension.*log="+log).Output() // none is an exit of 1
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
	// A reload looks at the folders again.
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
