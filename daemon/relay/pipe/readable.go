package pipe

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Readable waits until a descriptor can be read. The runtime waits, as it does for sockets. A
// thread that waits in a system call would keep a processor of the runtime, and its monitor
// would take that back, start another thread and look around for work all the time.
//
// The descriptor itself can't be handed to the runtime, which would change its flags. Where the
// system has epoll, an instance of it that watches only this descriptor stands in for it.
// Elsewhere, and for files on a disk, a thread waits. Only one goroutine at a time may wait; the
// other methods are safe for concurrent use.
type Readable struct {
	fd   int
	wake *Waker
	file *os.File // the epoll instance, or nil
	conn syscall.RawConn
}

// NewReadable returns a Readable for fd, which still belongs to the caller. The caller must
// close it, before fd.
func NewReadable(fd int, wake *Waker) (*Readable, error) {
	r := &Readable{fd: fd, wake: wake}
	var err error
	if r.file, err = watch(fd); err != nil || r.file == nil {
		return r, err
	}
	if err := r.file.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for a descriptor: %w", err), r.file.Close())
	}
	if r.conn, err = r.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	return r, nil
}

// Wait waits until the descriptor can be read, or has ended. The error is [ErrWoken] if the
// wait was ended.
func (r *Readable) Wait() error {
	if r.file == nil {
		return r.wake.Wait(r.fd, unix.POLLIN)
	}
	err := r.conn.Read(func(uintptr) bool { return Ready(r.fd) })
	keepMonitorAwake()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrWoken
	}
	return err
}

// Wake ends the waits, current and future ones, together with the Waker.
func (r *Readable) Wake() {
	if r.file != nil {
		_ = r.file.SetReadDeadline(time.Unix(1, 0)) // fails only if it is closed
	}
}

// Close releases what r needed. Nothing may wait any more.
func (r *Readable) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
