package wire

import (
	"bytes"
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

// More reports whether the next line has been read already, so that Next won't
// wait for the source.
func (r *Reader) More() bool { return bytes.IndexByte(r.window.Unread(), '\n') >= 0 }
