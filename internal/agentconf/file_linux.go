package agentconf

import (
	"errors"

	"golang.org/x/sys/unix"
)

// swap lets two files of one folder change places in one step.
func swap(dir int, a, b string) error {
	err := unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return errNoSwap
	}
	return err
}

// accessList is the attribute that holds who may do what beyond the mode.
const accessList = "system.posix_acl_access"

// keepAccessList gives the file that to is open on the access list of the one at
// from, or none where that has none: a folder may hand its own to every new file
// in it.
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
	case errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOENT): // has none, or has gone, which is found out later
		return nil
	}
	return err
}
