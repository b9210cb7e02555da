package private

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestNoReading(t *testing.T) {
	if err := NoReading(); err != nil {
		t.Fatal(err)
	}
	// The flag applies to the whole process, so it is reset for the other tests.
	defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }()
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/environ", &stat); err != nil || stat.Uid != 0 {
		t.Errorf("the environment belongs to uid %d, %v; want root", stat.Uid, err)
	}
	if flag, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || flag != 0 {
		t.Errorf("dumpable is %d, %v", flag, err)
	}
}
