package secret

import (
	"errors"
	"os"
	"syscall"
)

// ErrLocked reports that another process has the lock.
var ErrLocked = errors.New("another process has the lock")

// Lock locks the file at path, which it makes with mode 0600, without waiting. Closing the file, or the
// end of this process, unlocks it.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}
