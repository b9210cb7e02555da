package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// state is how a log was found.
type state struct {
	id      string
	chain   record.Chain
	segment uint64 // the last one, 0 when there is none
	size    int64  // of the last one, up to the end of its last whole record
	lost    []string
}

// recover finds where the log stands from the end of its last segment. What
// stands behind the last whole record there is moved to a file of its own.
// Only the end is looked at: record.Verify judges the rest.
func (l *Log) recover(numbers []uint64) (state, error) {
	var s state
	for i, n := range slices.Backward(numbers) {
		last, size, err := l.lastEntry(n)
		if err != nil {
			return s, err
		}
		end := int64(0)
		if last != nil {
			end, s.chain = last.end, last.chain
		}
		if i == len(numbers)-1 {
			s.segment, s.size = n, end
		}
		if end < size {
			kept, err := l.moveAside(n, end)
			if err != nil {
				return s, err
			}
			s.lost = append(s.lost, fmt.Sprintf("%d bytes behind record %d were torn and are kept in %s", size-end, s.chain.Seq, kept))
		}
		if last != nil {
			break
		}
	}
	id, err := l.findID(numbers)
	s.id = id
	return s, err
}

// findID returns the id of the log, from the first record of the last segment
// in which it can be read. A log of which none can be read gets a new one.
func (l *Log) findID(numbers []uint64) (string, error) {
	for _, n := range slices.Backward(numbers) {
		if r, err := l.first(n); err != nil || r.Kind == record.KindLog {
			return r.Log, err
		}
	}
	return "", nil
}

// found is the last whole entry of a segment.
type found struct {
	chain record.Chain
	end   int64 // where the entry ends
}

// lastEntry finds the last whole entry of segment n, nil when there is none, and
// the size of the segment.
func (l *Log) lastEntry(n uint64) (*found, int64, error) {
	size, err := l.sizeOf(n)
	if err != nil {
		return nil, 0, err
	}
	var last *found
	see := func(e record.Entry) {
		chain, ok := record.After(e)
		if !ok {
			return
		}
		if !e.Sound() {
			e.Values = nil
		}
		last = &found{chain: chain, end: e.Offset + e.Size()}
	}
	_, err = l.backwards(region{segment: n, to: size}, 256<<10, see, func() bool { return last == nil })
	return last, size, err
}

// window is entries for a place that may lie inside an entry: unless from is 0,
// what stands there is taken for the rest of one and left out.
func (l *Log) window(n uint64, from, to int64, see func(record.Entry) bool) error {
	first, rest := true, from > 0
	return l.entries(n, from, to, func(e record.Entry) bool {
		rest = rest && (first || record.IsValues(e.Line))
		first = false
		return rest || see(e)
	})
}

// entries calls see for the entries of segment n that lie between two offsets,
// until it returns false.
func (l *Log) entries(n uint64, from, to int64, see func(record.Entry) bool) error {
	f, err := record.OpenFile(l.path(n), os.O_RDONLY)
	if err != nil {
		return err
	}
	// Closing a file that was only read can't lose anything.
	defer func() { _ = f.Close() }()
	entries := record.NewReader(io.NewSectionReader(f, from, to-from), from)
	for {
		e, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrTorn), errors.Is(err, record.ErrTooLong):
			return nil // nothing follows that a log of ours holds
		case err != nil:
			return err
		}
		if !see(e) {
			return nil
		}
	}
}

// moveAside moves what stands in segment n from the given offset on to a new
// file, and returns its name.
func (l *Log) moveAside(n uint64, from int64) (string, error) {
	f, err := record.OpenFile(l.path(n), os.O_RDWR)
	if err != nil {
		return "", err
	}
	name, err := l.copyAside(f, n, from)
	if err == nil { // else a crash could keep the cut and lose the copy
		err = l.foldersync(l.lock)
	}
	if err == nil {
		err = f.Truncate(from)
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	return name, err
}

func (l *Log) copyAside(f *os.File, n uint64, from int64) (string, error) {
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return "", err
	}
	// A segment holds little more than SegmentSize, and its torn end much less.
	torn, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	for try := 1; ; try++ {
		name := fmt.Sprintf("torn-%06d-%d-%d", n, from, try)
		err := writeNew(filepath.Join(l.dir, name), torn)
		if !errors.Is(err, os.ErrExist) {
			return name, err
		}
	}
}

// sizeOf returns the size of segment n, which must be a regular file.
func (l *Log) sizeOf(n uint64) (int64, error) {
	info, err := os.Lstat(l.path(n))
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", l.path(n))
	}
	return info.Size(), nil
}

// sizeAt returns the size of segment n of a log that ends at end.
func (l *Log) sizeAt(n uint64, end place) (int64, error) {
	if n == end.segment {
		return end.offset, nil
	}
	return l.sizeOf(n)
}

func (l *Log) path(n uint64) string { return filepath.Join(l.dir, record.SegmentName(n)) }
