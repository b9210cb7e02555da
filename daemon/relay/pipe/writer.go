// Package pipe reads and writes the descriptors that a session holds.
//
// An agent and a server share these descriptors, which may be pipes, sockets, terminals or
// files. So none of their flags is changed. A [Readable] waits for input; writes wait in system
// calls. A [Waker] can end such waits.
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

// ErrWoken reports that a wait was ended by its [Waker].
var ErrWoken = errors.New("woken")

// Writer writes the output of one side so that the next daemon knows to the byte how much was
// written. Each piece is first put into a staging pipe, from which the system moves it on:
// what is left in the pipe was not written. Only one goroutine at a time may use it.
type Writer struct {
	fd      int
	staging *Staging // nil if the system has none
	cursor  mapping.Cursor
	wake    *Waker
	parts   [][]byte // buffer for the parts of a piece
}

// NewWriter returns a writer to fd. fd and the other arguments still belong to the caller. The
// writer's waits end when wake is woken.
func NewWriter(fd int, staging *Staging, cursor mapping.Cursor, wake *Waker) *Writer {
	return &Writer{fd: fd, staging: staging, cursor: cursor, wake: wake}
}

// Recover determines how much of its current piece a previous daemon has written, so that
// Write can continue there. It does not block. owed returns the output between two offsets.
// doubtful reports that the amount can't be determined, which happens only without a staging
// pipe; everything intended then counts as written. The error is [mapping.ErrCorrupt] if the
// staging pipe holds anything else than that daemon put there.
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
	case n > intent-delivered:
		return false, fmt.Errorf("%w: %d bytes are staged, want %d", mapping.ErrCorrupt, left, intent-delivered)
	case n > 0: // take it out; it is staged again with the next write
		if staged == intent { // otherwise nothing was moved on, and a part may be staged: see [mapping.Input]
			delivered = intent - n
			w.cursor.SetDelivered(delivered)
			w.cursor.SetStaged(delivered) // in this order: as long as all is staged, the rest is what is left
		}
		there, err := w.staging.take(left)
		if err != nil {
			return false, err
		}
		if rest, err := owed(delivered, delivered+n); err != nil || !bytes.Equal(there, rest) {
			return false, cmp.Or(err, fmt.Errorf("%w: %d unexpected bytes are staged", mapping.ErrCorrupt, left))
		}
	case staged == intent:
		delivered = intent
		w.cursor.SetDelivered(delivered)
	}
	w.cursor.SetIntent(delivered)
	return false, nil
}

// Write writes parts in order. They are the next output, and must not be modified until Write
// returns. After an error nothing more can be written. The error is [ErrWoken] if the wait for
// room was ended.
func (w *Writer) Write(parts ...[]byte) error {
	most := maxDirect
	if w.staging != nil {
		most = w.staging.most
	}
	piece, room := w.parts[:0], most
	defer func() {
		clear(piece[:cap(piece)])
		w.parts = piece
	}()
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
	maxDirect = 1 << 20 // maximum bytes of a piece without a staging pipe
)

// piece writes parts, which end at the offset intent.
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

// done counts everything up to offset as written.
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
