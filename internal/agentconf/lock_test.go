package agentconf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// EC-STDIO-005: a wrapped file is not wrapped a second time, and the error names the holder.
//
//gotest:race several change the same files
func TestLocked(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	w.write(w.project(), `{"mcpServers":{"one":{"command":"x"}}}`)
	first := w.plan()
	if err := first.Lock("first"); err != nil {
		t.Fatal(err)
	}
	second := w.plan()
	err := second.Lock("second")
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Session != "first" || time.Since(locked.Since) > time.Minute {
		t.Fatalf("Lock: %v, %+v", err, locked)
	}
	wantError(t, err, "is already wrapped by process ")
	if _, err := Unwrap(w.state(), w.notes()); !errors.As(err, &locked) {
		t.Errorf("Unwrap: %v", err)
	}
	first.Unlock()
	if err := second.Lock("second"); err != nil {
		t.Errorf("after Unlock: %v", err)
	}
	second.Unlock()
	w.wantClean()
}

// While a wrap holds a file, the error says so, even if the file has lines of ours.
//
//gotest:race several change the same files
func TestLockedBeatsWrapped(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, _ := w.wrapped()
	var locked *LockedError
	if _, err := NewPlan(claudeCode{}, w.env(), w.shim); !errors.As(err, &locked) {
		t.Errorf("while it is wrapped: %v", err)
	}
	p.Unlock()
	if _, err := NewPlan(claudeCode{}, w.env(), w.shim); !errors.Is(err, ErrWrapped) {
		t.Errorf("left wrapped: %v", err)
	}
}

// A wrap, and a person's unwrap, wait for a daemon that restores the files of a session that
// has just ended.
//
//gotest:race several change the same files
func TestLockWaitsForRestore(t *testing.T) {
	waiting := map[string]func(*world) error{
		"wrap": func(w *world) error {
			p := w.plan()
			defer p.Unlock()
			return p.Lock("s")
		},
		"unwrap": func(w *world) error {
			_, err := Unwrap(w.state(), w.notes())
			return err
		},
	}
	for name, do := range waiting {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			brief, err := takeLock(lockPath(w.state()), w.state(), holder{Brief: true})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				time.Sleep(50 * time.Millisecond)
				brief.release()
			}()
			if err := do(w); err != nil {
				t.Error(err)
			}
			w.wantClean()
		})
	}
}

// Who has just locked a file that a killed wrap had locked has not written yet who it is. The killed
// wrap, which the lock file still names, is not taken for the holder: the next one waits.
func TestLockedAfterKill(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, _ := w.wrapped()
	text := w.read(lockPath(w.state()))
	p.Unlock()
	killed := exec.Command("true")
	if err := killed.Run(); err != nil {
		t.Fatal(err)
	}
	for pid, brief := range map[int]bool{os.Getpid(): false, killed.Process.Pid: true} {
		w.write(lockPath(w.state()), strings.Replace(text, fmt.Sprint(os.Getpid()), fmt.Sprint(pid), 1))
		f, err := openLock(lockPath(w.state()), 0)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, planned := NewPlan(claudeCode{}, w.env(), w.shim)
		_, taken := takeLock(lockPath(w.state()), w.state(), holder{})
		for what, err := range map[string]error{"a plan": planned, "a lock": taken} {
			var locked *LockedError
			if !errors.As(err, &locked) || locked.Brief() != brief {
				t.Errorf("%s, locked with the text of process %d: %v", what, pid, err)
			}
		}
		f.Close()
	}
}

// If one of several files is locked by another, none stays locked.
//
//gotest:race several change the same files
func TestLockedInPart(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	w.write(w.project(), `{"mcpServers":{"one":{"command":"x"}}}`)
	other, err := takeLock(lockPath(w.project()), w.project(), holder{Session: "other"})
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if err := w.plan().Lock("mine"); !errors.As(err, &locked) || locked.Path != w.project() {
		t.Errorf("Lock: %v", err)
	}
	other.release()
	w.wantClean()
}

//gotest:race several change the same files
func TestTryLock(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, journals := w.wrapped()
	journal := journals[w.state()]
	if _, held, err := TryLock(journal); !held || err != nil {
		t.Errorf("while the wrap has it: held %v, %v", held, err)
	}
	p.Unlock()
	unlock, held, err := TryLock(journal)
	if held || err != nil {
		t.Fatalf("after: held %v, %v", held, err)
	}
	if _, err := Restore(journal, nil); err != nil {
		t.Error(err)
	}
	unlock()
	w.wantFile(w.state(), twoServers)
	w.wantClean()

	// After everything is done, nothing is touched any more, not even for a moment.
	w.write(w.state(), strings.Replace(twoServers, "{\n", "{\n\n", 1))
	unlock, held, err = TryLock(journal)
	if held || err != nil {
		t.Fatalf("afterwards: held %v, %v", held, err)
	}
	w.wantClean()
	if report, err := Restore(journal, nil); err != nil || report.State != Untouched {
		t.Errorf("afterwards: %+v, %v", report, err)
	}
	unlock()

	// A project that was removed with all its files is not an error.
	if err := os.RemoveAll(w.home); err != nil {
		t.Fatal(err)
	}
	unlock, held, err = TryLock(journal)
	if held || err != nil {
		t.Fatalf("folder gone: held %v, %v", held, err)
	}
	if report, err := Restore(journal, nil); err != nil || report.State != Missing {
		t.Errorf("folder gone: %+v, %v", report, err)
	}
	unlock()
}

