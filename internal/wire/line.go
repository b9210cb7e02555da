package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// Line is one message as it was framed. What its fields point to is valid until
// the next call of Next.
type Line struct {
	// Data is the message, without line end or header. Of a message that is
	// too long it is the beginning.
	Data []byte

	// Terminated is false for what stands after the last line end when the
	// input ends. It may be whole, or the beginning of something.
	Terminated bool

	// TooLong reports a message longer than the limit, of which the rest was
	// thrown away.
	TooLong bool

	// Refusal is not nil when the message may not cross, whatever Data looks
	// like: it is too long, or part of a string that an earlier line began.
	// Its ID is never present: Data may not hold it.
	Refusal *Refusal

	// ID is the raw id of a message that is too long, when it has exactly one.
	ID []byte

	// Answers reports that a message that is too long is no request: it may be
	// the answer to ID.
	Answers bool

	skim *skim // of a long message whose skeleton is known
}

// Read is [Read] for the message in l. Of a long message that a reader made by
// [NewReaderOf] has read it knows most already.
func (l *Line) Read(from Side, e *Envelope) error {
	if l.skim != nil && l.skim.read(l.Data, from, e) {
		return nil
	}
	return Read(l.Data, from, e)
}

// keptPrefix is how much is kept of a message that is too long, in bytes.
const keptPrefix = 256

// Reader reads newline-delimited messages: every line that is not blank, with
// LF or CRLF at its end, however the bytes arrive. It holds one line at most.
// It is not safe for concurrent use.
type Reader struct {
	window   Window
	max      int  // longest line
	skims    bool // long lines are checked while they arrive
	searched int  // bytes of the window that hold no line end
	torn     torn
	skim     skim // of a long line
	scan     scan // of the line that is too long
	prefix   []byte
	overlong bool // the rest of that line is still to be read: see State
}

// NewReader returns a reader of r for lines of at most max bytes; 0 stands for
// MaxMessage.
func NewReader(r io.Reader, max int) *Reader {
	w := newWindow(r, max)
	return &Reader{window: &w, max: w.max}
}

// NewReaderOf is NewReader for what others hold in memory. It checks long messages
// while they arrive.
func NewReaderOf(w Window, max int) *Reader {
	if max <= 0 {
		max = MaxMessage
	}
	return &Reader{window: w, max: max, skims: true}
}

// Close lets go of the memory. The reader is of no more use.
func (r *Reader) Close() { r.window.Release() }

// Next reads the next line into l. At the end of the input it returns io.EOF;
// before that, what stands after the last line end comes as a line that is not
// terminated. Any other error is the source's, and the reader is of no more use.
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

// last makes l of what stands after the last line end, if there is anything.
func (r *Reader) last(l *Line) error {
	rest := r.window.Unread() // which fill may have moved
	r.window.Take(len(rest))
	r.searched = 0
	if r.yield(l, rest, false) {
		return nil
	}
	return io.EOF
}

// yield makes l of data, unless that is blank.
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

// tear refuses l if it continues a string of an earlier line, and notes
// whether it ends inside one itself.
func (r *Reader) tear(l *Line) {
	if r.torn.covers(l.Data) {
		l.Refusal = errInsideString.plain()
		return
	}
	if l.skim != nil {
		return // it ends outside of strings
	}
	if depth, ok := tears(l.Data); ok {
		r.torn.begin(depth)
	}
}

// discard reads on to the end of a line that is too long and makes l of what
// is known of it.
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

// tooLong completes l from the scan of the line.
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

// plain returns a copy of the fault r, as the refusal of a line without id.
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

// State is what a reader knows of the text it stands in besides what the window
// holds, nil for nothing: that a line which was too long is not over, or that an
// earlier one has ended inside a string. It may be asked for while the window is
// filled, and between two lines.
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

// Restore makes a new reader one that has such a state. A state that no reader can
// have is an error, and the reader is of no use then.
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
		n := number(mostHeld + 1)
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

var errState = errors.New("the state of a reader is none that there is")

// state lists what is kept of r, once for both ways.
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

// IDOf returns the id of a line that is not to be read as a message, nil where it can't
// be told, and whether the line is a request. It does no more than to look for it.
func IDOf(line []byte) (id []byte, asks bool) {
	var s scan
	s.feed(line)
	if _, ok := s.id(); !ok {
		return nil, false
	}
	return s.found, s.asks()
}
