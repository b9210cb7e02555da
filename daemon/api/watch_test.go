package api

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

func TestTransientUnits(t *testing.T) {
	for cgroup, want := range map[string]string{
		"":  "",
		"/": "",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.service":                               "run-u12.service",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/run-p4711-i99.service":                         "run-p4711-i99.service",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/run-r0123456789abcdef0123456789abcdef.service": "run-r0123456789abcdef0123456789abcdef.service",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.service/below":                         "run-u12.service",
		// Processes of a scope keep their parents.
		"/user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.scope": "",
		// Programs that a desktop starts, and installed services.
		"/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.kde.konsole@1f2e.service":       "",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/dbus-:1.2-org.gnome.Terminal@0.service": "",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/no-such-unit-of-ours.service":           "",
		"/user.slice/user-1000.slice/session-3.scope":                                                    "",
	} {
		if got := transient(cgroup, os.Getuid()); got != want {
			t.Errorf("%s: got %q, want %q", cgroup, got, want)
		}
	}
}

// A process that cleaned its own environment is recognized by that of its parent.
func TestMarkedAbove(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("only /proc shows the environment of others reliably")
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "env -i sh -c 'echo $$ >pid; read line' ; exit 0")
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "THOUGHTGATE_ACTIVE=1"}, dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	pid := waitForPID(t, filepath.Join(dir, "pid"))
	p, err := proc.Look(pid)
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{Info: p, seen: &record.Peer{}}
	if got := marked(c); got != "" {
		t.Errorf("alone: %q", got)
	}
	if c.above, err = proc.Ancestors(pid); err != nil {
		t.Fatal(err)
	}
	if got := marked(c); !strings.Contains(got, "has THOUGHTGATE_ACTIVE") {
		t.Errorf("with those above: %q", got)
	}
}

func TestTopmostInGroup(t *testing.T) {
	c := &caller{Info: proc.Info{Process: proc.Process{PID: 9}}}
	for pid := int32(8); pid >= 5; pid-- {
		c.above = append(c.above, proc.Info{Process: proc.Process{PID: pid}})
	}
	for _, test := range []struct {
		groups []string
		want   int32
	}{
		{[]string{"/a", "/b", "/a", "/a", "/a"}, 9},
		{[]string{"/a", "/a", "/b", "/a", "/a"}, 8},
		{[]string{"/a", "/a", "/a", "/a", "/a"}, 5},
	} {
		if got := c.topmost("/a", test.groups); got.PID != test.want {
			t.Errorf("%q: got %d, want %d", test.groups, got.PID, test.want)
		}
	}
}

// waitForPID waits until a file contains a pid, and returns it.
func waitForPID(t *testing.T, path string) int32 {
	t.Helper()
	for range 6000 {
		var pid int32
		if text, err := os.ReadFile(path); err == nil {
			if _, err := fmt.Sscanf(string(text), "%d\n", &pid); err == nil {
				return pid
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s never holds a number", path)
	return 0
}
