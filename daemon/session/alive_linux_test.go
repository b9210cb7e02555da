package session

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// headless is set only in a process whose first thread must exit.
const headless = "TG_TEST_HEADLESS"

func init() {
	if os.Getenv(headless) == "" {
		return
	}
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}()
	fmt.Println("ready")
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // exits the first thread, on which init runs
}

// A process lives, and holds its locks, as long as one of its threads does.
func TestAliveWithoutItsFirstThread(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), headless+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	first := newWorld()
	first.eventually(t, "its first thread has ended", func() bool {
		s, err := proc.Read(int32(cmd.Process.Pid))
		return err == nil && s.Zombie
	})
	s, _ := proc.Read(int32(cmd.Process.Pid))
	p := s.Process
	if !p.Alive() {
		t.Error("it lives, and is taken for dead")
	}
	in.Close() // now the last thread ends
	first.eventually(t, "the process ends", func() bool { return !p.Alive() })
	if _, err := proc.Look(p.PID); err == nil {
		t.Error("it is a zombie, and described")
	}
}
