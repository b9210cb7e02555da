package mapping

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// seals are set on every mapping. They prevent other holders from truncating it, which would
// crash a daemon that accesses the missing pages.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func create(size int64) (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("thoughtgate-session", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("thoughtgate-session", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd of a session")
	if err = f.Truncate(size); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// check returns why f was not made by create, or nil.
func check(f *os.File, info fs.FileInfo) error {
	have, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	switch {
	case err != nil:
		return fmt.Errorf("it is not sealed memory: %w", err)
	case have&seals != seals:
		return errors.New("it lacks the seals of a mapping")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	}
	return nil
}

func punch(f *os.File, offset, n int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, n)
}
