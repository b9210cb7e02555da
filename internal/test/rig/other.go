package rig

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// roleVar is set in a process that plays a role; it names the role.
const roleVar = "RIG_ROLE"

// RunRoles is a TestMain: it runs the tests, or the role that [As] has given to this process.
func RunRoles(m *testing.M, roles map[string]func(args []string)) {
	if role := os.Getenv(roleVar); role != "" {
		roles[role](os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// As returns a command that runs this test binary in a role.
func As(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// Other is another process, which a test talks to.
type Other struct {
	*exec.Cmd
	In  io.WriteCloser
	Out *bufio.Reader
}

// Start starts a process. It ends with the test, at the latest when its input ends.
func Start(tb testing.TB, cmd *exec.Cmd) *Other {
	tb.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	o := &Other{Cmd: cmd, In: in, Out: bufio.NewReader(out)}
	tb.Cleanup(o.End)
	return o
}

// End closes the input of o and waits for its end.
func (o *Other) End() {
	o.In.Close()
	_, _ = io.Copy(io.Discard, o.Out)
	_ = o.Wait() // it may have been killed
}

// Line reads a line from o.
func (o *Other) Line(tb testing.TB) string {
	tb.Helper()
	s, err := o.Out.ReadString('\n')
	if err != nil {
		tb.Fatalf("the other process said %q, then %v", s, err)
	}
	return strings.TrimSpace(s)
}
