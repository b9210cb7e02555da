package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// Framing defines where a message ends in a stream of bytes. It does not know what a
// message contains.
type Framing interface {
	// NewReader returns a reader of the messages in r, each of at most max bytes; 0 means
	// MaxMessage.
	NewReader(r io.Reader, max int) LineReader

	// around returns what precedes and follows body in its frame; head may be appended to
	// room. It fails if the other side would not read the framed body as it is.
	around(room []byte, body []byte) (head []byte, tail string, err error)
}

// LineReader reads the messages of a stream. See Reader.Next for its behavior at the end
// of the stream. It is not safe for concurrent use.
type LineReader interface {
	Next(*Line) error
}

// ErrFraming means that the stream can't be read any further: the start of the next
// message is unknown.
var ErrFraming = errors.New("framing lost")

// NDJSON is newline-delimited JSON: one message per line. MCP and most agents use it.
type NDJSON struct{}

// NewReader implements Framing; the result is a *Reader.
func (NDJSON) NewReader(r io.Reader, max int) LineReader { return NewReader(r, max) }

// around fails if body contains a line break or is blank.
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

// Writer writes messages to a stream. A frame of up to 64 KiB is one write; a longer one
// is not copied and takes two or three writes, which no other frame interrupts. It is
// safe for concurrent use.
type Writer struct {
	framing Framing

	mu  sync.Mutex // guards the fields below; held while writing
	w   io.Writer
	buf []byte
	err error
}

// NewWriter returns a writer of messages framed with f to w.
func NewWriter(w io.Writer, f Framing) *Writer { return &Writer{framing: f, w: w} }

// Write writes body as one frame. After a failed write, part of a frame may have been
// written, and every later call returns that error. If body can't be framed, only this
// call fails.
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

// put writes text unless an earlier write failed. w.mu must be held.
func (w *Writer) put(text []byte) {
	if w.err != nil || len(text) == 0 {
		return
	}
	if _, err := w.w.Write(text); err != nil {
		w.err = fmt.Errorf("write a message: %w", err)
	}
}

// Failed reports whether a write failed, which makes the stream unusable.
func (w *Writer) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

const (
	headerLine  = 1 << 10 // longest line of a header, in bytes
	headerLines = 32      // maximum number of lines of a header
)

// ContentLength frames a message with a header, as language servers do: "Content-Length:
// 12", a blank line, and 12 bytes. Header names are case-insensitive; unknown headers are
// ignored.
type ContentLength struct{}

// NewReader implements Framing. A header without a length, with two lengths, of excessive
// size, or of a message that is too long is ErrFraming.
func (ContentLength) NewReader(r io.Reader, max int) LineReader {
	return &lengthReader{newWindow(r, max), readHeader}
}

func (ContentLength) around(room, body []byte) ([]byte, string, error) {
	room = strconv.AppendInt(append(room, "Content-Length: "...), int64(len(body)), 10)
	return append(room, "\r\n\r\n"...), "", nil
}

// Length32 frames a message with its length as a 4-byte big-endian integer. Extensions
// that use protobuf have this framing.
type Length32 struct{}

// NewReader implements Framing. The length of a message that is too long is ErrFraming.
func (Length32) NewReader(r io.Reader, max int) LineReader {
	return &lengthReader{newWindow(r, max), readLength32}
}

// around fails if body is 4 GiB or longer.
func (Length32) around(room, body []byte) ([]byte, string, error) {
	if uint64(len(body)) > 1<<32-1 {
		return nil, "", fmt.Errorf("frame a message: %d bytes are too many", len(body))
	}
	return binary.BigEndian.AppendUint32(room, uint32(len(body))), "", nil
}

// lengthReader reads messages that are preceded by their length.
type lengthReader struct {
	window
	header func(*window) (int64, error) // io.EOF if the input ends before a header
}

// Next implements LineReader. It returns io.ErrUnexpectedEOF if the input ends within a
// message.
func (r *lengthReader) Next(l *Line) error {
	r.Shrink()
	n, err := r.header(&r.window)
	if err != nil {
		return err
	}
	if n > int64(r.max) {
		return fmt.Errorf("%w: the announced length is %d bytes; the maximum is %d", ErrFraming, n, r.max)
	}
	for int64(len(r.Unread())) < n {
		if err := r.Fill(); err != nil {
			return midFrame(err)
		}
	}
	*l = Line{Data: r.Unread()[:n], Terminated: true}
	r.Take(int(n))
	return nil
}

func midFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readLength32(w *window) (int64, error) {
	for len(w.Unread()) < 4 {
		if err := w.Fill(); err != nil {
			if len(w.Unread()) > 0 {
				return 0, midFrame(err)
			}
			return 0, err
		}
	}
	n := binary.BigEndian.Uint32(w.Unread())
	w.Take(4)
	return int64(n), nil
}

// readHeader reads a ContentLength header, including the blank line.
func readHeader(w *window) (int64, error) {
	length := int64(-1)
	for i := 0; ; i++ {
		line, err := readHeaderLine(w)
		switch {
		case err == io.EOF && i == 0 && len(line) == 0:
			return 0, io.EOF
		case err != nil:
			return 0, midFrame(err)
		case i == headerLines:
			return 0, fmt.Errorf("%w: a header of more than %d lines", ErrFraming, headerLines)
		case len(line) == 0 && length < 0:
			return 0, fmt.Errorf("%w: a header without Content-Length", ErrFraming)
		case len(line) == 0:
			return length, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 {
			return 0, fmt.Errorf("%w: a header line without a name", ErrFraming)
		}
		if !bytes.EqualFold(bytes.TrimRight(name, " \t"), []byte("Content-Length")) {
			continue
		}
		if length >= 0 {
			return 0, fmt.Errorf("%w: a header with two values of Content-Length", ErrFraming)
		}
		if length, err = parseLength(value); err != nil {
			return 0, err
		}
	}
}

// readHeaderLine takes and returns the next header line without its end. At the end of
// the input it returns the rest.
func readHeaderLine(w *window) ([]byte, error) {
	for {
		unread := w.Unread()
		if i := bytes.IndexByte(unread, '\n'); i >= 0 && i <= headerLine {
			w.Take(i + 1)
			return withoutCR(unread[:i]), nil
		}
		if len(unread) > headerLine {
			return nil, fmt.Errorf("%w: a header line of more than %d bytes", ErrFraming, headerLine)
		}
		if err := w.Fill(); err != nil {
			return unread, err
		}
	}
}

// parseLength accepts digits only: readers disagree about signs and inner blanks.
func parseLength(value []byte) (int64, error) {
	value = bytes.Trim(value, " \t")
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%w: a Content-Length that is not a number", ErrFraming)
		}
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: a Content-Length that is not a number", ErrFraming)
	}
	return n, nil
}
