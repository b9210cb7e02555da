package sock

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckSocket returns an error unless there is a safe socket of this user at path. It does not
// connect.
func CheckSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("check socket %s: %w", path, err)
	}
	if err := checkSocket(path, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("socket %s is open to others (mode %04o): %w; run: chmod 600 %s", path, info.Mode().Perm(), ErrUnsafe, path)
	}
	return nil
}

// CheckFolder returns an error unless the folder dir belongs to this user alone and nobody else
// could replace it. It changes nothing.
func CheckFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check folder %s: %w", dir, err)
	}
	uid, _ := ownerOf(info)
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("folder %s is a symbolic link: %w; replace it by a folder", dir, ErrUnsafe)
	case !mode.IsDir():
		return fmt.Errorf("%s is not a folder; move it away", dir)
	case uid != os.Geteuid():
		return fmt.Errorf("folder %s belongs to uid %d, not to you (uid %d): %w; remove it, or use another folder", dir, uid, os.Geteuid(), ErrUnsafe)
	case mode.Perm()&0o077 != 0:
		return fmt.Errorf("folder %s is open to others (mode %04o): %w; run: chmod 700 %s", dir, mode.Perm(), ErrUnsafe, dir)
	}
	return checkAbove(dir)
}

// checkAbove checks every folder above dir, along the path as written and along the path with
// links resolved.
func checkAbove(dir string) error {
	trusted := map[int]bool{0: true, os.Geteuid(): true}
	if root, err := os.Stat("/"); err == nil {
		// In a user namespace the owner of the root folder may have another uid than 0.
		uid, _ := ownerOf(root)
		trusted[uid] = true
	}
	parent := filepath.Dir(dir)
	target, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return fmt.Errorf("check the folders above %s: %w", dir, err)
	}
	for _, from := range []string{parent, target} {
		for path := from; ; path = filepath.Dir(path) {
			if err := checkOneAbove(path, trusted); err != nil {
				return fmt.Errorf("folder %s: %w", dir, err)
			}
			if path == filepath.Dir(path) {
				break
			}
		}
		if target == parent {
			break
		}
	}
	return nil
}

func checkOneAbove(path string, trusted map[int]bool) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	uid, gid := ownerOf(info)
	if !trusted[uid] {
		return fmt.Errorf("the folder above it, %s, belongs to uid %d: %w", path, uid, ErrUnsafe)
	}
	if !info.IsDir() || info.Mode()&fs.ModeSticky != 0 {
		return nil // a link has no content to change; in a sticky folder only owners can rename
	}
	byGroup := info.Mode().Perm()&0o020 != 0 && gid != 0 && !(ownGroups && gid == os.Getegid())
	if info.Mode().Perm()&0o002 != 0 || byGroup {
		return fmt.Errorf("others may write to the folder above it, %s (mode %04o): %w; run: chmod go-w %s", path, info.Mode().Perm(), ErrUnsafe, path)
	}
	return nil
}

// checkSocket returns an error if path is not a socket of this user.
func checkSocket(path string, info fs.FileInfo) error {
	uid, _ := ownerOf(info)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: %w; remove it", path, ErrUnsafe)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is not a socket: %w; move it away", path, ErrUnsafe)
	case uid != os.Geteuid():
		return fmt.Errorf("socket %s belongs to uid %d, not to you (uid %d): %w", path, uid, os.Geteuid(), ErrUnsafe)
	}
	return nil
}

func ownerOf(info fs.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}
