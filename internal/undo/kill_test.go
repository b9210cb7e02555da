package undo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const roleVariable = "THOUGHTGATE_UNDO_ROLE" // what to do, where, and at which step to die

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(strings.Split(role, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play does one thing with a store, and kills this process at a step.
func play(role []string) error {
	step, err := strconv.Atoi(role[4])
	if err != nil {
		return err
	}
	store, err := Open(role[1], Limits{})
	if err != nil {
		return err
	}
	store.step = func(string) {
		if step--; step == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	switch role[0] {
	case "snapshot":
		_, err = store.Snapshot(context.Background(), "", role[2], ".")
	case "restore":
		_, err = store.Restore(context.Background(), role[3], "")
	case "remove":
		err = store.Remove(role[3])
	}
	return err
}

// killAt runs a role in another process, which is killed at a step. It reports whether there was
// such a step.
func (w *world) killAt(step int, role, id string) bool {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+strings.Join([]string{role, filepath.Join(w.dir, "store"), w.root, id, strconv.Itoa(step)}, "\n"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		w.t.Fatalf("%s, step %d: %v\n%s", role, step, err, out)
	}
	return false
}

// everyStep calls check after a role was killed at its first step, in a world of its own, then at
// its second, and so on.
func everyStep(t *testing.T, role string, min int, prepare func(w *world) (id string), check func(t *testing.T, w *world, id string)) {
	t.Helper()
	for step := 1; ; step++ {
		w := newWorld(t, Limits{})
		id := prepare(w)
		w.store.Close()
		killed := w.killAt(step, role, id)
		w.open(Limits{})
		t.Run(fmt.Sprintf("step %d", step), func(t *testing.T) { check(t, w, id) })
		if !killed {
			if step <= min {
				t.Errorf("%s has only %d steps", role, step-1)
			}
			return
		}
	}
}

func fewFiles(w *world) {
	w.write("a/b", "1")
	w.write("c", "2")
	w.write("large", strings.Repeat("x", smallBytes+1))
	if err := os.Symlink("c", w.root+"/link"); err != nil {
		w.t.Fatal(err)
	}
}

// TestKilledSnapshot makes sure that there is a whole snapshot or nothing.
func TestKilledSnapshot(t *testing.T) {
	everyStep(t, "snapshot", 4, func(w *world) string {
		fewFiles(w)
		return ""
	}, func(t *testing.T, w *world, _ string) {
		before := tree(t, w.root)
		ids, err := w.store.ids()
		list, err2 := w.store.List()
		if err != nil || err2 != nil || len(ids) != len(list) || len(list) > 1 {
			t.Fatalf("got %q, but %d snapshots; %v, %v", ids, len(list), err, err2)
		}
		if len(list) == 0 {
			return
		}
		w.removeAll()
		w.restore(list[0].ID)
		if diff := cmp.Diff(before, tree(t, w.root)); diff != "" {
			t.Errorf("-before +restored:\n%s", diff)
		}
	})
}

// TestKilledRestore makes sure that a restore can be repeated, and that nothing is left of it.
func TestKilledRestore(t *testing.T) {
	var before map[string]string
	everyStep(t, "restore", 8, func(w *world) string {
		fewFiles(w)
		before = tree(t, w.root)
		info := w.snapshot(".")
		w.removeAll()
		w.write("c", "changed")
		w.write("a", "a file instead of a folder")
		return info.ID
	}, func(t *testing.T, w *world, id string) {
		w.restore(id)
		after := tree(t, w.root)
		kept := 0
		for name := range after {
			if strings.Contains(name, keptInfix) {
				kept++
				delete(after, name)
			}
		}
		if diff := cmp.Diff(before, after); diff != "" || kept != 2 {
			t.Errorf("%d kept, -before +restored:\n%s", kept, diff)
		}
	})
}

func TestKilledRemove(t *testing.T) {
	everyStep(t, "remove", 1, func(w *world) string {
		fewFiles(w)
		return w.snapshot(".").ID
	}, func(t *testing.T, w *world, _ string) {
		if got, err := os.ReadDir(filepath.Join(w.dir, "store")); len(got) > 0 || err != nil {
			t.Errorf("left: %v, %v", got, err)
		}
	})
}
