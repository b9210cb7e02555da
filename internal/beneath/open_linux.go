package beneath

import (
	"os"

	"golang.org/x/sys/unix"
)

// retries bounds how often openat2 is repeated because something was renamed meanwhile.
const retries = 64

// openat opens name below dir. With sameSystem, no other file system is entered.
func openat(dir int, name string, flags int, sameSystem bool) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if sameSystem {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	for n := 0; ; n++ {
		fd, err := unix.Openat2(dir, name, &how)
		switch {
		case err == unix.EINTR, err == unix.EAGAIN && n < retries:
		case err == unix.ENOSYS, err == unix.EPERM: // an old kernel, or a container's filter
			return openWalking(dir, name, flags, sameSystem)
		default:
			return fd, err
		}
	}
}

// renameNew renames a file, unless the new name is taken.
func renameNew(fromDir int, from string, toDir int, to string) error {
	return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
}

// Clone creates a file in d that shares its content with f on the disk, where the file system can
// do that.
func (d *Dir) Clone(f *os.File, name string) (*os.File, error) {
	clone, err := d.Create(name, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlFileClone(int(clone.Fd()), int(f.Fd())); err != nil {
		clone.Close()
		_ = d.Unlink(name)
		return nil, d.error("clone", name, err)
	}
	return clone, nil
}
