package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ReadFile reads a file that decides what agents may do: a configuration or a
// policy. It refuses a file that is not a regular one, that is longer than
// limit bytes, or that somebody other than its owner could have written, who
// must be the user we run as or root: what somebody else can write is not this
// user's will. The folder of the file is held to the same, since who may write
// there can put another file in its place.
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

// readRegular reads a regular file of at most limit bytes that check, which may be nil,
// has nothing against.
func readRegular(path string, flags int, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	// Without O_NONBLOCK opening a named pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, reason(err)
	}
	// Nothing was written, so there is nothing that closing could lose.
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

// privateFolders looks at the folder of the file and, when path is a link, at
// the one of the link.
func privateFolders(path, real string) error {
	folder := filepath.Dir(real)
	for {
		info, err := os.Stat(folder)
		if err != nil {
			return reason(err)
		}
		if err := private(folder, info); err != nil {
			return err
		}
		if folder == filepath.Dir(path) {
			return nil
		}
		folder = filepath.Dir(path)
	}
}

// private reports, as an error that says what to do, that somebody else could
// have written the file or folder at path.
func private(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner can't be told")
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
		return nil // as /tmp: entries belong to who made them
	}
	// Many systems give each user a group of their own, of the same number, and
	// a umask that lets it write: that is still only this user.
	ownGroup := int(stat.Gid) == os.Getegid() && int(stat.Gid) == uid
	switch {
	case mode&0o002 != 0:
		return fmt.Errorf("%s can be written by everybody; mend it with: chmod go-w %s", what, path)
	case mode&0o020 != 0 && !ownGroup:
		return fmt.Errorf("%s can be written by its group; mend it with: chmod g-w %s", what, path)
	}
	return nil
}

// reason strips operation and path off err: whoever prints it names the file.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
