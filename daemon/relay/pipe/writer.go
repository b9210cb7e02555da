// Package pipe reads and writes the descriptors that a session holds.
//
// They are not the daemon's: an agent and a server have them too, and they may be
// pipes, sockets, terminals or files. So none of their flags is changed. Reading and
// writing wait in system calls, and what waits can be woken with a [Waker].
package pipe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// ErrWoken says that a wait was ended by its [Waker].
var ErrWoken = errors.New("woken")

// Writer writes what is owed to one side so that the next daemon knows, to the
// byte, how much of it was written. Each piece goes into a pipe of its own first,
// the staging pipe, and is moved on from there by the system: what is left in it
// is what was not written. Its methods are called by one goroutine at a time.
type Writer struct {
	fd      int
	staging *Staging // nil where the system has none
	cursor  mapping.Cursor
	wake    *Waker
}

// NewWriter returns a writer to fd, which stays the caller's, as the others do. Its
// waits end when wake is woken.
func NewWriter(fd int, staging *Staging, cursor mapping.Cursor, wake *Waker) *Writer {
	return &Writer{fd: fd, staging: staging, cursor: cursor, wake: wake}
}

// Recover finds out how much of what an earlier daemon was writing was written, so that
// Write goes on behind that; it does not wait. owed returns what is owed between two
// offsets. doubtful is true when nobody can tell, which is so only without a staging pipe;
// it is taken for written. The error is [mapping.ErrDamaged] where the staging pipe holds
// what that daemon has not put there.
func (w *Writer) Recover(owed func(from, to uint64) ([]byte, error)) (doubtful bool, err error) {
	delivered, staged, intent := w.cursor.Delivered(), w.cursor.Staged(), w.cursor.Intent()
	if w.staging == nil {
		w.done(intent)
		return intent > delivered, nil
	}
	left, err := w.staging.left()
	if err != nil {
		return false, err
	}
	switch n := uint64(left); {
	case n > intent-delivered || n > 0 && staged < intent && n != intent-delivered:
		return false, fmt.Errorf("%w: %d bytes are staged of %d that were to be", mapping.ErrDamaged, left, intent-delivered)
	case n > 0: // it is taken out, and staged again with what is written next
		delivered = intent - n
		w.done(delivered)
		there, err := w.staging.take(left)
		if err != nil {
			return false, err
		}
		if rest, err := owed(delivered, intent); err != nil || !bytes.Equal(there, rest) {
			return false, cmp.Or(err, fmt.Errorf("%w: %d bytes are staged that nobody has put there", mapping.ErrDamaged, left))
		}
	case staged == intent:
		delivered = intent
		w.done(delivered)
	}
	w.cursor.SetIntent(delivered)
	return false, nil
}

// Write writes parts, one after the other, which are what is owed behind all that
// was written before. They stay unchanged until it returns. After an error nothing
// can be written any more; it is [ErrWoken] when the wait for room was ended.
func (w *Writer) Write(parts ...[]byte) error {
	most := maxDirect
	if w.staging != nil {
		most = w.staging.most
	}
	var piece [][]byte
	room := most
	for _, part := range parts {
		for len(part) > 0 {
			n := min(len(part), room)
			piece = append(piece, part[:n:n])
			part, room = part[n:], room-n
			if room == 0 || len(piece) == mostParts {
				if err := w.piece(w.cursor.Delivered()+uint64(most-room), piece); err != nil {
					return err
				}
				piece, room = piece[:0], most
			}
		}
	}
	if len(piece) == 0 {
		return nil
	}
	return w.piece(w.cursor.Delivered()+uint64(most-room), piece)
}

const (
	mostParts = 64      // of one piece
	maxDirect = 1 << 20 // bytes of a piece where there is no staging pipe
)

// piece writes what leads up to the offset intent.
func (w *Writer) piece(intent uint64, parts [][]byte) error {
	w.cursor.SetIntent(intent)
	if w.staging == nil {
		if err := w.direct(parts); err != nil {
			return err
		}
		w.done(intent)
		return nil
	}
	if err := w.staging.fill(parts); err != nil {
		return err
	}
	w.cursor.SetStaged(intent)
	if err := w.staging.moveTo(w.fd, w.wake); err != nil {
		return err
	}
	w.cursor.SetDelivered(intent)
	return nil
}

// done notes that all up to offset counts as written.
func (w *Writer) done(offset uint64) {
	w.cursor.SetStaged(offset)
	w.cursor.SetDelivered(offset)
}

// direct writes parts without a staging pipe.
func (w *Writer) direct(parts [][]byte) error {
	for _, part := range parts {
		for len(part) > 0 {
			if err := w.wake.Wait(w.fd, unix.POLLOUT); err != nil {
				return err
			}
			n, err := unix.Write(w.fd, part)
			if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
				return os.NewSyscallError("write", err)
			}
			part = part[max(n, 0):]
		}
	}
	return nil
}
