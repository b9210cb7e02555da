package extension_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// An extension is not restarted after an error that another start would repeat.
func TestGreetingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		e    fake.Extension
		says string
	}{
		{fake.Extension{Name: "x", Modes: []string{"version"}}, "unsupported protocol_version 2; supported is 1"},
		{fake.Extension{Name: "x", Permissions: []string{"hooks.before", "hooks.after", "providers"}}, "it offers tools, but its manifest lacks the permission tools"},
		{fake.Extension{Name: "x", Permissions: []string{"hooks.before", "hooks.after", "tools"}}, "it offers providers, but its manifest lacks the permission providers"},
	} {
		h := newFixture(t).start()
		h.install(test.e)
		v := h.settled("x")
		if v.Status.State != supervise.Failed || v.Status.Restarts != 0 || !strings.Contains(v.Status.Err.Error(), test.says) || len(v.Declared.Tools) != 0 {
			t.Errorf("%+v; want failed at once with %q", v.Status, test.says)
		}
		h.until("its failure is on record", func() bool { return h.records.said() == "installed x, failed x" })
	}
}

// After three restarts it has failed, until a person restarts it.
func TestTheBudget(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x", Modes: []string{"crash-start"}})
	v := h.settled("x")
	if v.Status.State != supervise.Failed || v.Status.Restarts != 3 || !strings.Contains(v.Status.Err.Error(), "exit status 3") || !strings.Contains(v.Status.Err.Error(), "told to crash at once") {
		t.Errorf("after its budget: %+v", v.Status)
	}
	fleet := h.Fleet()
	tail, ok := fleet.Tail(supervise.KindExtension, "x", "")
	if !ok || len(tail.Lines()) != 4 {
		t.Errorf("its last words: %v", ok)
	}
	if there, err := fleet.Restart(t.Context(), supervise.KindExtension, "x", ""); !there || !errors.Is(err, supervise.ErrFailed) {
		t.Errorf("restart: %v, %v", there, err)
	}
	if there, err := fleet.Restart(t.Context(), supervise.KindExtension, "y", ""); there || err != nil {
		t.Errorf("restart of none: %v, %v", there, err)
	}
	// The manifest can set another number.
	h.install(fake.Extension{Name: "x", Modes: []string{"crash-start"}, Manifest: "restart: {attempts: 1, first: 10ms, most: 10ms}\n"})
	if v := h.settled("x"); v.Status.State != supervise.Failed || v.Status.Restarts != 1 {
		t.Errorf("with a budget of one: %+v", v.Status)
	}
}

func TestFleet(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	h.install(fake.Extension{Name: "x"})
	fleet := h.Fleet()
	all := fleet.List()
	if len(all) != 1 || all[0].Kind != supervise.KindExtension || all[0].Name != "x" || all[0].Command[0] != "sh" || all[0].Began.IsZero() || all[0].Status.State != supervise.Running || all[0].Status.PID == 0 {
		t.Fatalf("fleet: %+v", all)
	}
	if there, err := fleet.Restart(t.Context(), supervise.KindExtension, "x", ""); !there || err != nil {
		t.Errorf("restart: %v, %v", there, err)
	}
	if again := fleet.List(); again[0].Status.PID == all[0].Status.PID {
		t.Error("it is the same process")
	}
	if _, ok := fleet.Tail(supervise.KindBackend, "x", ""); ok {
		t.Error("it is a backend")
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	for name, value := range map[string]string{
		"LANG": "C.UTF-8", "TERM": "dumb", "XDG_RUNTIME_DIR": "/run/of/tests", "SECRET": "s", "TOKEN": "t",
		"SSH_AUTH_SOCK": "/x", "LD_PRELOAD": "", "THOUGHTGATE_SOCKET": "/y",
	} {
		h.env[name] = value
	}
	h.start()
	h.install(fake.Extension{Name: "x", Manifest: "env: {MODE: strict}\npass: [TOKEN, ABSENT]\n"})
	var got []string
	for _, entry := range strings.Split(h.text("x", "env", `{}`), "\n") {
		name, _, _ := strings.Cut(entry, "=")
		// Added by the shell and the script of the fake, and the mark of its processes.
		if !slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_", "GORACE", "THOUGHTGATE_CHILD"}, name) {
			got = append(got, entry)
		}
	}
	slices.Sort(got)
	want := "HOME=/home/of/tests LANG=C.UTF-8 MODE=strict PATH=" + os.Getenv("PATH") + " TERM=dumb TOKEN=t XDG_RUNTIME_DIR=/run/of/tests"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

// An extension that does not exit, or leaves processes behind, is ended completely.
func TestTheEnd(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"stay", "fork", "deaf"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t).start()
			h.install(fake.Extension{Name: "x", Modes: []string{mode}})
			v, err := h.Get("x")
			if err != nil || v.Status.State != supervise.Running {
				t.Fatalf("%+v, %v", v.Status, err)
			}
			forked := func() []byte { // in one mode only: pgrep would find another pgrep
				found, _ := exec.Command("pgrep", "-f", "sleep 600.*"+leftBehind).Output()
				return found
			}
			if mode == "fork" && len(forked()) == 0 {
				t.Fatal("it left nothing behind, so this tests nothing")
			}
			if _, err := h.Remove(t.Context(), "x", true, extension.Actor{}); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(v.Status.PID, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the process is left: %v", err)
			}
			if mode == "fork" {
				if left := forked(); len(left) > 0 {
					t.Errorf("left: %s", left)
				}
			}
		})
	}
}

// A daemon that ends stops all its extensions concurrently.
func TestTheEndOfAll(t *testing.T) {
	t.Parallel()
	h := newFixture(t).start()
	var pids []int
	for _, name := range []string{"a", "b", "c", "d"} {
		h.install(fake.Extension{Name: name, Modes: []string{"stay"}})
		v, _ := h.Get(name)
		pids = append(pids, v.Status.PID)
	}
	began := time.Now()
	h.stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
	if s := h.Fleet().List()[0].Status.State; s != supervise.Stopped {
		t.Errorf("state %v", s)
	}
}
