package record

import (
	"bytes"
	"errors"
	"io"
)

// A Reader begins with a buffer of smallBuffer, which does for one record, and
// soon has one of usualBuffer, unless a line is longer.
const (
	smallBuffer = 8 << 10
	usualBuffer = 256 << 10
)

// maxEntry is how long a record and its values may be together.
const maxEntry = 64 << 20

// ErrTorn is returned by Reader.Next for bytes at the end that no newline
// follows.
var ErrTorn = errors.New("the last line has no end")

// Entry is a record as it is stored.
type Entry struct {
	Offset int64  // of Line in its segment
	Line   []byte // without its newline; any line that is not values behind a record
	Values []byte // the line of values behind it, without its newline; nil for none
}

// Size is how many bytes the entry takes in its segment.
func (e *Entry) Size() int64 {
	n := len(e.Line) + 1
	if e.Values != nil {
		n += len(e.Values) + 1
	}
	return int64(n)
}

// Reader reads a segment entry by entry. It judges nothing: what it returns
// may be damaged.
type Reader struct {
	r      io.Reader
	buf    []byte // what was read; buf[:at] has been returned
	at     int
	offset int64 // of buf[at] in the segment
	err    error // of r
}

// NewReader returns a Reader of what r holds, whose first byte has the given
// offset in its segment.
func NewReader(r io.Reader, offset int64) *Reader {
	return &Reader{r: r, offset: offset}
}

// Next returns the next entry, whose slices are valid until the next call.
// After the last it returns io.EOF; when bytes without a newline are left, an
// entry with them and ErrTorn. ErrTooLong is returned for an entry past 64 MiB.
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

// ErrTooLong is returned by Reader.Next for an entry that no log of ours holds.
var ErrTooLong = errors.New("the line is longer than any record")

// rest returns what stands behind the last newline.
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

// newline returns the index of the first newline at or after from, counted from
// the start of what has not been returned yet.
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

// valuesAt reports whether a line of values begins at i, reading on if need be.
func (r *Reader) valuesAt(i int) bool {
	for len(r.buf)-r.at < i+len(valuesPrefix) {
		if r.fill() != nil {
			return false
		}
	}
	return bytes.HasPrefix(r.buf[r.at+i:], valuesPrefix) && bytes.HasPrefix(r.buf[r.at:], recordPrefix)
}

// fill reads more, keeping what has not been returned. It returns an error only
// when nothing more came.
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
