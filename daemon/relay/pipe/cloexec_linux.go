package pipe

import "golang.org/x/sys/unix"

func pipeCloseOnExec(ends *[2]int) error { return unix.Pipe2(ends[:], unix.O_CLOEXEC) }
