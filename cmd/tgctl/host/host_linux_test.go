package host

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestThisMachine compares the results for the test's machine with what is known about it
// otherwise.
func TestThisMachine(t *testing.T) {
	if k := LookAtKernel(); !strings.HasPrefix(k.Name, "Linux ") || !k.PIDFD || k.NotLinux || k.PeerPIDFD && !k.PIDFD {
		t.Errorf("the kernel is %+v", k)
	}
	if s, err := SpaceAt(t.TempDir()); err != nil || s.Free == 0 || s.Files == 0 {
		t.Errorf("room %+v, %v", s, err)
	}
	if _, err := SpaceAt("/nonexistent"); err == nil {
		t.Error("there is room where there is nothing")
	}
	if age, err := Age(int32(os.Getpid())); err != nil || age < 0 || age > time.Hour {
		t.Errorf("this test is %v old, %v", age, err)
	}
	if age, err := Age(1); err != nil || age < time.Second {
		t.Errorf("the first process is %v old, %v", age, err)
	}
}
