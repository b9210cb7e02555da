package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/programs"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// insideVar says that the test binary has been started for TestInsideSystemd.
const insideVar = "E2E_INSIDE_SYSTEMD"

// namespaces are what a user with a systemd of their own needs and a test machine
// has not: processes, mounts and control groups of their own. The first program
// of the namespace ends when the test has, and with it everything in it.
const namespaces = `
echo $$ >"$1/cgroup.procs"; shift
exec unshare --mount --pid --cgroup --fork --kill-child --propagation private -- sh -ec '
	mount -t proc proc /proc
	mount -t tmpfs -o mode=755 tmpfs /run
	mkdir -p /run/systemd/system # a user manager starts only where it believes that systemd has booted
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount --bind "$1/passwd" /etc/passwd
	cd "$1"; shift
	setpriv --reuid 2000 --regid 2000 --clear-groups --bounding-set=-all -- "$@"
' sh "$@"
`

// TestService runs TestInsideSystemd as an ordinary user, where that can be done.
func TestService(t *testing.T) {
	dir := sandbox(t)
	self := filepath.Join(dir, "e2e.test")
	install(t, testBinary(t), self)
	if err := os.Chmod(self, 0o755); err != nil {
		t.Fatal(err)
	}
	from := bin
	if os.Getenv(binVar) == "" {
		// Without the race detector: a user's systemd has a clock of its own.
		shipped, remove, err := programs.Dir(false)
		if err != nil {
			t.Fatal(err)
		}
		defer remove()
		from = shipped
	}
	for _, name := range []string{"thoughtgated", "tg-shim", "tgctl"} {
		install(t, filepath.Join(from, name), filepath.Join(dir, name))
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "passwd"), append(passwd, "tester:x:2000:2000::/:/bin/sh\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", namespaces, "sh", controlGroup(t), dir,
		"env", "-i", "PATH="+os.Getenv("PATH"), "USER=tester", insideVar+"=1", binVar+"="+dir, "E2E_UNITS="+filepath.Join(dir, "units"),
		self, "-test.run=^TestInsideSystemd$", "-test.v", "-test.timeout=5m")
	cmd.WaitDelay = 10 * time.Second
	// The units as `make install` places them; the tester may not read this folder.
	units := exec.Command("make", "-s", "-C", top, "install-units", "PREFIX=@PREFIX@", "DESTDIR=", "UNITDIR="+filepath.Join(dir, "units"))
	units.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out, err := units.CombinedOutput(); err != nil {
		t.Fatalf("make install-units: %v\n%s", err, out)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInsideSystemd ")) {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// sandbox returns a folder that others can read, and skips the test where no
// systemd can be run for another user.
func sandbox(t *testing.T) string {
	t.Helper()
	switch {
	case os.Getenv(insideVar) != "":
		t.Skip("this is the inside")
	case os.Geteuid() != 0:
		t.Skip("a systemd for a user of the test is started by root only")
	}
	for _, program := range []string{"/lib/systemd/systemd", "unshare", "setpriv", "systemctl", "make", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s here to run the daemon under systemd", program)
		}
	}
	out, err := exec.Command("unshare", "--mount", "--pid", "--cgroup", "--fork", "--propagation", "private", "--", "mount", "-t", "tmpfs", "tmpfs", "/run").CombinedOutput()
	if err != nil {
		t.Skipf("no namespaces can be made here to run the daemon under systemd: %v: %s", err, out)
	}
	dir := tempdir.New(t, "/tmp", "tg-systemd-")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// controlGroup makes a control group that the user of the test may divide.
func controlGroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Skip("no /proc here, so there is no systemd either")
	}
	defer mounts.Close()
	at := ""
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); strings.Contains(lines.Text(), " - cgroup2 ") && len(fields) > 4 {
			at = fields[4]
		}
	}
	dir := filepath.Join(at, fmt.Sprintf("thoughtgate-e2e-%d", os.Getpid()))
	if at == "" || os.Mkdir(dir, 0o755) != nil {
		t.Skip("no control group of version 2 can be made here to run the daemon under systemd")
	}
	t.Cleanup(func() {
		if !eventually(func() bool { return removeGroups(dir) == nil }, patience) {
			t.Errorf("the control group stays: %v", removeGroups(dir))
		}
	})
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(dir, name), 2000, 2000); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// removeGroups removes a control group and those in it, once they are empty.
func removeGroups(dir string) error {
	below, err := os.ReadDir(dir)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	for _, entry := range below {
		if entry.IsDir() {
			if err := removeGroups(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}
