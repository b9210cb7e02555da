package sock

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckFolder says what is wrong with a folder of ours, nil when nothing is: it is
// ours alone, and nobody else could put another in its place. It changes nothing.
func CheckFolder(dir string) error { return checkDir(dir) }

// CheckSocket says what is wrong with a socket of ours, nil when nothing is. It
// makes no connection.
func CheckSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at socket %s: %w", path, err)
	}
	if err := checkSocket(path, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("socket %s is open to others (mode %04o): %w; run: chmod 600 %s", path, info.Mode().Perm(), ErrUnsafe, path)
	}
	return nil
}

// checkDir refuses a folder that is not ours alone, or that somebody else could
// put another in place of.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at folder %s: %w", dir, err)
	}
	uid, _ := ownerOf(info)
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("folder %s is a symbolic link: %w; put a folder in its place", dir, ErrUnsafe)
	case !mode.IsDir():
		return fmt.Errorf("%s is not a folder; move it away", dir)
	case uid != os.Geteuid():
		return fmt.Errorf("folder %s belongs to uid %d and not to you (uid %d): %w; remove it, or name another folder", dir, uid, os.Geteuid(), ErrUnsafe)
	case mode.Perm()&0o077 != 0:
		return fmt.Errorf("folder %s is open to others (mode %04o): %w; run: chmod 700 %s", dir, mode.Perm(), ErrUnsafe, dir)
	}
	return checkAbove(dir)
}

// checkAbove looks at every folder above dir, along the path as it is written
// and as it is once its links are followed.
func checkAbove(dir string) error {
	trusted := map[int]bool{0: true, os.Geteuid(): true}
	if root, err := os.Stat("/"); err == nil {
		// In a user namespace the owner of everything may not be called 0.
		uid, _ := ownerOf(root)
		trusted[uid] = true
	}
	parent := filepath.Dir(dir)
	target, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return fmt.Errorf("look at what lies above %s: %w", dir, err)
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
		return fmt.Errorf("%s above it belongs to uid %d: %w", path, uid, ErrUnsafe)
	}
	if !info.IsDir() || info.Mode()&fs.ModeSticky != 0 {
		return nil // a link can't be written to; a sticky folder lets nobody rename what isn't theirs
	}
	byGroup := info.Mode().Perm()&0o020 != 0 && gid != 0 && !(ownGroups && gid == os.Getegid())
	if info.Mode().Perm()&0o002 != 0 || byGroup {
		return fmt.Errorf("others may write to %s above it (mode %04o): %w; run: chmod go-w %s", path, info.Mode().Perm(), ErrUnsafe, path)
	}
	return nil
}

// checkSocket refuses what is not a socket of ours.
func checkSocket(path string, info fs.FileInfo) error {
	uid, _ := ownerOf(info)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: %w; remove it", path, ErrUnsafe)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is not a socket: %w; move it away", path, ErrUnsafe)
	case uid != os.Geteuid():
		return fmt.Errorf("socket %s belongs to uid %d and not to you (uid %d): %w", path, uid, os.Geteuid(), ErrUnsafe)
	}
	return nil
}

func ownerOf(info fs.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}
