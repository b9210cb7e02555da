package sock

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// On macOS a peer is a pid and the time its process started. There is no
// descriptor that stands for the process, so what is read about it could in
// principle be another's, if it ended and its pid was used again within the
// few microseconds between connecting and the first look. Pids are given out
// in turn there, which makes that a matter of 99,000 new processes.

func peerOf(fd int) (*Peer, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return nil, os.NewSyscallError("LOCAL_PEERCRED", err)
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPeerGone, os.NewSyscallError("LOCAL_PEERPID", err))
	}
	if pid <= 0 {
		return nil, ErrPeerGone
	}
	return &Peer{UID: cred.Uid, GID: cred.Groups[0], PID: int32(pid), pidfd: -1}, nil
}

func credentials(fd int) (uint32, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, os.NewSyscallError("LOCAL_PEERCRED", err)
	}
	return cred.Uid, nil
}

// running is not asked: there are no pidfds.
func running(int) bool { return false }
