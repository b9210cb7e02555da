package facts

import "golang.org/x/sys/unix"

var withoutLinks = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}

// lookupWithoutLinks asks the system about a path as a whole. The lookup stops at the first part that is a
// link or does not exist, so for a missing path all parts before the missing one are known not to
// be links. For an existing path, file is the result of several. Nothing is opened for reading.
func lookupWithoutLinks(path string) (is found, file *inode) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &withoutLinks)
	switch err {
	case nil:
		var stat unix.Stat_t
		err := unix.Fstat(fd, &stat)
		// The file was not written to, so an error of Close loses nothing.
		_ = unix.Close(fd)
		if err != nil {
			return isUnclear, nil
		}
		return isThere, multiLinkInode(&stat)
	case unix.ENOENT:
		return isMissing, nil
	}
	return isUnclear, nil // a link, no permission, or a system without this call
}

// foldPath returns a form that is equal for two paths to one file: on Linux, names are bytes.
func foldPath(path string) string { return path }
