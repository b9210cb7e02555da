package beneath

import (
	"os"

	"golang.org/x/sys/unix"
)

// openat opens name below dir. With sameSystem, no other file system is entered.
func openat(dir int, name string, flags int, sameSystem bool) (int, error) {
	return openWalking(dir, name, flags, sameSystem)
}

// renameNew renames a file, unless the new name is taken.
func renameNew(fromDir int, from string, toDir int, to string) error {
	return unix.RenameatxNp(fromDir, from, toDir, to, unix.RENAME_EXCL)
}

// Clone creates a file in d that shares its content with f on the disk, where the file system can
// do that.
func (d *Dir) Clone(f *os.File, name string) (*os.File, error) {
	err := d.change("clone", name, func() error { return unix.Fclonefileat(int(f.Fd()), d.fd, name, unix.CLONE_NOFOLLOW) })
	if err != nil {
		return nil, err
	}
	clone, _, err := d.Open(name)
	return clone, err
}
