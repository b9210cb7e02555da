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

const (
	headerLine  = 1 << 10 // longest line of a header, in bytes
	headerLines = 32      // most lines of a header

	// absurd is the length of a message past which a stream is given up: it is
	// not one that is too long but something else that was read as a length.
	absurd = 1 << 30
)

// ContentLength frames a message with a header, as language servers do:
// "Content-Length: 12", a blank line, and 12 bytes. Header names have no case;
// headers that are not known are ignored.
type ContentLength struct {
	// Whole makes a message that is too long the end of the stream, with
	// ErrFraming, as soon as it is announced. Else it is passed over.
	Whole bool
}

// NewReader implements Framing. A header without a length, with two, or with
// more text than a header has any reason to hold, is ErrFraming.
func (f ContentLength) NewReader(r io.Reader, max int) LineReader {
	return &lengthReader{window: newWindow(r, max), header: readHeader, whole: f.Whole}
}

func (ContentLength) around(room, body []byte) ([]byte, string, error) {
	room = strconv.AppendInt(append(room, "Content-Length: "...), int64(len(body)), 10)
	return append(room, "\r\n\r\n"...), "", nil
}

// Length32 frames a message with its length as four bytes, the highest first.
// It is the framing of extensions that speak protobuf.
type Length32 struct {
	Whole bool // as in ContentLength
}

// NewReader implements Framing.
func (f Length32) NewReader(r io.Reader, max int) LineReader {
	return &lengthReader{window: newWindow(r, max), header: readLength32, whole: f.Whole}
}

// around fails past 4 GiB.
func (Length32) around(room, body []byte) ([]byte, string, error) {
	if uint64(len(body)) > 1<<32-1 {
		return nil, "", fmt.Errorf("frame a message: %d bytes are too many", len(body))
	}
	return binary.BigEndian.AppendUint32(room, uint32(len(body))), "", nil
}

// lengthReader reads messages whose length stands before them.
type lengthReader struct {
	window
	header func(*window) (int64, error) // io.EOF when the input ends before it
	whole  bool
	kept   []byte
}

// Next implements LineReader. A message that the end of the input cuts short
// is io.ErrUnexpectedEOF.
func (r *lengthReader) Next(l *Line) error {
	r.Shrink()
	n, err := r.header(&r.window)
	if err != nil {
		return err
	}
	if n > absurd {
		return fmt.Errorf("%w: a message of %d bytes was announced", ErrFraming, n)
	}
	if n > int64(r.max) {
		if r.whole {
			return fmt.Errorf("%w: a message of %d bytes was announced, and at most %d are allowed", ErrFraming, n, r.max)
		}
		return r.discard(l, n)
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

// discard reads past a message of n bytes and makes l of what is known of it.
func (r *lengthReader) discard(l *Line, n int64) error {
	var s scan
	r.kept = r.kept[:0]
	for n > 0 {
		if len(r.Unread()) == 0 {
			if err := r.Fill(); err != nil {
				return midFrame(err)
			}
		}
		part := r.Unread()
		part = part[:min(int64(len(part)), n)]
		if len(r.kept) < keptPrefix {
			r.kept = append(r.kept, part[:min(len(part), keptPrefix-len(r.kept))]...)
		}
		s.feed(part)
		r.Take(len(part))
		n -= int64(len(part))
	}
	*l = Line{Data: r.kept, Terminated: true, TooLong: true, Refusal: errTooLong.plain()}
	if _, ok := s.id(); ok {
		l.ID, l.Answers = s.found, !s.asks()
	}
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

// readHeader reads the header of ContentLength, the blank line included.
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
			return 0, fmt.Errorf("%w: a header with two lengths", ErrFraming)
		}
		if length, err = parseLength(value); err != nil {
			return 0, err
		}
	}
}

// readHeaderLine returns the next line of a header without its end, and takes
// it. At the end of the input it returns what there is.
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

// parseLength reads digits and nothing else: what other readers make of a sign
// or of blanks in between differs.
func parseLength(value []byte) (int64, error) {
	value = bytes.Trim(value, " \t")
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%w: a length that is not a number", ErrFraming)
		}
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: a length that is not a number", ErrFraming)
	}
	return n, nil
}
