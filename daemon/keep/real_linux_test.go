package keep_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// TestSystemd runs TestInsideSystemd as an ordinary user, if possible.
func TestSystemd(t *testing.T) {
	if rig.IsInside() {
		t.Skip("it runs TestInsideSystemd, from outside")
	}
	rig.Inside(t, "TestInsideSystemd", 5*patience, nil)
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
ExecStart=%[3]s
StandardError=append:%[1]s/log
`

// TestInsideSystemd has a real systemd keep sessions over kills and restarts.
func TestInsideSystemd(t *testing.T) {
	if !rig.IsInside() {
		t.Skip("TestSystemd runs it")
	}
	dir := tempdir.New(t, "/tmp", "tg-keep-")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	units := map[string]string{
		"config/systemd/user/keep.socket":  fmt.Sprintf(socketText, dir),
		"config/systemd/user/keep.service": fmt.Sprintf(serviceText, dir, keep.MaxKept, program),
	}
	for _, folder := range []string{"run", "config/systemd/user"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range units {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", dir)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	h := &fixture{t: t, socket: filepath.Join(dir, "run/control")}
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
