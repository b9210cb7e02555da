package agentconf

import (
	"errors"

	"golang.org/x/sys/unix"
)

// swap exchanges two files in a folder in one step.
func swap(dir int, a, b string) error {
	err := unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return errNoSwap
	}
	return err
}

// accessList is the attribute that holds the permissions beyond the mode.
const accessList = "system.posix_acl_access"

// keepAccessList copies the access list of the file at from to the open file to, or removes it
// if from has none: a new file may inherit one from its folder.
func keepAccessList(to int, from string) error {
	value := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(from, accessList, value)
	switch {
	case err == nil:
		return unix.Fsetxattr(to, accessList, value[:n], 0)
	case errors.Is(err, unix.ENODATA):
		if err := unix.Fremovexattr(to, accessList); err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
		return nil
	case errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOENT): // has none, or was removed, which is detected later
		return nil
	}
	return err
}
