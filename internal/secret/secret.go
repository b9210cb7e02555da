// Package secret reads and writes files that only their owner can access.
package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MaxFileBytes is the maximum size of a file with a secret, in bytes.
const MaxFileBytes = 4 << 10

// ModeError reports that others can access a file that should be its owner's alone.
type ModeError struct {
	Path string
	Mode fs.FileMode
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s has mode %04o, so that others can use it", e.Path, e.Mode.Perm())
}

// ReadFile reads a small regular file that belongs to this user or root and that nobody else
// can read or write. It does not block. Its errors contain nothing of the text; too wide a mode
// is a *ModeError.
func ReadFile(path string) (string, error) {
	// Opening a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", &ModeError{path, info.Mode()}
	case !ok || owner.Uid != 0 && int(owner.Uid) != os.Getuid():
		return "", fmt.Errorf("%s belongs to another user", path)
	case info.Size() > MaxFileBytes:
		return "", fmt.Errorf("%s has %d bytes, too many for what it should hold", path, info.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err == nil && len(text) > MaxFileBytes {
		err = errors.New(path + " grows while it is read")
	}
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// WriteFile replaces the file at path, or makes it, with mode 0600. When it returns nil the text survives
// a power failure. Only one process at a time may write a file.
func WriteFile(path string, text []byte) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
