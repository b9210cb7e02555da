package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ReadFile reads a file that decides what agents may do: a configuration or a policy. It refuses
// a file that is not regular or is longer than limit bytes. The file must belong to the current
// user or to root, and nobody else may be able to write it. The same holds for the folder of the
// file, since whoever can write there can replace the file.
func ReadFile(path string, limit int64) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, reason(err)
	}
	return readRegular(real, 0, limit, func(info fs.FileInfo) error {
		if err := private(real, info); err != nil {
			return err
		}
		return privateFolders(path, real)
	})
}

// readRegular reads a regular file of at most limit bytes. check may reject it; check may be nil.
func readRegular(path string, flags int, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	// Without O_NONBLOCK, opening a named pipe would block until there is a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, reason(err)
	}
	// The file was opened for reading, so an error of Close loses nothing.
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if check != nil {
		if err := check(info); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, reason(err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("it is longer than %v", Size(limit))
	}
	return b, nil
}

// privateFolders checks the folder of the file and, if path is a link, the folder of the link.
func privateFolders(path, real string) error {
	for _, folder := range slices.Compact([]string{filepath.Dir(real), filepath.Dir(path)}) {
		info, err := os.Stat(folder)
		if err != nil {
			return reason(err)
		}
		if err := private(folder, info); err != nil {
			return err
		}
	}
	return nil
}

// private returns an error that says what to do if somebody else could have written the file or
// folder at path.
func private(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner is unknown")
	}
	what := "it"
	if info.IsDir() {
		what = "its folder " + path
	}
	uid := os.Geteuid()
	if stat.Uid != 0 && int(stat.Uid) != uid {
		return fmt.Errorf("%s belongs to user %d, who could change it; it must belong to user %d or root", what, stat.Uid, uid)
	}
	mode := info.Mode()
	if info.IsDir() && mode&fs.ModeSticky != 0 {
		return nil // as in /tmp: only the owner of an entry can replace it
	}
	// Many systems give each user a group with the same number and a umask that lets the group
	// write. That is still only this user.
	ownGroup := int(stat.Gid) == os.Getegid() && int(stat.Gid) == uid
	switch {
	case mode&0o002 != 0:
		return fmt.Errorf("%s is writable by everybody; run: chmod go-w %s", what, path)
	case mode&0o020 != 0 && !ownGroup:
		return fmt.Errorf("%s is writable by its group; run: chmod g-w %s", what, path)
	}
	return nil
}

// reason strips operation and path from err: the caller names the file.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
