package sock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// The test binary plays the other processes.
const roleEnv = "SOCK_TEST_ROLE"

var roles = map[string]func(args []string){
	// connect reports the result of its connection.
	"connect": func(args []string) {
		c, err := net.Dial("unix", args[0])
		if err != nil {
			fmt.Println("dial:", err)
			return
		}
		fmt.Println("connected")
		c.SetDeadline(time.Now().Add(time.Minute))
		b, err := io.ReadAll(c)
		fmt.Printf("read %q %v\n", b, err)
	},
	"dial": func(args []string) {
		_, err := Dial(context.Background(), args[0])
		fmt.Println(err)
	},
	"squat": func(args []string) {
		l, err := net.Listen("unix", args[0])
		if err != nil {
			fmt.Println("listen:", err)
			return
		}
		os.Chmod(args[0], 0o777)
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		l.Close()
	},
	"lock": func(args []string) {
		f, err := Lock(args[0])
		fmt.Println("locked", err)
		io.Copy(io.Discard, os.Stdin)
		if f != nil {
			f.Close()
		}
	},
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

const nobody = 65534

// asNobody makes cmd run under another uid, and skips the test if that is not possible.
func asNobody(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to play a second user")
	}
	// Other users can't reach the test binary where it is.
	public := tempdir.New(t, "/tmp", "sock")
	if err := os.Chmod(public, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = public + "/test"
	if err := os.WriteFile(cmd.Path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	return cmd
}

// private returns a new folder for sockets with a short path, closed to others.
func private(t *testing.T) string {
	t.Helper()
	dir := tempdir.New(t, "/tmp", "sock")
	return dir
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in 10 s: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
