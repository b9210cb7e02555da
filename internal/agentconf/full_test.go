package agentconf

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mostFill is more than the size of the small file system, so that no other is filled.
const mostFill = 64 << 20

// fillUp makes all further writes fail, by a limit on the file size of this process or by
// filling the file system of home.
func fillUp(how, home string) error {
	switch how {
	case "limit":
		signal.Ignore(syscall.SIGXFSZ)
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{})
	case "disk":
	default:
		return fmt.Errorf("AGENTCONF_FULL is %q, and can be limit or disk", how)
	}
	f, err := os.Create(filepath.Join(home, "..", "filler"))
	if err != nil {
		return err
	}
	defer f.Close()
	for n := 0; err == nil; n++ {
		if n > mostFill/4096 {
			return errors.New("fill the disk: it is not the small one")
		}
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return nil
}

// smallDisk mounts a small file system for the duration of the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a small file system is mounted on Linux")
	}
	dir := t.TempDir()
	if err := mountSmall(dir); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// All writes fail from some step on. In the end the files are as they were, because the backup
// itself is swapped in for a file that can't be written.
func TestFullDisk(t *testing.T) {
	for _, how := range []string{"limit", "disk"} {
		for _, role := range []string{"wrap", "restore", "unwrap"} {
			t.Run(how+" "+role, func(t *testing.T) { fullFromAnyStep(t, how, role) })
		}
	}
}

func fullFromAnyStep(t *testing.T, how, role string) {
	t.Setenv("AGENTCONF_FULL", how)
	disk := ""
	if how == "disk" {
		disk = smallDisk(t)
	}
	swapped, refused := 0, 0
	for last := 1; ; last++ {
		if disk == "" {
			disk = quickTempDir(t)
		}
		top := filepath.Join(disk, strconv.Itoa(last))
		w := fillWorld(newWorldIn(t, mustMake(t, top)))
		if role != "wrap" {
			w.leaveWrapped()
		}
		out, err := w.player(role, last).CombinedOutput()
		if strings.Contains(string(out), "goroutine") {
			t.Fatalf("after step %d: %v\n%s", last, err, out)
		}
		if err != nil {
			refused++
		}
		swapped += strings.Count(string(out), "backup swapped in")
		w.wantOriginals("step " + strconv.Itoa(last) + ", full since: " + string(out))
		_ = os.Remove(filepath.Join(top, "filler"))
		for _, path := range []string{w.state(), w.project()} {
			if _, err := Unwrap(path, w.notes()); err != nil {
				t.Fatalf("after step %d: %v", last, err)
			}
		}
		w.wantOriginals(strconv.Itoa(last))
		w.wantClean()
		steps, err := os.ReadFile(filepath.Join(top, "steps"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(top); err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(steps), "\n") < last {
			break // it ended before the step
		}
	}
	if swapped == 0 || role == "wrap" && refused == 0 {
		t.Errorf("the backup was put in %d times, %d times something was refused", swapped, refused)
	}
}

func mustMake(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
