package facts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// linked returns which of our files p is another name of.
func (c *candidate) linked(p string) string {
	var is unix.Stat_t
	if unix.Lstat(p, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFREG || is.Nlink < 2 {
		return ""
	}
	info, err := os.Lstat(p)
	if err != nil {
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

// found is what the system says of a path as a whole.
type found uint8

const (
	isUnclear found = iota // it has to be followed link by link
	isThere                // it exists, and no part of it is a link
	isMissing              // a part of it does not exist, and none before that is a link
)

// follow returns where p leads from the folder at, itself without links, when
// each link on the way is followed and .. means the folder above where that led,
// as the system does. What does not exist is taken as it is written.
//
// Most paths have no link in them, and one call of the system says so.
func follow(at, p string) (led string, exists bool) {
	// What /proc shows of whoever looks is not for the system to follow.
	if !strings.Contains(p, "self") && !strings.Contains(at, "self") {
		switch straight(at + "/" + p) {
		case isThere:
			return under(at, p), true
		case isMissing:
			if !strings.Contains(p, "..") { // which may lead out of at, should that be what is missing
				return under(at, p), false
			}
		}
	}
	return linkByLink(at, p)
}

// under is p as it is written, begun at the folder at, with . and .. taken out.
func under(at, p string) string {
	if at == "/" && strings.HasPrefix(p, "/") {
		return filepath.Clean(p)
	}
	return filepath.Join(at, p)
}

// linkByLink is follow, one part of p after another.
func linkByLink(at, p string) (led string, exists bool) {
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
