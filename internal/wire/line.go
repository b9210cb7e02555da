package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// Line is one message without its framing. Its slices are valid until the next call of
// Next.
type Line struct {
	// Data is the message without line end or header. If the message is too long, Data is
	// its beginning.
	Data []byte

	// Terminated is false for text after the last line end of the input. Such text may be
	// a whole message or the beginning of one.
	Terminated bool

	// TooLong reports that the message is longer than the limit. The rest of it was
	// discarded.
	TooLong bool

	// Refusal is not nil if the message must be refused whatever Data looks like: it is
	// too long, or part of a string that began on an earlier line. Its ID is never
	// present, since Data may not contain it.
	Refusal *Refusal

	// ID is the raw id of a message that is too long, if it has exactly one.
	ID []byte

	// Answers reports that a message that is too long is not a request and may be the
	// answer to ID.
	Answers bool

	skim *skim // of a long message whose skeleton is known
}

// Read calls [Read] for the message in l. For a long message from a reader of
// [NewReaderOf] most of the work is already done.
func (l *Line) Read(from Side, e *Envelope) error {
	if l.skim != nil && l.skim.read(l.Data, from, e) {
		return nil
	}
	return Read(l.Data, from, e)
}

// keptPrefix is the number of bytes that are kept of a message that is too long.
const keptPrefix = 256

// Reader reads newline-delimited messages: every line that is not blank, ending in LF or
// CRLF. It holds at most one line. It is not safe for concurrent use.
type Reader struct {
	window   Window
	max      int  // longest line, in bytes
	skims    bool // check long lines while they arrive
	searched int  // bytes of the window known to hold no line end
	torn     torn
	skim     skim // of a long line
	scan     scan // of the line that is too long
	prefix   []byte
	overlong bool // the rest of that line has not been read yet; see State
}

// NewReader returns a reader of r for lines of at most max bytes; 0 means MaxMessage.
func NewReader(r io.Reader, max int) *Reader {
	w := newWindow(r, max)
	return &Reader{window: &w, max: w.max}
}

// NewReaderOf is like NewReader, but reads through a Window owned by the caller and
// checks long messages while they arrive.
func NewReaderOf(w Window, max int) *Reader {
	if max <= 0 {
		max = MaxMessage
	}
	return &Reader{window: w, max: max, skims: true}
}

// Close releases the memory. The reader must not be used afterwards.
func (r *Reader) Close() { r.window.Release() }

// Next reads the next line into l. At the end of the input it returns io.EOF; before
// that, text after the last line end is returned as a line that is not terminated. Any
// other error comes from the source, and the reader must not be used afterwards.
func (r *Reader) Next(l *Line) error {
	r.window.Shrink()
	r.skim.forget()
	if r.overlong {
		return r.discard(l)
	}
	for {
		unread := r.window.Unread()
		if i := bytes.IndexByte(unread[r.searched:], '\n'); i >= 0 {
			data := unread[:r.searched+i]
			r.window.Take(len(data) + 1)
			r.searched = 0
			if data = withoutCR(data); r.yield(l, data, true) {
				return nil
			}
			continue
		}
		r.searched = len(unread)
		if len(unread) > r.max+len("\r") {
			r.scan, r.overlong = scan{}, true
			r.prefix = append(r.prefix[:0], prefix(unread)...)
			return r.discard(l)
		}
		if r.skims && len(unread) >= keptBuffer {
			r.skim.feed(unread)
		}
		if err := r.window.Fill(); err == io.EOF {
			return r.last(l)
		} else if err != nil {
			return err
		}
	}
}

// last returns the text after the last line end, if any, in l.
func (r *Reader) last(l *Line) error {
	rest := r.window.Unread() // Fill may have moved it
	r.window.Take(len(rest))
	r.searched = 0
	if r.yield(l, rest, false) {
		return nil
	}
	return io.EOF
}

// yield sets l to the line data and reports whether it did. Blank lines are skipped.
func (r *Reader) yield(l *Line, data []byte, terminated bool) bool {
	if len(bytes.Trim(data, " \t")) == 0 {
		return false
	}
	*l = Line{Data: data, Terminated: terminated}
	if len(data) > r.max {
		r.scan = scan{}
		r.scan.feed(data)
		l.Data = prefix(data)
		r.tooLong(l)
		return true
	}
	if r.skim.begun && r.skim.finish(data) {
		l.skim = &r.skim
	}
	r.tear(l)
	return true
}

// tear refuses l if it continues a string of an earlier line. Otherwise it remembers
// whether l ends inside a string.
func (r *Reader) tear(l *Line) {
	if r.torn.covers(l.Data) {
		l.Refusal = errInsideString.plain()
		return
	}
	if l.skim != nil {
		return // a skimmed line ends outside of strings
	}
	if depth, ok := tears(l.Data); ok {
		r.torn.begin(depth)
	}
}

