package sock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// peerOf returns the peer without its start. The credentials come first. Since
// Linux 6.5 the kernel also hands out a pidfd of exactly that process; before,
// one is opened by number, which is right unless the peer has ended and its pid
// was used again since.
func peerOf(fd int) (*Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, os.NewSyscallError("SO_PEERCRED", err)
	}
	if cred.Pid <= 0 {
		return nil, errors.New("it can't be seen from here: it is in another pid namespace")
	}
	p := &Peer{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid, pidfd: -1}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err == unix.ENOPROTOOPT {
		pidfd, err = unix.PidfdOpen(int(cred.Pid), 0)
		if err == unix.ENOSYS || err == unix.EPERM {
			return p, nil
		}
	}
	if err != nil {
		return nil, ErrPeerGone
	}
	p.pidfd = pidfd
	return p, nil
}

func credentials(fd int) (uint32, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, os.NewSyscallError("SO_PEERCRED", err)
	}
	return cred.Uid, nil
}

// running reports whether a process has not ended. Its pidfd becomes readable
// when it does.
func running(pidfd int) bool {
	set := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set, 0)
		if err != unix.EINTR {
			return err == nil && n == 0
		}
	}
}
