package private

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestMain also lets the test binary be a private process.
func TestMain(m *testing.M) {
	switch os.Getenv("PRIVATE_TEST") {
	case "":
		os.Exit(m.Run())
	case "inherited":
		if CloseInherited() != nil {
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	if NoCore() != nil || NoReading() != nil {
		os.Exit(1)
	}
	syscall.Kill(os.Getpid(), syscall.SIGSEGV)
	select {}
}

// A process that crashes leaves no core, wherever cores go on this system.
func TestNoCore(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PRIVATE_TEST=1", "GOTRACEBACK=crash")
	cmd.Dir = t.TempDir()
	_ = cmd.Run() // it crashes
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.CoreDump() {
		t.Errorf("it ended with %v, want by a signal and without a core", cmd.ProcessState)
	}
	left, err := os.ReadDir(cmd.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// The end of an inherited pipe is seen while the process that has closed it still runs.
func TestCloseInherited(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PRIVATE_TEST=inherited")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.ExtraFiles = []*os.File{w}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read %d, %v; want the end", n, err)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
