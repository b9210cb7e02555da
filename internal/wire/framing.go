package wire

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Framing says where a message ends in a stream of bytes. It knows nothing of
// what a message says.
type Framing interface {
	// NewReader returns a reader of the messages in r, each of at most max
	// bytes; 0 stands for MaxMessage.
	NewReader(r io.Reader, max int) LineReader

	// around returns what stands before and after body in its frame; head is made in
	// room. It fails when body can't be framed so that it comes out as it went in.
	around(room []byte, body []byte) (head []byte, tail string, err error)
}

// LineReader reads the messages of a stream. See Reader.Next for what it
// returns at the end. It is not safe for concurrent use.
type LineReader interface {
	Next(*Line) error
}

// ErrFraming means that the stream can't be read on: where the next message
// begins is not known any more.
var ErrFraming = errors.New("framing lost")

// NDJSON is newline-delimited JSON: a message is a line. It is the framing of
// MCP and of most agents.
type NDJSON struct{}

// NewReader implements Framing; the result is a *Reader.
func (NDJSON) NewReader(r io.Reader, max int) LineReader { return NewReader(r, max) }

// around fails when body has a line break, or is nothing but blanks.
func (NDJSON) around(_ []byte, body []byte) ([]byte, string, error) {
	blank := true
	for _, c := range body {
		if c == '\n' || c == '\r' {
			return nil, "", errors.New("frame a message: a line break inside a line")
		}
		blank = blank && isBlank(c)
	}
	if blank {
		return nil, "", errors.New("frame a message: an empty line")
	}
	return nil, "\n", nil
}

// Writer writes messages to a stream. A frame of up to 64 KiB leaves in one
// write; a longer one is not copied and leaves in two or three, with no other
// between them. It is safe for concurrent use.
type Writer struct {
	framing Framing

	mu  sync.Mutex // guards what follows, and is held while writing
	w   io.Writer
	buf []byte
	err error
}

// NewWriter returns a writer of messages framed with f to w.
func NewWriter(w io.Writer, f Framing) *Writer { return &Writer{framing: f, w: w} }

// Write writes body as one frame. After a write failed, half a frame may have
// left, and every later call returns that error. A body that can't be framed is
// an error of this call only.
func (w *Writer) Write(body []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	var room [48]byte
	head, tail, err := w.framing.around(room[:0], body)
	if err != nil {
		return err
	}
	if len(body) <= keptBuffer {
		w.buf = append(append(append(w.buf[:0], head...), body...), tail...)
		w.put(w.buf)
		return w.err
	}
	w.put(head)
	w.put(body)
	w.put([]byte(tail))
	return w.err
}

// put writes text unless an earlier write failed. w.mu is held.
func (w *Writer) put(text []byte) {
	if w.err != nil || len(text) == 0 {
		return
	}
	if _, err := w.w.Write(text); err != nil {
		w.err = fmt.Errorf("write a message: %w", err)
	}
}

// failed reports whether the stream is of no more use.
func (w *Writer) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}
