package facts

import "golang.org/x/sys/unix"

var withoutLinks = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}

// straight asks the system for a path as a whole. It stops at the first part that is
// a link or that is not there, so that of a path which is missing all before that
// part is known to be no link. Nothing is opened to be read.
func straight(path string) found {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &withoutLinks)
	switch err {
	case nil:
		// Nothing was written, so there is nothing that closing could lose.
		_ = unix.Close(fd)
		return isThere
	case unix.ENOENT:
		return isMissing
	}
	return isUnclear // a link, no permission, a system that doesn't have the call
}
