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

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const keyFile = "key.hmac"

// takeUp opens the log, beginning one where there is none. It may be called
// again after an error.
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
		l.miss(what)
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
	l.synced = l.chain.Seq // what an earlier daemon wrote is its affair
	l.writeHead()
	l.torn, l.suspect = false, false
	l.key.Store(newKey(key))
	return nil
}

// lockFolder makes the folder and takes it for this process.
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

// ownedAlone refuses a file of another user, and takes from others what access
// they have.
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

// readKey reads the key of the log's HMACs, or makes one.
func (l *Log) readKey() ([]byte, error) {
	path := filepath.Join(l.dir, keyFile)
	f, err := record.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return l.makeKey(path)
	}
	if err != nil {
		return nil, err
	}
	// Closing a file that was only read can't lose anything.
	defer func() { _ = f.Close() }()
	if err := ownedAlone(f, 0o600); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 128))
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	if len(text) != 65 || text[64] != '\n' {
		return nil, fmt.Errorf("%s is not a key; remove it for a new one", path)
	}
	if _, err := hex.Decode(key, text[:64]); err != nil {
		return nil, fmt.Errorf("%s is not a key; remove it for a new one", path)
	}
	return key, nil
}

func (l *Log) makeKey(path string) ([]byte, error) {
	key := make([]byte, 32)
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

// writeNew writes a file that did not exist, to stable storage, or none at all.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		// What could not be written whole is of no use; the first error counts.
		_ = os.Remove(path)
	}
	return err
}
