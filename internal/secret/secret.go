// Package secret reads secrets from files that only their owner can access.
package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
