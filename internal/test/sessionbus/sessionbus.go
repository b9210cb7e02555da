// Package sessionbus starts session buses for tests of desktop notifications.
package sessionbus

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// busConfig configures a session bus with one socket. It starts the services in services/.
const busConfig = `<busconfig>
  <type>session</type>
  <listen>unix:path=%[1]s/bus</listen>
  <auth>EXTERNAL</auth>
  <servicedir>%[1]s/services</servicedir>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// Bus is a session bus for one test.
type Bus struct {
	Dir, Address string

	cmd *exec.Cmd
}

// Start starts a bus in dir. env is added to the environment of its services.
func Start(t *testing.T, dir string, env ...string) *Bus {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("needs dbus-daemon; it comes with the package dbus-daemon")
	}
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "services"), 0o700); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "bus")) // left by a bus that was killed
	b := &Bus{Dir: dir, Address: "unix:path=" + filepath.Join(dir, "bus")}
	b.cmd = exec.Command(program, "--config-file="+config, "--nofork", "--nopidfile", "--nosyslog")
	b.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "DBUS_SESSION_BUS_ADDRESS=" + b.Address}, env...)
	said := &rig.Buffer{}
	b.cmd.Stderr = said
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the bus said: %s", said)
		}
	})
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		conn, err := dbus.Connect(b.Address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the bus does not listen: ", err)
		}
	}
	return b
}

// Stop ends the bus and waits for it. It may be called more than once.
func (b *Bus) Stop() {
	if b.cmd.ProcessState == nil {
		_ = b.cmd.Process.Signal(syscall.SIGTERM)
		_ = b.cmd.Wait() // the error only says that a signal ended it
	}
}
