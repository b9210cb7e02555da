package sock

import (
	"os"

	"golang.org/x/sys/unix"
)

// On macOS a peer is a pid and the start time of its process. There is no descriptor for a
// process, so what is read about the pid could in principle be about another process, if the
// peer ended and its pid was reused within the few microseconds between connecting and the
// first look. macOS assigns pids in order, so that would take 99,000 new processes.

func credentialsOf(fd int) (credentials, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return credentials{}, os.NewSyscallError("LOCAL_PEERCRED", err)
	}
	pid, _ := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID) // there is none if the peer has ended
	return credentials{cred.Uid, cred.Groups[0], int32(pid)}, nil
}

func pidfdOf(int) (int, error) { return -1, nil }
