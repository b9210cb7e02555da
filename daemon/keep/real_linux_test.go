package keep_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

const insideVariable = "KEEP_TEST_INSIDE"

// namespaces give an ordinary user their own processes, mounts and control groups, so that
// they can run a systemd. All of it ends with the first program in it.
const namespaces = `
echo $$ >"$1/cgroup.procs"; shift
exec unshare --mount --pid --cgroup --fork --kill-child --propagation private -- sh -ec '
	mount -t proc proc /proc
	mount -t tmpfs -o mode=755 tmpfs /run
	mkdir -p /run/systemd/system
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount --bind "$1/passwd" /etc/passwd
	cd "$1"
	exec setpriv --reuid 2000 --regid 2000 --clear-groups --bounding-set=-all -- "$1/keep.test" -test.run "^TestInsideSystemd$" -test.v -test.timeout=5m
' sh "$@"
`

// TestSystemd runs TestInsideSystemd as an ordinary user, if possible.
func TestSystemd(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv(insideVariable) != "" {
		t.Skip("a systemd for a user of the test is started by root, from outside")
	}
	for _, program := range []string{"/lib/systemd/systemd", "unshare", "setpriv", "systemctl", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s here", program)
		}
	}
	if out, err := exec.Command("unshare", "--mount", "--pid", "--cgroup", "--fork", "--propagation", "private", "--", "mount", "-t", "tmpfs", "tmpfs", "/run").CombinedOutput(); err != nil {
		t.Skipf("no namespaces can be made here: %v: %s", err, out)
	}
	dir := tempdir.New(t, "/tmp", "tg-keep-")
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Skip(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"passwd": append(passwd, "tester:x:2000:2000::/:/bin/sh\n"...), "keep.test": self} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "run"), filepath.Join(dir, "config/systemd/user")} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("chown", "-R", "2000:2000", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", namespaces, "sh", controlGroup(t), dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "USER=tester", "HOME=" + dir, insideVariable + "=1", "XDG_RUNTIME_DIR=" + dir + "/run", "XDG_CONFIG_HOME=" + dir + "/config"}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInsideSystemd ")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// controlGroup creates a control group that the user of the test may subdivide.
func controlGroup(t *testing.T) string {
	t.Helper()
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	at := ""
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.Contains(line, " - cgroup2 ") && len(fields) > 4 {
			at = fields[4]
		}
	}
	dir := filepath.Join(at, fmt.Sprintf("thoughtgate-keep-%d", os.Getpid()))
	if at == "" || os.Mkdir(dir, 0o755) != nil {
		t.Skip("no control group of version 2 can be made here")
	}
	t.Cleanup(func() {
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			var below []string
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					below = append([]string{path}, below...)
				}
				return nil
			})
			for _, path := range below {
				_ = os.Remove(path)
			}
			if _, err := os.Stat(dir); err != nil {
				return
			}
			if time.Now().After(end) {
				t.Errorf("the control group %s stays", dir)
				return
			}
		}
	})
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(dir, name), 2000, 2000); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const socketText = `[Socket]
ListenStream=%[1]s/run/control
FileDescriptorName=control
`

const serviceText = `[Unit]
StartLimitIntervalSec=0
[Service]
Type=notify
NotifyAccess=main
FileDescriptorStoreMax=%[2]d
Restart=on-failure
RestartSec=0
Environment=KEEP_TEST_ROLE=daemon
ExecStart=%[1]s/keep.test
StandardError=append:%[1]s/log
`

// TestInsideSystemd has a real systemd keep sessions over kills and restarts.
func TestInsideSystemd(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		t.Skip("TestSystemd runs it")
	}
	dir := os.Getenv("HOME")
	for name, text := range map[string]string{"keep.socket": socketText, "keep.service": serviceText} {
		if err := os.WriteFile(filepath.Join(dir, "config/systemd/user", name), fmt.Appendf(nil, text, dir, keep.MaxKept), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := &house{t: t, socket: filepath.Join(dir, "run/control")}
	manager := exec.Command("/lib/systemd/systemd", "--user", "--log-target=console", "--unit=basic.target")
	manager.Dir = "/"
	var log bytes.Buffer
	manager.Stdout, manager.Stderr = &log, &log
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = manager.Process.Signal(syscall.SIGTERM) // which ends its services too
		_ = manager.Wait()
		if said, _ := os.ReadFile(filepath.Join(dir, "log")); t.Failed() {
			t.Logf("systemd said:\n%s\nthe daemons said:\n%s", log.String(), said)
		}
	})
	systemctl := func(args ...string) string {
		out, _ := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	h.until("systemd is up", func() bool { return systemctl("is-active", "basic.target") == "active" })
	if out := systemctl("start", "keep.socket", "keep.service"); out != "" {
		t.Fatal(out)
	}
	var agents []*agent
	for range 8 {
		agents = append(agents, h.attach())
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	for range 2 { // both have the same input and output
		if answer, err := ask(h.socket, "a", int(tty.Fd()), int(tty.Fd())); answer != "welcome" {
			t.Fatalf("a terminal: %q, %v", answer, err)
		}
	}
	for i := range 20 {
		if i == 10 {
			if out := systemctl("restart", "keep.service"); out != "" {
				t.Error(out)
			}
			continue
		}
		pid := h.daemon()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		h.until("another daemon runs", func() bool { return h.daemon() != pid })
	}
	for i, a := range agents {
		if err := a.alive(); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
		a.leave()
	}
	h.until("two sessions are left", func() bool { answer, _ := ask(h.socket, "n"); return strings.HasPrefix(answer, "2 ") })
	h.until("systemd keeps no more than those of two sessions", func() bool {
		n, err := strconv.Atoi(systemctl("show", "--property=NFileDescriptorStore", "--value", "keep.service"))
		return err == nil && n == 5 // one terminal, two mappings, two staging pipes
	})
}
