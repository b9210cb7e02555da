package pipe

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// watch returns a file that can be read when fd can, or nil if fd is a file on a disk, which
// always can.
func watch(fd int) (*os.File, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN})
	if err == nil {
		err = unix.SetNonblock(epoll, true) // so that the runtime waits for it
	}
	if err != nil {
		if err = errors.Join(err, unix.Close(epoll)); errors.Is(err, unix.EPERM) {
			return nil, nil
		}
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return os.NewFile(uintptr(epoll), "epoll"), nil
}
