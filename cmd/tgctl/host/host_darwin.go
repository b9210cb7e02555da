package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// LookAtKernel says that there is nothing of what Linux has.
func LookAtKernel() Kernel {
	k := Kernel{Name: "Darwin", Apart: true}
	if release, err := unix.Sysctl("kern.osrelease"); err == nil {
		k.Name += " " + release
	}
	return k
}

// Age is not known: the start of a process is told by the clock that people set.
func Age(int32) (time.Duration, error) { return 0, ErrUnknown }
