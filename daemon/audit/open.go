package audit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const (
	keyFile = "key.hmac"
	keySize = 32
)

// takeUp opens the log, or creates one if there is none. It may be called again after an
// error.
func (l *Log) takeUp() error {
	err := l.takeUpFiles()
	if err != nil {
		// The first error counts; nothing was written to these files.
		_ = l.release()
	}
	return err
}

func (l *Log) takeUpFiles() error {
	if err := l.lockFolder(); err != nil {
		return err
	}
	key, err := l.readKey()
	if err != nil {
		return err
	}
	numbers, err := record.Segments(l.dir)
	if err != nil {
		return err
	}
	found, err := l.recover(numbers)
	if err != nil {
		return err
	}
	l.id, l.chain, l.size, l.segment = found.id, found.chain, found.size, found.segment
	for _, what := range append(found.lost, l.openHead(len(numbers) > 0)...) {
		l.addGapReason(what)
	}
	if l.segment == 0 {
		l.segment = 1
	}
	l.file, err = l.openSegment(l.segment)
	if err != nil {
		return err
	}
	if l.size == 0 {
		if l.id == "" {
			l.id = rand.Text()
		}
		if err := l.beginSegment(l.o.Now()); err != nil {
			return err
		}
	}
	l.uncounted = place{l.segment, l.size}
	l.synced = l.chain.Seq // syncing what a previous daemon wrote was its task
	l.writeHead()
	l.torn, l.suspect = false, false
	l.key.Store(newKey(key))
	return nil
}

// lockFolder creates the folder and locks it for this process.
func (l *Log) lockFolder() error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(l.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	l.lock = f
	if err := ownedAlone(f, 0o700); err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("%s: %w: another thoughtgated writes this log", l.dir, gate.ErrLocked)
		}
		return fmt.Errorf("lock %s: %w", l.dir, err)
	}
	return nil
}

// ownedAlone refuses a file of another user. It removes the access of other users.
func ownedAlone(f *os.File, mode fs.FileMode) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d)", f.Name(), stat.Uid)
	}
	if fs.FileMode(stat.Mode)&0o077 != 0 {
		return f.Chmod(mode)
	}
	return nil
}

// readKey reads the key of the log's HMACs, or creates one.
func (l *Log) readKey() ([]byte, error) {
	path := filepath.Join(l.dir, keyFile)
	f, err := record.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return l.makeKey(path)
	}
	if err != nil {
		return nil, err
	}
	// Closing a file that was only read can't lose data.
	defer func() { _ = f.Close() }()
	if err := ownedAlone(f, 0o600); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 128))
	if err != nil {
		return nil, err
	}
	digits, whole := strings.CutSuffix(string(text), "\n")
	key, err := hex.DecodeString(digits)
	if !whole || err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s is not a key; remove it to create a new one", path)
	}
	return key, nil
}

func (l *Log) makeKey(path string) ([]byte, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := writeNew(fresh, fmt.Appendf(nil, "%x\n", key)); err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, path); err != nil {
		return nil, err
	}
	return key, l.foldersync(l.lock)
}

// writeNew writes a new file to stable storage. If it fails, the file does not exist.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		// An incomplete file is useless; the first error counts.
		_ = os.Remove(path)
	}
	return err
}

// state is the state in which a log was found.
type state struct {
	id      string
	chain   record.Chain
	segment uint64 // the last segment; 0 if there is none
	size    int64  // of the last segment, up to the end of its last complete record
	lost    []string
}

// recover finds the end of the log in its last segment. Bytes after the last complete
// record are moved to a file of their own. Only the end is checked: record.Verify checks
// the rest.
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
			s.lost = append(s.lost, fmt.Sprintf("%d bytes after record %d were an incomplete record and are now in %s", size-end, s.chain.Seq, kept))
		}
		if last != nil {
			break
		}
	}
	id, err := l.findID(numbers)
	s.id = id
	return s, err
}

// findID returns the id of the log from the last segment whose first record can be read.
// If there is none, the log gets a new id.
func (l *Log) findID(numbers []uint64) (string, error) {
	for _, n := range slices.Backward(numbers) {
		if r, err := l.first(n); err != nil || r.Kind == record.KindLog {
			return r.Log, err
		}
	}
	return "", nil
}

// found is the last complete entry of a segment.
type found struct {
	chain record.Chain
	end   int64 // end of the entry
}

// lastEntry finds the last complete entry of segment n, nil if there is none, and the
// size of the segment.
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

// window is entries for a position that may be inside an entry: unless from is 0, the
// first line is taken for the rest of an entry and skipped.
func (l *Log) window(n uint64, from, to int64, see func(record.Entry) bool) error {
	first, rest := true, from > 0
	return l.entries(n, from, to, func(e record.Entry) bool {
		rest = rest && (first || record.IsValues(e.Line))
		first = false
		return rest || see(e)
	})
}

// entries calls see for the entries of segment n between two offsets, until it returns
// false.
func (l *Log) entries(n uint64, from, to int64, see func(record.Entry) bool) error {
	f, err := record.OpenFile(l.path(n), os.O_RDONLY)
	if err != nil {
		return err
	}
	// Closing a file that was only read can't lose data.
	defer func() { _ = f.Close() }()
	entries := record.NewReader(io.NewSectionReader(f, from, to-from), from)
	for {
		e, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrTorn), errors.Is(err, record.ErrTooLong):
			return nil // the daemon writes nothing that could follow
		case err != nil:
			return err
		}
		if !see(e) {
			return nil
		}
	}
}

// moveAside moves the bytes of segment n from the given offset on to a new file and
// returns its name.
func (l *Log) moveAside(n uint64, from int64) (string, error) {
	f, err := record.OpenFile(l.path(n), os.O_RDWR)
	if err != nil {
		return "", err
	}
	name, err := l.copyAside(f, n, from)
	if err == nil { // otherwise a crash could keep the cut and lose the copy
		err = l.foldersync(l.lock)
	}
	if err == nil {
		err = f.Truncate(from)
	}
	if err == nil {
		err = f.Sync()
	}
	return name, errors.Join(err, f.Close())
}

func (l *Log) copyAside(f *os.File, n uint64, from int64) (string, error) {
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return "", err
	}
	// A segment is little larger than SegmentSize, and its torn end is much smaller.
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

// sizeAt returns the size of segment n in a log that ends at end.
func (l *Log) sizeAt(n uint64, end place) (int64, error) {
	if n == end.segment {
		return end.offset, nil
	}
	return l.sizeOf(n)
}

func (l *Log) path(n uint64) string { return filepath.Join(l.dir, record.SegmentName(n)) }
