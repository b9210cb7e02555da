package beneath

import "golang.org/x/sys/unix"

// openat opens name below dir. With sameSystem, no other file system is entered.
func openat(dir int, name string, flags int, sameSystem bool) (int, error) {
	return openWalking(dir, name, flags, sameSystem)
}

// renameNew renames a file, unless the new name is taken.
func renameNew(fromDir int, from string, toDir int, to string) error {
	return unix.RenameatxNp(fromDir, from, toDir, to, unix.RENAME_EXCL)
}
