package facts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// linked returns which of our files p is another name of.
func (c *candidate) linked(p string) string {
	info, err := os.Lstat(p)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Nlink < 2 {
		return ""
	}
	for _, q := range c.paths {
		if named := sameFile(info, q); named != "" {
			return named
		}
	}
	return ""
}

// sameFile returns the file at or within path that info is of.
func sameFile(info os.FileInfo, path string) (found string) {
	seen := 0
	errEnough := errors.New("enough")
	_ = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if seen++; err != nil || seen > 4096 {
			return errEnough
		}
		if d.Type().IsRegular() {
			if other, err := d.Info(); err == nil && os.SameFile(info, other) {
				found = p
				return errEnough
			}
		}
		return nil
	})
	return found
}

// follow returns where p leads from the folder at, itself without links, when
// each link on the way is followed and .. means the folder above where that led,
// as the system does. What does not exist is taken as it is written.
func follow(at, p string) (led string, exists bool) {
	rest := strings.Split(p, "/")
	links := 0
	var buffer [1024]byte
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := at + "/" + part
		if at == "/" {
			next = "/" + part
		}
		if next == "/proc/self" || next == "/proc/thread-self" { // the server's, and not ours
			return next + "/" + strings.Join(rest, "/"), false
		}
		n, err := unix.Readlink(next, buffer[:])
		if err != nil || links >= mostLinks {
			at = next
			if err == unix.ENOENT || err == unix.ENOTDIR {
				return filepath.Join(append([]string{at}, rest...)...), false
			}
			continue
		}
		links++
		target := string(buffer[:n])
		if n == len(buffer) {
			target, _ = os.Readlink(next)
		}
		if strings.HasPrefix(target, "/") {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, true
}
