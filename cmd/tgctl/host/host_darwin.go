package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// LookAtKernel returns the name and version of the kernel. Linux's features do not exist here.
func LookAtKernel() Kernel {
	k := Kernel{Name: "Darwin", NotLinux: true}
	if release, err := unix.Sysctl("kern.osrelease"); err == nil {
		k.Name += " " + release
	}
	return k
}

// Age returns ErrUnknown: a process's start time uses the wall clock, which can be set.
func Age(int32) (time.Duration, error) { return 0, ErrUnknown }
