package rig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// insideVar is set in a test binary that Inside has started; it names the folder of the
// programs.
const insideVar = "RIG_INSIDE"

// IsInside reports whether this process was started by Inside.
func IsInside() bool { return os.Getenv(insideVar) != "" }

// namespaces gives an ordinary user namespaces for processes, mounts and control groups, so
// that a systemd can run as that user. All of it ends with the first program in it.
const namespaces = `
echo $$ >"$1/cgroup.procs"; shift
exec unshare --mount --pid --cgroup --fork --kill-child --propagation private -- sh -ec '
	mount -t proc proc /proc
	mount -t tmpfs -o mode=755 tmpfs /run
	mkdir -p /run/systemd/system # a user manager starts only where it believes that systemd has booted
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount --bind "$1/passwd" /etc/passwd
	cd "$1"; shift
	exec setpriv --reuid 2000 --regid 2000 --clear-groups --bounding-set=-all -- "$@"
' sh "$@"
`

// Programs returns the paths of thoughtgated and tg-shim by their names. It builds them if
// necessary.
func Programs(tb testing.TB) map[string]string {
	tb.Helper()
	paths := map[string]string{}
	for _, name := range []string{"thoughtgated", "tg-shim"} {
		paths[name] = program(tb, name, true)
	}
	return paths
}

// Inside runs a test of this binary, with args, as an ordinary user who can start a systemd, and
// logs its output. The programs, paths by name, are available there with [Shipped]. Inside skips
// tb if the system lacks what that needs.
func Inside(tb testing.TB, test string, limit time.Duration, programs map[string]string, args ...string) {
	tb.Helper()
	group, dir := sandbox(tb)
	for name, path := range programs {
		copyProgram(tb, path, filepath.Join(dir, name))
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	copyProgram(tb, self, filepath.Join(dir, "rig.test"))
	passwd, err := os.ReadFile("/etc/passwd")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "passwd"), append(passwd, "tester:x:2000:2000::/:/bin/sh\n"...), 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-ec", namespaces, "sh", group, dir,
		filepath.Join(dir, "rig.test"), "-test.run=^" + test + "$", "-test.v", "-test.timeout=" + limit.String()}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "USER=tester", insideVar + "=" + dir}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+test+" ")) {
		tb.Errorf("inside: %v", err)
	}
	tb.Logf("inside:\n%s", out)
}

// sandbox returns a control group that the user may divide, and a folder that others can read.
func sandbox(tb testing.TB) (group, dir string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("a systemd for a user of the test is started by root")
	}
	for _, name := range []string{"/lib/systemd/systemd", "unshare", "setpriv", "systemctl", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			tb.Skipf("there is no %s here to run the daemon under systemd", name)
		}
	}
	out, err := exec.Command("unshare", "--mount", "--pid", "--cgroup", "--fork", "--propagation", "private", "--", "mount", "-t", "tmpfs", "tmpfs", "/run").CombinedOutput()
	if err != nil {
		tb.Skipf("no namespaces can be made here to run the daemon under systemd: %v: %s", err, out)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	at := ""
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") && len(fields) > 4 {
			at = fields[4]
		}
	}
	group = filepath.Join(at, fmt.Sprintf("thoughtgate-rig-%d", os.Getpid()))
	if at == "" || os.Mkdir(group, 0o755) != nil {
		tb.Skip("no control group of version 2 can be made here to run the daemon under systemd")
	}
	tb.Cleanup(func() {
		for end := time.Now().Add(Timeout); ; time.Sleep(10 * time.Millisecond) {
			var below []string
			_ = filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					below = append([]string{path}, below...)
				}
				return nil // it may have been removed
			})
			for _, path := range below {
				_ = os.Remove(path) // it is not empty yet
			}
			if _, err := os.Stat(group); err != nil {
				return
			}
			if time.Now().After(end) {
				tb.Errorf("the control group %s stays", group)
				return
			}
		}
	})
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(group, name), 2000, 2000); err != nil {
			tb.Fatal(err)
		}
	}
	dir = tempdir.New(tb, "/tmp", "tg-systemd-")
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	return group, dir
}

func copyProgram(tb testing.TB, from, to string) {
	tb.Helper()
	raw, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, raw, 0o755)
	}
	if err == nil {
		err = os.Chmod(to, 0o755) // regardless of the umask
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// StartManager starts a systemd for the user of the Fixture with units, in which the programs are
// in [Fixture.Path] "bin". From then on the daemon is started and stopped as the unit service,
// which must be one of units.
func (h *Fixture) StartManager(units map[string]string, service string) {
	h.tb.Helper()
	h.Env = append(h.Env, "USER=tester")
	for name, text := range units {
		h.writeUnit(name, text)
	}
	h.writeUnit(service+".d/log.conf", "[Service]\nStandardError=append:"+h.Path("daemon.log")+"\n")
	cmd := exec.Command("/lib/systemd/systemd", "--user", "--log-target=console", "--unit=basic.target")
	cmd.Env, cmd.Dir = h.Env, "/"
	log, err := os.Create(h.Path("systemd.log"))
	if err != nil {
		h.tb.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	h.Daemon, h.service = start(h.tb, cmd), service
	for end := time.Now().Add(Timeout); ; time.Sleep(10 * time.Millisecond) {
		out, _ := h.Systemctl("is-active", "basic.target")
		if out == "active" {
			return
		}
		if time.Now().After(end) {
			h.tb.Fatalf("systemd is not up: %s", out)
		}
	}
}

func (h *Fixture) writeUnit(name, text string) {
	h.tb.Helper()
	path := h.Path("config/systemd/user", name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		h.tb.Fatal(err)
	}
}

// Systemctl runs systemctl for the systemd of the Fixture and returns its output.
func (h *Fixture) Systemctl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", append([]string{"--user"}, args...)...)
	cmd.Env = h.Env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
