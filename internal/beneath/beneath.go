// Package beneath opens what lies below a folder, and nothing else, also while somebody else
// renames folders and plants links there. No symbolic link is followed and no other file system
// is entered; only regular files and folders are opened, so that neither a named pipe nor a
// device can block or do anything.
//
// On Linux the kernel does it (openat2). Elsewhere, and where openat2 is not allowed, each folder
// of a path is opened from the one before, which is as strict, since a path has no "..".
package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotRegular reports that a file is of a kind that is not opened, such as a named pipe.
var ErrNotRegular = errors.New("is not a regular file")

// Dir is a folder that is held open. Names are relative to it, as [IsValid] wants
// them. It must be closed.
type Dir struct {
	fd   int
	path string // for errors only
}

// Open opens the folder at an absolute path in which nothing is a symbolic link.
func Open(path string) (*Dir, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is not a clean absolute path")}
	}
	top, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	if path == "/" {
		return &Dir{top, path}, nil
	}
	defer unix.Close(top)
	fd, err := openat(top, path[1:], unix.O_RDONLY|unix.O_DIRECTORY, false)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{fd, path}, nil
}

// IsValid reports whether name leads to something below a folder, or is "." for the folder itself.
// Other than for [fs.ValidPath], a name may have any bytes.
func IsValid(name string) bool {
	if name == "." {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.Contains(name, "\x00")
}

// Close closes the folder.
func (d *Dir) Close() error {
	if d == nil || d.fd < 0 {
		return nil
	}
	err := unix.Close(d.fd)
	d.fd = -1
	return err
}

// Path returns where the folder was when it was opened.
func (d *Dir) Path() string { return d.path }

func (d *Dir) error(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: filepath.Join(d.path, name), Err: err}
}

// Dir opens a folder below d, or d once more if name is ".".
func (d *Dir) Dir(name string) (*Dir, error) {
	if !IsValid(name) {
		return nil, d.error("open", name, fs.ErrInvalid)
	}
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY, true)
	if err != nil {
		return nil, d.error("open", name, err)
	}
	return &Dir{fd, filepath.Join(d.path, name)}, nil
}

// Open opens a regular file for reading. The error is ErrNotRegular for anything else.
func (d *Dir) Open(name string) (*os.File, Info, error) {
	// A device is not even opened, unless it takes the place of a file in this moment.
	info, err := d.Lstat(name)
	if err != nil {
		return nil, info, err
	}
	if !info.IsRegular() {
		return nil, info, d.error("open", name, ErrNotRegular)
	}
	fd, err := openat(d.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, true)
	if err != nil {
		return nil, info, d.error("open", name, err)
	}
	if info, err = fstat(fd); err == nil && !info.IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return nil, info, d.error("open", name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), info, nil
}

// Stat describes d itself.
func (d *Dir) Stat() (Info, error) {
	info, err := fstat(d.fd)
	if err != nil {
		err = d.error("stat", ".", err)
	}
	return info, err
}

// Lstat describes a file. Of a symbolic link it describes the link.
func (d *Dir) Lstat(name string) (info Info, err error) {
	err = d.in("stat", name, func(dir int, base string) error {
		var st unix.Stat_t
		err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		info = newInfo(&st)
		return err
	})
	return info, err
}

// Readlink returns the text of a symbolic link.
func (d *Dir) Readlink(name string) (target string, err error) {
	err = d.in("readlink", name, func(dir int, base string) error {
		buffer := make([]byte, unix.PathMax+1)
		n, err := unix.Readlinkat(dir, base, buffer)
		if err == nil {
			target = string(buffer[:n])
		}
		return err
	})
	return target, err
}

// in calls do with the folder of name, which is below d, and the last part of name.
func (d *Dir) in(op, name string, do func(dir int, base string) error) error {
	dir, base := d.fd, name
	var err error
	if !IsValid(name) {
		return d.error(op, name, fs.ErrInvalid)
	}
	if cut := strings.LastIndexByte(name, '/'); cut >= 0 {
		if dir, err = openat(d.fd, name[:cut], unix.O_RDONLY|unix.O_DIRECTORY, true); err != nil {
			return d.error(op, name, err)
		}
		defer unix.Close(dir)
		base = name[cut+1:]
	}
	if err = ignoringEINTR(func() error { return do(dir, base) }); err != nil {
		return d.error(op, name, err)
	}
	return nil
}

// Names returns the names in d, in no order, and whether these are all. Past max of them it
// stops.
func (d *Dir) Names(max int) (names []string, all bool, err error) {
	if _, err := unix.Seek(d.fd, 0, 0); err != nil {
		return nil, false, d.error("read", ".", err)
	}
	buffer := make([]byte, 32<<10)
	for {
		var n int
		err := ignoringEINTR(func() (err error) {
			n, err = unix.ReadDirent(d.fd, buffer)
			return err
		})
		if err != nil {
			return names, false, d.error("read", ".", err)
		}
		if n <= 0 {
			return names, true, nil
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
		if len(names) > max {
			return names[:max], false, nil
		}
	}
}

// Info describes a file.
type Info struct {
	Mode         uint32 // as the system has it, with the kind
	Size         int64
	Mtime, Ctime unix.Timespec
	Dev, Ino     uint64
	UID, GID     uint32
	Links        uint64
}

func newInfo(st *unix.Stat_t) Info {
	return Info{uint32(st.Mode), st.Size, st.Mtim, st.Ctim, uint64(st.Dev), st.Ino, st.Uid, st.Gid, uint64(st.Nlink)}
}

func fstat(fd int) (Info, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return newInfo(&st), err
}

// IsRegular reports whether i describes a regular file.
func (i Info) IsRegular() bool { return i.Mode&unix.S_IFMT == unix.S_IFREG }

// IsDir reports whether i describes a folder.
func (i Info) IsDir() bool { return i.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsLink reports whether i describes a symbolic link.
func (i Info) IsLink() bool { return i.Mode&unix.S_IFMT == unix.S_IFLNK }

// Perm returns the permissions, without set-user-ID and the like.
func (i Info) Perm() uint32 { return i.Mode & 0o777 }

// Kind says what i describes, for people.
func (i Info) Kind() string {
	switch i.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "folder"
	case unix.S_IFLNK:
		return "symbolic link"
	case unix.S_IFIFO:
		return "named pipe"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}

// openWalking opens name below dir, one part after the other.
func openWalking(dir int, name string, flags int, sameSystem bool) (int, error) {
	top, err := fstat(dir)
	if err != nil {
		return -1, err
	}
	at := dir
	for {
		part, rest, more := strings.Cut(name, "/")
		use := unix.O_RDONLY | unix.O_DIRECTORY
		if !more {
			use = flags
		}
		fd := -1
		err := ignoringEINTR(func() (err error) {
			fd, err = unix.Openat(at, part, use|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			return err
		})
		if at != dir {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		info, err := fstat(fd)
		if err == nil && sameSystem && info.Dev != top.Dev {
			err = unix.EXDEV
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		if !more {
			return fd, nil
		}
		at, name = fd, rest
	}
}

func ignoringEINTR(do func() error) error {
	for {
		if err := do(); err != unix.EINTR {
			return err
		}
	}
}

// IsLinked reports whether err says that a part of the path is a symbolic link.
func IsLinked(err error) bool { return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) }

// Explain returns err with a plain cause where the system's words mislead.
func Explain(err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%w (a symbolic link, which is not followed)", err)
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%w (another file system, which is not entered)", err)
	}
	return err
}
