package wire

import (
	"errors"
	"io"
)

const (
	smallBuffer = 16 << 10 // what a reader starts with and goes back to
	keptBuffer  = 64 << 10 // what a reader keeps between messages
	largeBuffer = 1 << 20  // past this a reader takes all it may need at once
	emptyReads  = 100      // in a row, before the source is given up
)

// Window is memory that a [Reader] reads through. Its methods are called by one
// goroutine.
type Window interface {
	// Unread returns what was read and not taken. It is valid until Fill or Shrink is
	// called.
	Unread() []byte
	// Take marks the first n bytes of it as taken.
	Take(n int)
	// Fill reads more, at least one byte. At the end of the input it returns io.EOF.
	Fill() error
	// Shrink is called before each line. What was taken may be let go of then.
	Shrink()
	// Release gives all memory back.
	Release()
}

// window is a buffer over a source. It grows while a message is incomplete,
// and is exchanged for a small one after a large message.
type window struct {
	source io.Reader
	max    int // longest message
	buf    []byte
	start  int // of what is unread
	end    int
	err    error
}

func newWindow(source io.Reader, most int) window {
	if most <= 0 {
		most = MaxMessage
	}
	return window{source: source, max: most}
}

func (w *window) Unread() []byte { return w.buf[w.start:w.end] }

// Take marks n bytes as read.
func (w *window) Take(n int) { w.start += n }

// Shrink lets go of a large buffer when what is unread fits into a small one.
func (w *window) Shrink() {
	if len(w.buf) > keptBuffer && w.end-w.start <= smallBuffer {
		small := make([]byte, smallBuffer)
		n := copy(small, w.Unread())
		w.buf, w.start, w.end = small, 0, n
	}
}

// Fill reads more, at least one byte. What was taken is gone then.
func (w *window) Fill() error {
	if w.err != nil {
		return w.err
	}
	w.makeRoom()
	for range emptyReads {
		n, err := w.source.Read(w.buf[w.end:])
		if n < 0 || n > len(w.buf)-w.end {
			return errors.New("read: the source claims to have read more than there was room for")
		}
		w.end += n
		w.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	w.err = io.ErrNoProgress
	return w.err
}

// makeRoom makes room for at least one byte, by moving what is unread to the
// front or into a larger buffer. The largest is taken in one step: what is not
// written to costs no memory, while every step on the way would.
func (w *window) makeRoom() {
	if w.start > 0 {
		w.end = copy(w.buf, w.Unread())
		w.start = 0
	}
	if w.end < len(w.buf) {
		return
	}
	size := max(4*len(w.buf), smallBuffer)
	if most := w.max + smallBuffer; size > largeBuffer || size > most {
		size = max(most, w.end+smallBuffer)
	}
	larger := make([]byte, size)
	w.end = copy(larger, w.Unread())
	w.buf = larger
}

// Release lets go of the buffer. What is unread is gone with it.
func (w *window) Release() { w.buf, w.start, w.end = nil, 0, 0 }
