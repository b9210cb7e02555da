package facts

import "golang.org/x/sys/unix"

var withoutLinks = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}

// straight asks the system for a path as a whole. It stops at the first part that is
// a link or that is not there, so that of a path which is missing all before that
// part is known to be no link. Of what is there, file is as with several. Nothing is
// opened to be read.
func straight(path string) (is found, file *inode) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &withoutLinks)
	switch err {
	case nil:
		var stat unix.Stat_t
		err := unix.Fstat(fd, &stat)
		// Nothing was written, so there is nothing that closing could lose.
		_ = unix.Close(fd)
		if err != nil {
			return isUnclear, nil
		}
		return isThere, several(&stat)
	case unix.ENOENT:
		return isMissing, nil
	}
	return isUnclear, nil // a link, no permission, a system that doesn't have the call
}
