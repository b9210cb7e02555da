package keep

import (
	"os"

	"golang.org/x/sys/unix"
)

// held is a descriptor, and no [os.File]: one of those would wake the keeper whenever
// something passes through it.
type held struct {
	name   string
	fd     int
	socket socketFile
}

// socketFile is the file of a listening socket that a daemon has made, which goes with
// the keeper.
type socketFile struct {
	path string
	info os.FileInfo // nil for what has none
}

func socketOf(fd int) socketFile {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || n == 0 {
		return socketFile{}
	}
	name, err := unix.Getsockname(fd)
	at, ok := name.(*unix.SockaddrUnix)
	if err != nil || !ok {
		return socketFile{}
	}
	info, _ := os.Lstat(at.Name) // none for one that has no file
	return socketFile{at.Name, info}
}

func (f socketFile) remove() error {
	if f.info == nil {
		return nil
	}
	if now, err := os.Lstat(f.path); err != nil || !os.SameFile(now, f.info) {
		return nil // somebody else's lies there by now
	}
	return os.Remove(f.path)
}
