// Package nowait reads pipes and sockets without Go's scheduler being told.
//
// Each ordinary read tells the scheduler that a thread may be about to wait in the
// kernel. A program that has just woken up pays for it: it wakes another thread that
// watches over such calls, which then wakes every 20 µs until all are idle again. Who
// carries one short line at a time does nothing but wake up. So the first try is a
// call that never waits, whatever the descriptor is set to, and of which the scheduler
// need not know; when it does not do, the ordinary one is made, which waits as ever and
// says what is wrong.
//
// This is Linux's: before Linux 6.4 for sockets only, and elsewhere not at all, what is
// returned here reads as what it was given.
package nowait

import (
	"io"
	"syscall"
)

// ReadConn is what can be read from and has a descriptor.
type ReadConn interface {
	io.Reader
	syscall.Conn
}

// Reader reads from what it was made of. It is for one goroutine at a time.
type Reader struct {
	from io.Reader
	now  try
}

// NewReader returns a reader of r. Deadlines, closing and errors are those of r.
func NewReader(r ReadConn) *Reader { return &Reader{from: r, now: newTry(r)} }

// Read reads what is there, and waits for something if nothing is.
func (r *Reader) Read(b []byte) (int, error) {
	if len(b) > 0 && r.now.usable() {
		switch n, err := r.now.wait(b); {
		case err == nil && n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		}
	}
	return r.from.Read(b)
}
