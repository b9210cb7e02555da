package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary plays the other processes.
const roleEnv = "PROC_TEST_ROLE"

var roles = map[string]func(args []string){
	"wait": func([]string) { fmt.Println("ready"); io.Copy(io.Discard, os.Stdin) },
	// fork starts itself again for the next of its arguments, in a session of its own, and
	// exits without waiting.
	"fork": func(args []string) {
		cmd := again(args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		if err := cmd.Start(); err != nil {
			fmt.Println("start:", err)
		}
	},
	"pid": func([]string) { fmt.Println("pid", os.Getpid()); io.Copy(io.Discard, os.Stdin) },
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role](os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

func again(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// other is a process in a role.
type other struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// play starts a process in a role. It ends with the test, at the latest when its input ends.
func play(t *testing.T, cmd *exec.Cmd) *other {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &other{Cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(o.end)
	return o
}

func (o *other) end() {
	o.in.Close()
	io.Copy(io.Discard, o.out)
	o.Wait()
}

func (o *other) line(t *testing.T) string {
	t.Helper()
	s, err := o.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process said %q, then %v", s, err)
	}
	return strings.TrimSpace(s)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in a minute: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
