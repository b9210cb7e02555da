package sock

import (
	"os"

	"golang.org/x/sys/unix"
)

func credentialsOf(fd int) (credentials, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return credentials{}, os.NewSyscallError("SO_PEERCRED", err)
	}
	return credentials{cred.Uid, cred.Gid, cred.Pid}, nil
}

// pidfdOf returns a pidfd of exactly the peer, which the kernel provides since Linux 6.5.
// Before, it returns -1, and the caller opens one by pid, which is right unless the peer has
// ended and its pid was reused.
func pidfdOf(fd int) (int, error) {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch err {
	case nil:
		return pidfd, nil
	case unix.ENOPROTOOPT:
		return -1, nil
	}
	return -1, ErrPeerGone
}
