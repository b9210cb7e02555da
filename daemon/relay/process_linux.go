package relay

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
)

func openHandle(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// ended reports whether the process has: its handle can be read then.
func (p *Process) ended() bool { return p.handle != nil && pipe.Ready(int(p.handle.Fd())) }

func signalHandle(handle *os.File, sig syscall.Signal) error {
	return unix.PidfdSendSignal(int(handle.Fd()), sig, nil, 0)
}
