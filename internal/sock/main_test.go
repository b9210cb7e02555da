package sock

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// roles are what the test binary plays as other processes.
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

func TestMain(m *testing.M) { rig.RunRoles(m, roles) }

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
