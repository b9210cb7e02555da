// Package sse reads streams of server-sent events, as the HTML standard defines them, from
// servers that may be hostile.
package sse

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	bufferBytes  = 16 << 10 // also of memory that is kept between events
	maxNameBytes = 1 << 10  // of an event's name and id
)

// Event is one event of a stream.
type Event struct {
	Name    string // empty for the default, "message"
	Data    []byte // its lines joined by line feeds; valid until the next call of Next
	ID      string // of this event, or of the last one before that had one
	TooLong bool   // Data is longer than the limit, and was discarded
}

// Reader reads the events of one stream. Lines end in CR, LF or CRLF. Comments and unknown fields
// are ignored, as are events without data except for their ids. An event that is cut off at the end
// of the stream is dropped.
type Reader struct {
	r      *bufio.Reader
	max    int    // bytes of an event's data
	line   []byte // the current line, if it is not in the buffer of r
	data   []byte
	skipLF bool // the last line ended in CR, and an LF belongs to it
	begun  bool
	id     string // of the event that is being read
	lastID string
	retry  time.Duration
}

// NewReader returns a reader of the events in r, each with at most max bytes of data.
func NewReader(r io.Reader, max int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, bufferBytes), max: max}
}

// LastID returns the id to resume the stream from, that of the last whole event. It is empty if
// there is none.
func (r *Reader) LastID() string { return r.lastID }

// Retry returns how long the server wants the client to wait before it reconnects; 0 if the
// server has not said.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next reads the next event that has data into e. At the end of the stream it returns the error of
// the source, which is io.EOF if the server ended the stream.
func (r *Reader) Next(e *Event) error {
	if cap(r.data) > bufferBytes {
		r.data = nil
	}
	*e, r.data = Event{}, r.data[:0]
	hasData := false
	for {
		line, long, err := r.nextLine()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			r.lastID = r.id
			if hasData {
				e.Data, e.ID = bytes.TrimSuffix(r.data, []byte("\n")), r.lastID
				return nil
			}
			*e = Event{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			hasData = true
			if e.TooLong = e.TooLong || long || len(r.data)+len(value) > r.max; e.TooLong {
				r.data = nil
				continue
			}
			r.data = append(append(r.data, value...), '\n')
		case "event":
			e.Name = string(value[:min(len(value), maxNameBytes)])
		case "id":
			switch {
			case bytes.IndexByte(value, 0) >= 0:
			case long || len(value) > maxNameBytes: // the stream can't be resumed from here
				r.id = ""
			default:
				r.id = string(value)
			}
		case "retry":
			r.setRetry(string(value))
		}
	}
}

// setRetry takes a number of milliseconds. Other values are ignored.
func (r *Reader) setRetry(value string) {
	ms, err := strconv.ParseUint(value, 10, 31)
	if err == nil && !strings.HasPrefix(value, "+") {
		r.retry = time.Duration(ms) * time.Millisecond
	}
}

// nextLine reads a line without its end. The line is valid until the next call. If long is set, the
// line is only the beginning of one that is longer than the limit.
func (r *Reader) nextLine() (line []byte, long bool, err error) {
	if cap(r.line) > bufferBytes {
		r.line = nil
	}
	r.line = r.line[:0]
	for {
		if !r.begun { // before the first line
			if bom, _ := r.r.Peek(3); string(bom) == "\ufeff" {
				_, _ = r.r.Discard(3) // they are buffered, as below
			}
			r.begun = true
		}
		if _, err := r.r.Peek(1); err != nil {
			return nil, false, err
		}
		part, _ := r.r.Peek(r.r.Buffered())
		if r.skipLF && part[0] == '\n' {
			r.skipLF = false
			_, _ = r.r.Discard(1)
			continue
		}
		r.skipLF = false
		end := bytes.IndexByte(part, '\n')
		before := part
		if end >= 0 {
			before = part[:end]
		}
		if cr := bytes.IndexByte(before, '\r'); cr >= 0 {
			end, r.skipLF = cr, true
		}
		if end >= 0 {
			_, _ = r.r.Discard(end + 1)
			if len(r.line) == 0 && !long {
				return part[:end], false, nil
			}
			part = part[:end]
		} else {
			_, _ = r.r.Discard(len(part))
		}
		if room := r.max + len("data: ") - len(r.line); len(part) > room {
			part, long = part[:max(room, 0)], true
		}
		r.line = append(r.line, part...)
		if end >= 0 {
			return r.line, long, nil
		}
	}
}
