package sock

import (
	"os"

	"golang.org/x/sys/unix"
)

// On macOS a peer is a pid and the time its process started. There is no
// descriptor that stands for the process, so what is read about it could in
// principle be another's, if it ended and its pid was used again within the
// few microseconds between connecting and the first look. Pids are given out
// in turn there, which makes that a matter of 99,000 new processes.

func credentialsOf(fd int) (credentials, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return credentials{}, os.NewSyscallError("LOCAL_PEERCRED", err)
	}
	pid, _ := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID) // of one that has ended there is none
	return credentials{cred.Uid, cred.Groups[0], int32(pid)}, nil
}

func pidfdOf(int) (int, error) { return -1, nil }
