package agentconf

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// unprivileged is the id of a user whose access to folders can be denied.
const unprivileged = 65534

// giveAway gives the world to an unprivileged user if this is the superuser, to whom access
// can't be denied.
func (w *world) giveAway() {
	w.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	err := filepath.WalkDir(filepath.Dir(w.home), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, unprivileged, unprivileged)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// unprivileged is player for the user who owns the world.
func (w *world) unprivileged(role string, last int) *exec.Cmd {
	cmd := w.player(role, last)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
		copied := filepath.Join(filepath.Dir(w.home), "player") // the test binary may be in a folder that only its owner can read
		if _, err := os.Stat(copied); err != nil {
			if err := os.Link(os.Args[0], copied); err != nil {
				text, err := os.ReadFile(os.Args[0])
				if err == nil {
					err = os.WriteFile(copied, text, 0o755)
				}
				if err != nil {
					w.t.Fatal(err)
				}
			}
		}
		cmd.Path, cmd.Args[0] = copied, copied
	}
	return cmd
}

// From some step on the folders are read-only. Meanwhile a file may stay rewritten. Afterwards
// one command restores it, and a file that could not be rewritten is as it was.
func TestReadOnlyFromAnyStep(t *testing.T) {
	for _, role := range []string{"wrap", "restore", "unwrap"} {
		t.Run(role, func(t *testing.T) {
			t.Setenv("AGENTCONF_CLOSED", "1")
			for last, refused := 1, 0; ; last++ {
				w := killWorld(t)
				if role != "wrap" {
					w.leaveWrapped()
				}
				w.giveAway()
				out, err := w.unprivileged(role, last).CombinedOutput()
				if strings.Contains(string(out), "goroutine") {
					t.Fatalf("after step %d: %v\n%s", last, err, out)
				}
				if err != nil {
					refused++
					if !strings.Contains(string(out), "permission denied") {
						t.Errorf("after step %d: it does not say why: %s", last, out)
					}
				}
				open := w.setFolders(0o755)
				for _, path := range []string{w.state(), w.project()} {
					if _, err := Unwrap(path, w.notes()); err != nil {
						t.Fatalf("after step %d: %v", last, err)
					}
				}
				w.wantOriginals("step " + strconv.Itoa(last))
				w.wantClean()
				if open { // the process ended before the step
					if refused == 0 {
						t.Error("nothing was ever refused")
					}
					break
				}
			}
		})
	}
}

// setFolders sets the mode of the folders that have configurations, and reports whether they
// had it already.
func (w *world) setFolders(mode os.FileMode) bool {
	w.t.Helper()
	same := true
	for _, dir := range []string{w.home, w.cwd} {
		info, err := os.Stat(dir)
		if err == nil {
			same = same && info.Mode().Perm() == mode
			err = os.Chmod(dir, mode)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return same
}
