package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// A process that forked twice and created a session of its own is still found below the
// subreaper. That is how an agent's daemons remain visible.
func TestAncestorsOfADaemonUnderASubreaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	launcher := rig.Start(t, rig.As("fork", "fork", "pid"))
	pid := pidOf(t, launcher)
	defer unix.Wait4(int(pid), nil, 0, nil)
	defer launcher.In.Close()
	eventually(t, "the daemon is adopted", func() bool {
		p, err := Look(pid)
		return err == nil && int(p.PPID) == os.Getpid()
	})
	if sid, err := unix.Getsid(int(pid)); err != nil || sid != int(pid) {
		t.Fatalf("session %d, %v; want its own", sid, err)
	}
	line, err := Ancestors(pid)
	if err != nil || len(line) == 0 || int(line[0].PID) != os.Getpid() {
		t.Errorf("ancestors %+v, %v; want us first", line, err)
	}
}

// While the parents of a process end one after the other, its ancestors never have a gap.
func TestAncestorsWhileParentsEnd(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for range 10 {
		launcher := rig.Start(t, rig.As("fork", "fork", "fork", "fork", "pid"))
		pid := pidOf(t, launcher)
		for range 50 {
			line, err := Ancestors(pid)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, p := range line {
				found = found || int(p.PID) == os.Getpid()
			}
			if !found {
				t.Fatalf("we are missing in %+v", line)
			}
		}
		launcher.In.Close()
		launcher.End()
		for { // the middle ones and the daemon, all adopted by now
			if p, err := unix.Wait4(-1, nil, 0, nil); err != nil || p <= 0 {
				break
			}
		}
	}
}

func TestNameWithParentheses(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), "a) R 1 (b")
	if err := os.WriteFile(odd, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(odd, "1000")
	if err := cmd.Start(); err != nil {
		t.Skip(err) // a single program for all commands, selected by its name
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, err := Look(int32(cmd.Process.Pid))
	if err != nil || p.Name != "a) R 1 (b" || int(p.PPID) != os.Getpid() {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTTYName(t *testing.T) {
	for dev, want := range map[uint32]string{
		0:                 "",
		unixDev(136, 3):   "/dev/pts/3",
		unixDev(136, 300): "/dev/pts/300",
		unixDev(4, 2):     "/dev/tty2",
		unixDev(4, 65):    "/dev/ttyS1",
		unixDev(204, 64):  "device 204:64",
	} {
		if got := ttyName(dev); got != want {
			t.Errorf("device %#x: %q, want %q", dev, got, want)
		}
	}
}

// unixDev packs a device number as in /proc/PID/stat.
func unixDev(major, minor uint32) uint32 { return minor&0xff | major<<8 | (minor&^0xff)<<12 }

func TestUserNamespace(t *testing.T) {
	same, err := SameUserNamespace(int32(os.Getpid()))
	if err != nil || !same {
		t.Errorf("our own: %v, %v", same, err)
	}
	cmd := rig.As("wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no user namespace can be made: %v", err)
	}
	defer cmd.Wait()
	defer in.Close()
	if same, err := SameUserNamespace(int32(cmd.Process.Pid)); err != nil || same {
		t.Errorf("another one: %v, %v", same, err)
	}
}

func TestCgroup(t *testing.T) {
	want, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	got, err := Cgroup(int32(os.Getpid()))
	if err != nil || (got == "" && len(want) > 0 && want[0] == '0') {
		t.Errorf("%q, %v; the kernel says %q", got, err, want)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (cat) S 12 34 56 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 117869 3133440"))
	f.Add([]byte("7 (a) Z (b) S 12 34 56 34816 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 117869"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseStat(7, b)
		if err != nil {
			return
		}
		written := fmt.Appendf(nil, "7 (%s) S %d %s%d", p.Name, p.PPID, strings.Repeat("0 ", 17), p.Start)
		again, err := parseStat(7, written)
		if err != nil || again.PPID != p.PPID || again.Start != p.Start || again.Name != p.Name {
			t.Errorf("%+v, written again and read: %+v, %v", p, again, err)
		}
	})
}

// A process in a PID namespace of its own has other numbers for its children.
func TestChildOf(t *testing.T) {
	ours := exec.Command("sleep", "1000")
	start(t, ours)
	if p, err := ChildOf(int32(os.Getpid()), int32(ours.Process.Pid)); err != nil || int(p.PID) != ours.Process.Pid {
		t.Errorf("our child: got %+v, %v", p, err)
	}
	if _, err := ChildOf(int32(ours.Process.Pid), int32(os.Getpid())); !errors.Is(err, ErrNoChild) {
		t.Errorf("we are no child of our child: got %v", err)
	}
	args := []string{"--user", "--map-root-user", "--pid", "--fork", "--kill-child"}
	if out, err := exec.Command("unshare", append(args, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces to be had: %v %s", err, out)
	}
	sandbox := exec.Command("unshare", append(args, "sh", "-c", "sleep 1000 & echo $!; wait")...)
	out, err := sandbox.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, sandbox)
	var inside int32
	if _, err := fmt.Fscan(out, &inside); err != nil {
		t.Fatal(err)
	}
	var shell int32
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			if p, err := Read(int32(n)); err == nil && int(p.PPID) == sandbox.Process.Pid {
				shell = p.PID
			}
		}
	}
	p, err := ChildOf(shell, inside)
	if err != nil || p.PPID != shell || p.PID == inside {
		t.Errorf("process %d of %d: got %+v, %v", inside, shell, p, err)
	}
	if _, err := ChildOf(shell, 30000); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a number that no child has: got %v", err)
	}
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func TestParseStat(t *testing.T) {
	const rest = " 12 34 56 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 117869 3133440"
	for _, test := range []struct {
		stat string
		ok   bool
		want Info
	}{
		{"7 (cat) S" + rest, true, Info{Process: Process{7, 117869}, PPID: 12, Group: 34, Session: 56, threads: 1}},
		{"7 (cat) Z" + rest, true, Info{Process: Process{7, 117869}, PPID: 12, Group: 34, Session: 56, threads: 1, Zombie: true}},
		{"7 (x) Z 1 1 1 (y) S" + rest, true, Info{Process: Process{7, 117869}, PPID: 12, Group: 34, Session: 56, threads: 1}},
		{"7 (a\nb) R" + rest, true, Info{Process: Process{7, 117869}, PPID: 12, Group: 34, Session: 56, threads: 1}},
		{"7 (cat) S 12 34", false, Info{}},
		{"7 cat S" + rest, false, Info{}},
		{"", false, Info{}},
	} {
		got, err := parseStat(7, []byte(test.stat))
		test.want.Name = got.Name
		if err == nil != test.ok || got != test.want {
			t.Errorf("%q: %+v, %v; want %+v, %v", test.stat, got, err, test.want, test.ok)
		}
	}
}
