package agentconf

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// keptFile returns the path at which the players store what a daemon would.
func keptFile(w *world) string { return filepath.Join(w.home, "..", "kept") }

// playedLasting returns the world with the stored protection.
func playedLasting(w *world) (*lasting, error) {
	l := &lasting{world: w}
	text, err := os.ReadFile(keptFile(w))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		l.kept, err = ParseProtection(text)
	}
	return l, err
}

// playProtect protects like tgctl, and repairs like the daemon.
func playProtect(w *world, step func(string)) error {
	l, err := playedLasting(w)
	if err != nil {
		return err
	}
	p, prot, err := l.renewal(step)
	if err != nil {
		return err
	}
	_, err = p.Protect(prot, func(next *Protection) error {
		text, err := next.Text()
		if err != nil {
			return err
		}
		if err := os.WriteFile(keptFile(w)+".new", text, 0o600); err != nil {
			return err
		}
		return os.Rename(keptFile(w)+".new", keptFile(w))
	})
	return err
}

func playUnprotect(w *world, step func(string)) error {
	l, err := playedLasting(w)
	if err != nil || l.kept == nil {
		return err
	}
	_, err = l.kept.restore(step)
	return err
}

// undo unprotects. If nothing was stored yet, it removes the lines by their text.
func (l *lasting) undo(step string) {
	l.t.Helper()
	now, err := playedLasting(l.world)
	if err != nil {
		l.t.Fatal(err)
	}
	if now.kept != nil {
		if _, err := now.kept.Restore(); err != nil {
			l.t.Fatalf("killed after %q: %v", step, err)
		}
	}
	// A person has to remove a copy that the daemon never knew of, and a lock.
	if _, err := Unwrap(l.state(), l.notes()); err != nil {
		l.t.Fatalf("killed after %q: %v", step, err)
	}
}

// Protect is killed after each of its steps. Undoing it restores the file, and so does
// repeating it and undoing that.
func TestKillProtect(t *testing.T) {
	for _, again := range []bool{false, true} {
		seen := map[string]bool{}
		for last := 1; ; last++ {
			l := newLasting(t)
			killed, step := run(t, l.world, "protect", last)
			if seen[step] = true; killed && again {
				run(t, l.world, "protect", 0)
				l.wantGoverned("clock", "files")
			}
			l.undo(step)
			l.wantFile(l.state(), killedServers())
			l.wantClean()
			if t.Failed() {
				t.Fatalf("killed after %q, again %v", step, again)
			}
			if !killed {
				break
			}
		}
		for _, step := range []string{"locked", "backed up", "journal stored", "agent locked", "temp written", "renamed", "applied", "unlocked"} {
			if !seen[step] {
				t.Errorf("never killed after %q", step)
			}
		}
	}
}

// A daemon is killed after each step of restoring the lines. What the agent wrote meanwhile
// stays.
func TestKillRepair(t *testing.T) {
	drifted := strings.Replace(twoServers, "{\n", "{\n  \"numStartups\": 7,\n", 1)
	seen := map[string]bool{}
	for last := 1; ; last++ {
		l := newLasting(t)
		run(t, l.world, "protect", 0)
		l.write(l.state(), drifted)
		killed, step := run(t, l.world, "protect", last)
		seen[step] = true
		run(t, l.world, "protect", 0)
		l.wantGoverned("clock", "files")
		l.undo(step)
		l.wantFile(l.state(), drifted)
		l.wantClean()
		if t.Failed() {
			t.Fatalf("killed after %q", step)
		}
		if !killed {
			break
		}
	}
	if !seen["journal stored"] || !seen["applied"] {
		t.Errorf("steps %v", seen)
	}
}

// Unprotect is killed after each of its steps, and repeated.
func TestKillUnprotect(t *testing.T) {
	for last := 1; ; last++ {
		l := newLasting(t)
		run(t, l.world, "protect", 0)
		killed, step := run(t, l.world, "unprotect", last)
		l.undo(step)
		l.wantFile(l.state(), killedServers())
		l.wantClean()
		if t.Failed() {
			t.Fatalf("killed after %q", step)
		}
		if !killed {
			if last < 5 {
				t.Errorf("only %d steps", last)
			}
			break
		}
	}
}

// All writes fail from some step on. The file is as it was, or one command restores it when
// there is space again.
func TestProtectFullDisk(t *testing.T) {
	t.Setenv("AGENTCONF_FULL", "limit")
	for last := 1; last <= 12; last++ {
		l := newLasting(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "AGENTCONF_TEST=protect", "AGENTCONF_HOME="+l.home, "AGENTCONF_LAST="+strconv.Itoa(last))
		if out, err := cmd.CombinedOutput(); strings.Contains(string(out), "goroutine") {
			t.Fatalf("after step %d: %v\n%s", last, err, out)
		}
		l.undo(strconv.Itoa(last))
		l.wantFile(l.state(), killedServers())
		l.wantClean()
		if t.Failed() {
			t.Fatalf("full after step %d", last)
		}
	}
}
