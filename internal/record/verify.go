package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// VerifyOptions says what else a log is held against. The zero value is good.
type VerifyOptions struct {
	// Heads are what the log must contain, as kept outside of it. A folder is
	// held against its own head file as well.
	Heads []Head
	// Each is called for every record found good, in order. The entry is valid
	// during the call. An error ends Verify and is returned by it.
	Each func(seq uint64, e Entry) error
}

// Report is what Verify found.
type Report struct {
	Log      string    `json:"log"`   // id of the log
	First    uint64    `json:"first"` // seq of the first record that is there, 0 when there is none
	Last     Head      `json:"last"`  // the last good record
	From     time.Time `json:"-"`
	Until    time.Time `json:"-"`
	Retired  uint64    `json:"retired"` // records before First that the log says it dropped
	Segments int       `json:"segments"`
	Records  uint64    `json:"records"`
	Values   uint64    `json:"values"`         // lines of values that are there and right
	Dropped  uint64    `json:"values_dropped"` // records whose line of values is not there, which is allowed
	Gaps     uint64    `json:"gaps"`           // records of kind gap: the log says itself that something is missing
	Headed   bool      `json:"head_reached"`   // a head was there, and the log reaches at least as far
	Torn     int64     `json:"torn_bytes"`     // bytes behind the last record that a writer may be busy with
	Bad      *Bad      `json:"bad"`            // the first thing that is wrong; nothing after it was looked at
}

// Bad names a record that is not as it was written.
type Bad struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // in File
	Seq    uint64 `json:"record"` // of the record, or of the one that should stand there
	What   string `json:"what"`   // what is wrong with it, following the words "record N"
}

// Error names file, byte and record, and says what is wrong.
func (b *Bad) Error() string {
	return fmt.Sprintf("%s: byte %d: record %d %s", b.File, b.Offset, b.Seq, b.What)
}

// Verify reads a log whole and reports whether every record is as it was
// written. Each path is a folder with a log, or a segment; segments are of one
// log and in order. A folder must hold its log from the first record on, or from
// where the log itself says that what stood before was dropped. The error is of
// reading only: what is wrong with the log is in Report.Bad.
//
// It may run while the log is written to.
func Verify(paths []string, o VerifyOptions) (Report, error) {
	v := newVerifier(o)
	var files []string
	for _, path := range paths {
		more, err := v.expand(path)
		if err != nil {
			return Report{}, fmt.Errorf("verify audit log: %w", err)
		}
		files = append(files, more...)
	}
	for i, path := range files {
		if err := v.open(path, i == len(files)-1); err != nil {
			return v.report, fmt.Errorf("verify audit log: %w", err)
		}
		if v.report.Bad != nil {
			break
		}
	}
	v.end()
	return v.report, nil
}

func newVerifier(o VerifyOptions) *verifier {
	v := &verifier{each: o.Each, heads: map[uint64][]Head{}}
	for _, head := range o.Heads {
		v.heads[head.Seq] = append(v.heads[head.Seq], head)
	}
	return v
}

// expand returns the segments that path stands for. The head of a folder is
// read before its segments are listed: a log that is written to meanwhile goes
// further than its head, never less far.
func (v *verifier) expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		v.whole = v.whole || filepath.Base(path) == SegmentName(1)
		return []string{path}, nil
	}
	v.whole = true
	head, err := ReadHead(path)
	if err != nil {
		return nil, err
	}
	if head != nil {
		v.heads[head.Seq] = append(v.heads[head.Seq], *head)
		v.near = head
	}
	numbers, err := Segments(path)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 && head == nil {
		return nil, fmt.Errorf("there is no log in %s", path)
	}
	v.name = path // what is missing is missing here
	var files []string
	for _, n := range numbers {
		files = append(files, filepath.Join(path, SegmentName(n)))
	}
	return files, nil
}

func (v *verifier) open(path string, last bool) error {
	open := os.Open
	if SegmentNumber(filepath.Base(path)) > 0 { // else it is what a person has named, be it a pipe
		open = func(path string) (*os.File, error) { return OpenFile(path, os.O_RDONLY) }
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	// Closing a file that was only read can't lose anything.
	defer func() { _ = f.Close() }()
	return v.segment(path, f, last)
}

// segment reads one segment to its end or to the first thing that is wrong.
func (v *verifier) segment(name string, r io.Reader, last bool) error {
	v.name, v.past, v.opening = name, 0, true
	v.bare = false // values stand in the segment of their record
	v.report.Segments++
	entries := NewReader(r, 0)
	for {
		e, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrTorn):
			v.torn(e, last)
			return nil
		case errors.Is(err, ErrTooLong):
			v.bad(v.past, v.due(nil), "is longer than any record")
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := v.entry(e); err != nil {
			return err
		}
		if v.report.Bad != nil {
			v.behind(e, entries)
			return nil
		}
	}
}

// behind corrects which record is named bad when that is the first that was looked
// at and is damaged, so that it may not tell: the one behind it knows.
func (v *verifier) behind(damaged Entry, entries *Reader) {
	if v.report.Bad == nil || v.placed() || sealed(damaged.Line) == nil {
		return
	}
	// A line end that is damaged makes two records one.
	records := uint64(max(1, bytes.Count(damaged.Line, []byte(`,"crc":"`))))
	next, err := entries.Next()
	if err != nil || sealed(next.Line) != nil {
		return
	}
	if h, ok := readHeader(next.Line); ok && h.seq > records {
		v.report.Bad.Seq = h.seq - records
	}
}
