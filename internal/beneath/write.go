package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Create creates a file in d for writing. It fails with fs.ErrExist if there is anything at name,
// also a link.
func (d *Dir) Create(name string, perm uint32) (*os.File, error) {
	fd := -1
	err := d.change("create", name, func() (err error) {
		fd, err = unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), nil
}

// Mkdir creates a folder in d.
func (d *Dir) Mkdir(name string, perm uint32) error {
	return d.change("mkdir", name, func() error { return unix.Mkdirat(d.fd, name, perm) })
}

// Symlink creates a symbolic link in d.
func (d *Dir) Symlink(target, name string) error {
	return d.change("symlink", name, func() error { return unix.Symlinkat(target, d.fd, name) })
}

// Unlink removes a file or link from d.
func (d *Dir) Unlink(name string) error {
	return d.change("remove", name, func() error { return unix.Unlinkat(d.fd, name, 0) })
}

// RenameNew renames a file in d, which fails with fs.ErrExist if there is anything at to. Where
// the file system can't do that in one step, only files and links are renamed.
func (d *Dir) RenameNew(from, to string) error {
	if !isBase(from) {
		return d.error("rename", from, unix.EINVAL)
	}
	return d.change("rename", to, func() error {
		err := renameNew(d.fd, from, d.fd, to)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
		if err := unix.Linkat(d.fd, from, d.fd, to, 0); err != nil {
			return err
		}
		return unix.Unlinkat(d.fd, from, 0)
	})
}

// Chmod sets the permissions of d itself.
func (d *Dir) Chmod(perm uint32) error {
	return d.self("chmod", func() error { return unix.Fchmod(d.fd, perm) })
}

// Sync writes the names in d to the disk.
func (d *Dir) Sync() error {
	return d.self("sync", func() error { return unix.Fsync(d.fd) })
}

// Flock locks the folder, with unix.LOCK_SH or unix.LOCK_EX, without waiting. Closing d unlocks
// it.
func (d *Dir) Flock(how int) error {
	return d.self("lock", func() error { return unix.Flock(d.fd, how|unix.LOCK_NB) })
}

// Free returns how many bytes this user may still write to the file system.
func (d *Dir) Free() (int64, error) {
	var st unix.Statfs_t
	err := d.self("statfs", func() error { return unix.Fstatfs(d.fd, &st) })
	return int64(min(uint64(st.Bavail), 1<<40)) * int64(st.Bsize), err
}

func (d *Dir) self(op string, do func() error) error {
	if err := ignoringEINTR(do); err != nil {
		return d.error(op, ".", err)
	}
	return nil
}

// change calls do if name is one part of a path.
func (d *Dir) change(op, name string, do func() error) error {
	if !isBase(name) {
		return d.error(op, name, unix.EINVAL)
	}
	if err := ignoringEINTR(do); err != nil {
		return d.error(op, name, err)
	}
	return nil
}

func isBase(name string) bool {
	return name != "" && name != "." && name != ".." && filepath.Base(name) == name
}

// SetMtime sets when a file was changed last, to the microsecond, which is as fine as a descriptor
// allows everywhere.
func SetMtime(f *os.File, t time.Time) error {
	to := unix.NsecToTimeval(t.Truncate(time.Microsecond).UnixNano())
	if err := unix.Futimes(int(f.Fd()), []unix.Timeval{to, to}); err != nil {
		return &fs.PathError{Op: "utimes", Path: f.Name(), Err: err}
	}
	return nil
}
