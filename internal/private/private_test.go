package private

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestMain lets the test binary be a process that keeps to itself.
func TestMain(m *testing.M) {
	if os.Getenv("PRIVATE_TEST") == "" {
		os.Exit(m.Run())
	}
	if NoCore() != nil || NoReading() != nil {
		os.Exit(1)
	}
	syscall.Kill(os.Getpid(), syscall.SIGSEGV)
	select {}
}

// A process that dies of a fault leaves no core, wherever cores go here.
func TestNoCore(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PRIVATE_TEST=1", "GOTRACEBACK=crash")
	cmd.Dir = t.TempDir()
	_ = cmd.Run() // it dies
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.CoreDump() {
		t.Errorf("it ended with %v, want by a signal and without a core", cmd.ProcessState)
	}
	left, err := os.ReadDir(cmd.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
