package sock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen binds the socket at path with mode 0600, in a folder that only this user can access.
// It replaces a socket that a previous daemon left behind. That is safe only while the lock is
// held (see [Lock]): otherwise another process could start to listen between the check and the
// bind. A socket with a listener, or a file that is not a socket of this user, is an error.
// Closing the listener removes the socket.
func Listen(path string) (*net.UnixListener, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	if err := CheckFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Linux creates the file with the mode of the descriptor, so it is never open to
		// others. Elsewhere this has no effect.
		return c.Control(func(fd uintptr) { unix.Fchmod(int(fd), 0o600) })
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l.(*net.UnixListener), nil
}

// clearStale removes a socket of this user on which nobody listens.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := checkSocket(path, info); err != nil {
		return err
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		defer c.Close()
		who := ""
		if peer, err := PeerOf(c.(*net.UnixConn)); err == nil {
			who = fmt.Sprintf(" by pid %d", peer.PID)
			peer.Close()
		}
		return fmt.Errorf("socket %s is already used%s: %w", path, who, ErrInUse)
	case errors.Is(err, syscall.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the socket of a previous daemon: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("socket %s may be used by another process: %w: %w", path, ErrInUse, err)
}

// Lock takes the lock that makes this process the user's only daemon. It is held until the file
// is closed or the process ends. If another process holds it, the error is [ErrInUse] and names
// that process, from what it wrote into the file.
func Lock(path string) (*os.File, error) { return LockFor(path, "") }

// holderWait is the maximum time for which Lock waits until the holder has written who it is, or
// until who only looked for one ([Holder]) has gone.
const holderWait = time.Second

// LockFor is Lock for a process that listens at socket, which it writes into the file.
func LockFor(path, socket string) (*os.File, error) {
	for begun := time.Now(); ; {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		held, err := lockFile(f, path, socket)
		if held {
			return f, nil
		}
		pid, _ := holderOf(f)
		f.Close()
		switch {
		case errors.Is(err, ErrInUse) && (pid == 0 || unix.Kill(pid, 0) != nil) && time.Since(begun) < holderWait:
			time.Sleep(5 * time.Millisecond) // between two looks at another process
		case err != nil:
			return nil, err
		}
	}
}

// lockFile returns false and no error if the file was replaced meanwhile.
func lockFile(f *os.File, path, socket string) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	if uid, _ := ownerOf(info); uid != os.Geteuid() || !info.Mode().IsRegular() {
		return false, fmt.Errorf("lock %s: it is not your regular file: %w; remove it", path, ErrUnsafe)
	}
	err = flock(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, fmt.Errorf("lock %s: %w%s", path, ErrInUse, holder(f, socket))
	} else if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !os.SameFile(info, now)) {
		return false, nil // somebody removed it before it was locked: lock what is there now
	} else if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := f.Truncate(0); err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	text := strconv.Itoa(os.Getpid())
	if socket != "" {
		text += "\n" + socket
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	return true, nil
}

func flock(f *os.File) error {
	return control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }) // without waiting, no signal interrupts it
}

// holder returns, for an error, who holds the lock and how to end that process, for example "
// by pid 123; to stop it, run `tgctl daemon stop`". The holder may not have written yet who it is.
func holder(f *os.File, ours string) string {
	pid, socket := holderOf(f)
	switch {
	case pid == 0:
		return "; to stop it, run `tgctl daemon stop`"
	case socket == "" || socket == ours:
		return fmt.Sprintf(" by pid %d; to stop it, run `tgctl daemon stop`", pid)
	}
	return fmt.Sprintf(" by pid %d, which listens on %s; to stop it, run `THOUGHTGATE_CONTROL=%s tgctl daemon stop`", pid, socket, socket)
}

// holderOf returns what a holder has written, 0 and "" if nothing yet.
func holderOf(f *os.File) (pid int, socket string) {
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0)
	first, rest, _ := strings.Cut(string(b[:n]), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 0 {
		return 0, ""
	}
	return pid, strings.TrimSpace(rest)
}

// LockHolderFromFile returns who holds the lock at path and where that process listens, according to the
// file: the process may have ended. It does not take the lock, so it does not disturb a process
// that is starting.
func LockHolderFromFile(path string) (pid int, socket string) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, ""
	}
	defer f.Close()
	return holderOf(f)
}

// Holder returns the process that holds the lock at path, as far as it has written that, and 0
// if nobody holds it.
func Holder(path string) (pid int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("find the holder of %s: %w", path, err)
	}
	defer f.Close() // also releases the lock if it was taken
	switch err := flock(f); {
	case err == nil:
		return 0, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		return 0, fmt.Errorf("find the holder of %s: %w", path, err)
	}
	if pid, _ = holderOf(f); pid == 0 {
		return 0, fmt.Errorf("%s is locked by a process that has not written its pid yet; try again", path)
	}
	return pid, nil
}
