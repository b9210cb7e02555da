package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

func TestLookAtSelf(t *testing.T) {
	p, err := Look(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	exe, _ := os.Executable()
	if int(p.PPID) != os.Getppid() || p.Exe != exe || p.Start == 0 {
		t.Errorf("%+v, want parent %d and program %s", p, os.Getppid(), exe)
	}
}

func TestArgs(t *testing.T) {
	if args, err := Args(int32(os.Getpid())); err != nil || !slices.Equal(args, os.Args) {
		t.Errorf("got %q, %v, want %q", args, err, os.Args)
	}
	if args, err := Args(math.MaxInt32); err == nil {
		t.Errorf("a process that there is not: %q", args)
	}
}

func TestProcessThatIsNone(t *testing.T) {
	for _, pid := range []int32{-1, 0, 1 << 30} {
		if p, err := Look(pid); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("pid %d: %+v, %v", pid, p, err)
		}
		if line, err := Ancestors(pid); err == nil {
			t.Errorf("pid %d has ancestors %+v", pid, line)
		}
		if env, err := Environ(pid); err == nil {
			t.Errorf("pid %d has the environment %q", pid, env)
		}
	}
}

func TestTerminal(t *testing.T) {
	cmd := rig.As("wait")
	master, err := pty.Start(cmd)
	if err != nil {
		t.Skipf("no terminal can be had: %v", err)
	}
	defer cmd.Wait()
	defer master.Close()
	defer cmd.Process.Kill()
	p, err := Look(int32(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.TTY, "/dev/") {
		t.Errorf("terminal %q", p.TTY)
	}
	if _, err := os.Stat(p.TTY); err != nil {
		t.Error(err)
	}
}

func TestEnviron(t *testing.T) {
	cmd := rig.As("wait")
	cmd.Env = append(cmd.Env, "A=b c", "EMPTY=", "LINES=a\nb")
	other := rig.Start(t, cmd)
	other.Line(t)
	if got, err := Environ(int32(cmd.Process.Pid)); err != nil || !slices.Equal(got, cmd.Environ()) {
		t.Errorf("%q, %v; want %q", got, err, cmd.Environ())
	}
}

func TestAncestors(t *testing.T) {
	other := rig.Start(t, rig.As("wait"))
	other.Line(t)
	line, err := Ancestors(int32(other.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if len(line) < 2 || int(line[0].PID) != os.Getpid() || int(line[1].PID) != os.Getppid() {
		t.Errorf("%+v; want us and then our parent", line)
	}
	for i := 1; i < len(line); i++ {
		if line[i].PID != line[i-1].PPID || line[i].Start > line[i-1].Start {
			t.Errorf("%+v is not the parent of %+v", line[i], line[i-1])
		}
	}
	if last := line[len(line)-1]; last.PPID != 0 {
		t.Errorf("the line ends at %+v", last)
	}
}

func TestParseProcArgs(t *testing.T) {
	for _, test := range []struct {
		name, raw, exe string
		env            []string
		ok             bool
	}{
		{"usual", "\x02\x00\x00\x00/bin/x\x00\x00\x00x\x00-v\x00A=1\x00B=\x00\x00rest", "/bin/x", []string{"A=1", "B="}, true},
		{"no environment", "\x01\x00\x00\x00/bin/x\x00x\x00", "/bin/x", nil, true},
		{"an argument that looks like a variable", "\x02\x00\x00\x00/bin/x\x00x\x00A=1\x00B=2\x00\x00", "/bin/x", []string{"B=2"}, true},
		{"too few arguments", "\x09\x00\x00\x00/bin/x\x00x\x00", "", nil, false},
		{"too many to be true", "\xff\xff\xff\xff/bin/x\x00x\x00", "", nil, false},
		{"no end", "\x01\x00\x00\x00/bin/x", "", nil, false},
		{"too short", "\x01\x00", "", nil, false},
	} {
		exe, _, env, err := parseProcArgs([]byte(test.raw))
		if exe != test.exe || !slices.Equal(env, test.env) || (err == nil) != test.ok {
			t.Errorf("%s: %q, %q, %v; want %q, %q, %v", test.name, exe, env, err, test.exe, test.env, test.ok)
		}
	}
}

func FuzzParseProcArgs(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00/bin/x\x00\x00\x00x\x00-v\x00A=1\x00B=\x00\x00rest"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _, env, _ := parseProcArgs(raw)
		if slices.Contains(env, "") {
			t.Error("an empty entry")
		}
	})
}

func pidOf(t *testing.T, o *rig.Other) int32 {
	t.Helper()
	var pid int32
	if _, err := fmt.Sscanf(o.Line(t), "pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}
