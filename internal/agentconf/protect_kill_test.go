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

// keptFile is where the players keep what a daemon would.
func keptFile(w *world) string { return filepath.Join(w.home, "..", "kept") }

// playedLasting is the world with what is kept of it.
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

// playProtect is what tgctl does to protect, and the daemon to mend.
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

// undo unprotects, or where nothing was kept yet takes the lines out by the text.
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
	// A copy that was never entrusted to the daemon, and a lock, are a person's to
	// clear away.
	if _, err := Unwrap(l.state(), l.notes()); err != nil {
		l.t.Fatalf("killed after %q: %v", step, err)
	}
}

// Protect is killed after any of its steps: undoing it brings the file back, and
// so does doing it again and undoing that.
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
			l.wantFile(l.state(), twoServers)
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

// The lines are put back, by a daemon that is killed after any of its steps; what
// the agent wrote meanwhile stays.
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

// Unprotect is killed after any of its steps, and done again.
func TestKillUnprotect(t *testing.T) {
	for last := 1; ; last++ {
		l := newLasting(t)
		run(t, l.world, "protect", 0)
		killed, step := run(t, l.world, "unprotect", last)
		l.undo(step)
		l.wantFile(l.state(), twoServers)
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

// From any step on nothing can be written any more: the file is as it was, or one
// command makes it so once there is room.
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
		l.wantFile(l.state(), twoServers)
		l.wantClean()
		if t.Failed() {
			t.Fatalf("full after step %d", last)
		}
	}
}
