package proc

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// roles are what the test binary plays as other processes.
var roles = map[string]func(args []string){
	"wait": func([]string) { fmt.Println("ready"); io.Copy(io.Discard, os.Stdin) },
	// fork starts itself again for the next of its arguments, in a session of its own, and
	// exits without waiting.
	"fork": func(args []string) {
		cmd := rig.As(args[0], args[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		if err := cmd.Start(); err != nil {
			fmt.Println("start:", err)
		}
	},
	"pid": func([]string) { fmt.Println("pid", os.Getpid()); io.Copy(io.Discard, os.Stdin) },
}

func TestMain(m *testing.M) { rig.RunRoles(m, roles) }

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
