package record

import (
	"bytes"
	"errors"
	"io"
)

// A Reader starts with a buffer of smallBuffer, enough for one record, then grows it to
// usualBuffer. It grows further only for longer lines.
const (
	smallBuffer = 8 << 10
	usualBuffer = 256 << 10
)

// maxEntry is the maximum size of a record and its values together, in bytes.
const maxEntry = 64 << 20

// ErrTorn is returned by Reader.Next for bytes at the end without a newline.
var ErrTorn = errors.New("the last line has no end")

// Entry is a record as it is stored.
type Entry struct {
	Offset int64  // of Line in its segment
	Line   []byte // without its newline; any line that is not a values line after a record
	Values []byte // the values line after it, without its newline; nil if there is none
}

// Size returns the number of bytes of the entry in its segment.
func (e *Entry) Size() int64 {
	n := len(e.Line) + 1
	if e.Values != nil {
		n += len(e.Values) + 1
	}
	return int64(n)
}

// Reader reads a segment entry by entry. It checks nothing: the entries may be damaged.
type Reader struct {
	r      io.Reader
	buf    []byte // bytes read; buf[:at] was returned
	at     int
	offset int64 // of buf[at] in the segment
	err    error // of r
}

// NewReader returns a Reader of r, whose first byte has the given offset in its segment.
func NewReader(r io.Reader, offset int64) *Reader {
	return &Reader{r: r, offset: offset}
}

// Next returns the next entry, whose slices are valid until the next call. After the last
// entry it returns io.EOF. If bytes without a newline are left, it returns them as an
// entry with ErrTorn. For an entry longer than 64 MiB it returns ErrTooLong.
func (r *Reader) Next() (Entry, error) {
	end, err := r.newline(0)
	if err != nil {
		return r.rest(err)
	}
	e := Entry{Offset: r.offset}
	if r.valuesAt(end + 1) {
		if last, err := r.newline(end + 1); err == nil {
			e.Values = r.buf[r.at+end+1 : r.at+last : r.at+last]
		} else if errors.Is(err, ErrTooLong) {
			return Entry{}, err
		}
	}
	e.Line = r.buf[r.at : r.at+end : r.at+end]
	r.at += int(e.Size())
	r.offset += e.Size()
	return e, nil
}

// ErrTooLong is returned by Reader.Next for an entry that is longer than any that the
// daemon writes.
var ErrTooLong = errors.New("the line is longer than any record")

// rest returns the bytes after the last newline.
func (r *Reader) rest(err error) (Entry, error) {
	if !errors.Is(err, io.EOF) {
		return Entry{}, err
	}
	e := Entry{Offset: r.offset, Line: r.buf[r.at:]}
	if len(e.Line) == 0 {
		return Entry{}, io.EOF
	}
	r.offset += int64(len(e.Line))
	r.at = len(r.buf)
	return e, ErrTorn
}

// newline returns the index of the first newline at or after from. Both count from the
// first byte not returned yet.
func (r *Reader) newline(from int) (int, error) {
	for {
		if i := bytes.IndexByte(r.buf[r.at+from:], '\n'); i >= 0 {
			return from + i, nil
		}
		from = len(r.buf) - r.at
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// valuesAt reports whether a values line begins at i. It reads more if necessary.
func (r *Reader) valuesAt(i int) bool {
	for len(r.buf)-r.at < i+len(valuesPrefix) {
		if r.fill() != nil {
			return false
		}
	}
	return bytes.HasPrefix(r.buf[r.at+i:], valuesPrefix) && bytes.HasPrefix(r.buf[r.at:], recordPrefix)
}

// fill reads more bytes and keeps those not returned yet. It fails only if no byte was
// read.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if len(r.buf) == cap(r.buf) {
		kept := len(r.buf) - r.at
		if kept > maxEntry {
			return ErrTooLong
		}
		if kept > cap(r.buf)/2 || cap(r.buf) < usualBuffer {
			grown := make([]byte, kept, max(smallBuffer, 2*cap(r.buf)))
			copy(grown, r.buf[r.at:])
			r.buf = grown
		} else {
			copy(r.buf, r.buf[r.at:])
			r.buf = r.buf[:kept]
		}
		r.at = 0
	}
	for range 100 {
		n, err := r.r.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if err != nil {
			r.err = err
		}
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