// discard reads up to the end of a line that is too long and fills l with what the scan
// found.
func (r *Reader) discard(l *Line) error {
	terminated := false
	for !terminated {
		unread := r.window.Unread()
		i := bytes.IndexByte(unread, '\n')
		if terminated = i >= 0; !terminated {
			i = len(unread)
		}
		r.scan.feed(unread[:i])
		r.window.Take(i)
		if terminated {
			r.window.Take(1)
			break
		}
		r.window.Shrink()
		if err := r.window.Fill(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	r.searched, r.overlong = 0, false
	*l = Line{Data: r.prefix, Terminated: terminated}
	r.tooLong(l)
	return nil
}

// tooLong fills l from the scan of the line.
func (r *Reader) tooLong(l *Line) {
	l.TooLong, l.Refusal = true, errTooLong.plain()
	if r.torn.covers(l.Data) {
		return
	}
	if _, ok := r.scan.id(); ok {
		l.ID, l.Answers = r.scan.found, !r.scan.asks()
	}
	if r.scan.quoted && !r.scan.bad {
		r.torn.begin(r.scan.depth)
	}
}

// plain returns a copy of r, as the refusal of a line without an id.
func (r *Refusal) plain() *Refusal {
	refusal := *r
	return &refusal
}

func prefix(data []byte) []byte { return data[:min(len(data), keptPrefix)] }

func withoutCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

const (
	smallBuffer = 16 << 10 // initial size, and size after a large message
	keptBuffer  = 64 << 10 // largest buffer that is kept between messages
	largeBuffer = 1 << 20  // above this a reader allocates all it may need at once
	emptyReads  = 100      // maximum in a row before the reader gives up on the source
)

// Window is the memory that a [Reader] reads through. Its methods are called by one
// goroutine.
type Window interface {
	// Unread returns the bytes that were read and not taken. They are valid until the
	// next call of Fill or Shrink.
	Unread() []byte
	// Take marks the first n unread bytes as taken.
	Take(n int)
	// Fill reads at least one more byte. At the end of the input it returns io.EOF.
	Fill() error
	// Shrink is called before each line. It may release the memory of taken bytes.
	Shrink()
	// Release releases all memory.
	Release()
}

// window is a buffer over a source. It grows while a message is incomplete and is
// replaced by a small one after a large message.
type window struct {
	source io.Reader
	max    int // longest message, in bytes
	buf    []byte
	start  int // of the unread bytes
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

// Take implements Window.
func (w *window) Take(n int) { w.start += n }

// Shrink implements Window. It replaces a large buffer if the unread bytes fit into a
// small one.
func (w *window) Shrink() {
	if len(w.buf) > keptBuffer && w.end-w.start <= smallBuffer {
		small := make([]byte, smallBuffer)
		n := copy(small, w.Unread())
		w.buf, w.start, w.end = small, 0, n
	}
}

// Fill implements Window. The taken bytes are overwritten.
func (w *window) Fill() error {
	if w.err != nil {
		return w.err
	}
	w.makeRoom()
	for range emptyReads {
		n, err := w.source.Read(w.buf[w.end:])
		if n < 0 || n > len(w.buf)-w.end {
			return errors.New("read: the source reported more bytes than the buffer holds")
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

// makeRoom makes space for at least one byte by moving the unread bytes to the front or
// into a larger buffer. The largest size is allocated in one step: pages that are not
// written to cost no memory, and every intermediate buffer would.
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

// Release implements Window. Unread bytes are lost.
func (w *window) Release() { w.buf, w.start, w.end = nil, 0, 0 }

// State returns the state of the reader that is not in the window; nil if there is none.
// It says that a line that is too long has not ended, or that an earlier line ended
// inside a string. It may be called while the window is filled and between two lines.
func (r *Reader) State() []byte {
	if !r.overlong && r.torn.lines == 0 {
		return nil
	}
	var b []byte
	numbers, flags, texts := r.state()
	for _, n := range numbers {
		b = binary.AppendVarint(b, int64(*n))
	}
	for _, f := range flags {
		b = binary.AppendVarint(b, int64(btoi(*f)))
	}
	for _, text := range texts {
		b = append(binary.AppendVarint(b, int64(len(*text))), *text...)
	}
	return append(b, byte(r.scan.capture))
}

// Restore sets the state of a new reader. It fails if no reader can have that state; the
// reader must not be used then.
func (r *Reader) Restore(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	b := state
	number := func(most int64) (n int64) {
		n, size := binary.Varint(b)
		if size <= 0 || n < -1 || n > most {
			b = nil
			return -1
		}
		b = b[size:]
		return n
	}
	numbers, flags, texts := r.state()
	for _, n := range numbers {
		*n = int(number(1 << 40))
	}
	for _, f := range flags {
		*f = number(1) == 1
	}
	for _, text := range texts {
		n := number(maxHeld + 1)
		if n < 0 || n > int64(len(b)) {
			return errState
		}
		*text, b = bytes.Clone(b[:n]), b[n:]
	}
	if len(b) != 1 || capture(b[0]) > anID || len(r.prefix) > keptPrefix {
		return errState
	}
	r.scan.capture = capture(b[0])
	if len(r.scan.found) == 0 {
		r.scan.found = nil
	}
	if !bytes.Equal(r.State(), state) {
		return errState
	}
	return nil
}

var errState = errors.New("invalid state of a reader")

// state lists the fields that State saves and Restore sets.
func (r *Reader) state() (numbers []*int, flags []*bool, texts []*[]byte) {
	t, s := &r.torn, &r.scan
	numbers = []*int{&t.lines, &t.bytes, &t.readings[0].depth, &t.readings[1].depth, &s.offset, &s.depth, &s.start, &s.name, &s.ids, &s.place.Start, &s.place.End}
	flags = []*bool{&r.overlong, &t.readings[0].quoted, &t.readings[1].quoted, &s.quoted, &s.escaped, &s.begun, &s.array, &s.bad, &s.wantsName}
	for i := range s.member {
		flags = append(flags, &s.member[i])
	}
	return numbers, flags, []*[]byte{&r.prefix, &s.held, &s.found}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// IDOf returns the id of a line that is not read as a message, and whether the line is a
// request. The id is nil if it can't be found. IDOf checks nothing else.
func IDOf(line []byte) (id []byte, asks bool) {
	var s scan
	s.feed(line)
	if _, ok := s.id(); !ok {
		return nil, false
	}
	return s.found, s.asks()
}