// EC-STDIO-044: the lock file of a killed wrap does not lock anything.
//
//gotest:race several change the same files
func TestStaleLockFile(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	for _, text := range []string{"", `{"pid":1,"session":"dead","since":"2026-01-01T00:00:00Z"}`, `{"pid":1,"since":"2026-01-01T00:00:00Z","brief":true}` + "\n"} {
		w.write(w.state()+lockSuffix, text)
		if !NeedsUnwrap(w.state()) || len(leftBeside(w.state(), nil)) != 1 {
			t.Errorf("%q is not seen as left over", text)
		}
		p, _ := w.wrapped()
		w.restore(p)
		w.wantFile(w.state(), twoServers)
		w.wantClean()
	}
}

// A file of somebody else with the name of a lock is locked, and not changed.
//
//gotest:race several change the same files
func TestLockOfSomebodyElse(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	lock := w.state() + lockSuffix
	for _, text := range []string{"precious", "{}", "null", "\n", `{"pid":1,"since":"2026-01-01T00:00:00Z","more":1}`, strings.Repeat("x", 100000)} {
		w.write(lock, text)
		if NeedsUnwrap(w.state()) || len(leftBeside(w.state(), nil)) > 0 {
			t.Errorf("%.20q is taken for ours", text)
		}
		p, _ := w.wrapped()
		var locked *LockedError
		if _, err := NewPlan(claudeCode{}, w.env(), w.shim); !errors.As(err, &locked) {
			t.Errorf("a second wrap: got %v, want LockedError", err)
		}
		w.restore(p)
		w.wantFile(w.state(), twoServers)
		w.wantFile(lock, text)
	}
}

// EC-STDIO-043: an editor that saves by replacing the file does not remove the lock.
//
//gotest:race several change the same files
func TestAtomicSaveKeepsLock(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, journals := w.wrapped()
	edited := strings.Replace(w.read(w.state()), "{\n", "{\n  \"edited\": true,\n", 1)
	w.write(w.state()+"~", edited)
	if err := os.Rename(w.state()+"~", w.state()); err != nil {
		t.Fatal(err)
	}
	if _, held, err := TryLock(journals[w.state()]); !held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	w.restore(p)
	w.wantFile(w.state(), strings.Replace(twoServers, "{\n", "{\n  \"edited\": true,\n", 1))
	w.wantClean()
}

//gotest:race several change the same files
func TestPlantedLock(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	victim := filepath.Join(w.home, "victim")
	lock := w.state() + lockSuffix
	plant := map[string]func(){
		"is a link":             func() { os.Symlink(victim, lock) },
		"has a second name":     func() { os.Link(victim, lock) },
		"is not a regular file": func() { mkfifo(t, lock) },
		"is a folder":           func() { os.Mkdir(lock, 0o700) },
	}
	for want, do := range plant {
		w.write(victim, "precious")
		do()
		wantError(t, w.plan().Lock("s"), lock, want, "remove it")
		w.wantFile(victim, "precious")
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
}

// The agent's own lock is respected while it is held, taken when it is stale, and taken at once
// if the dead holder was ThoughtGate.
//
//gotest:race several change the same files
func TestAgentLock(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	folder := w.state() + ".lock"
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	p := w.prepared()
	began := time.Now()
	go func() { // the agent, which is about to release it
		time.Sleep(100 * time.Millisecond)
		os.Remove(folder)
	}()
	if err := p.Apply(); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited < 50*time.Millisecond || waited >= agentLockTimeout {
		t.Errorf("waited %s for an agent that was writing", waited)
	}

	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(folder, old, old); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	w.restore(p)
	if waited := time.Since(began); waited >= agentLockStale {
		t.Errorf("waited %s for an agent that is dead", waited)
	}
	w.wantFile(w.state(), twoServers)
	w.wantClean()
}

//gotest:race several change the same files
func TestAgentLockOfOurDead(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	folder := w.state() + ".lock"
	l, err := takeLock(w.state()+lockSuffix, w.state(), holder{Session: "dead", notes: notebook(w.notes())})
	if err != nil {
		t.Fatal(err)
	}
	err = l.withAgentLocks([]string{folder}, func() error {
		note := w.read(w.state() + lockSuffix)
		l.f.Close() // as if killed: the lock file and the folder stay
		next, err := takeLock(w.state()+lockSuffix, w.state(), holder{notes: notebook(w.notes())})
		if err != nil {
			return err
		}
		defer next.release()
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("the folder of the dead is still there; noted was %s", note)
		}
		// A folder that the agent made instead is not removed.
		return os.Mkdir(folder, 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error("the agent's own lock was removed")
	}
}

// A file is not an agent's lock.
//
//gotest:race several change the same files
func TestAgentLockIsAFile(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	w.write(w.state()+".lock", "not a lock")
	p, _ := w.wrapped()
	w.restore(p)
	w.wantFile(w.state(), twoServers)
	w.wantFile(w.state()+".lock", "not a lock")
}
