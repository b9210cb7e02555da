package facts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// inode identifies a file under all of its names.
type inode struct{ device, number uint64 }

func inodeOf(is *unix.Stat_t) inode {
	return inode{uint64(is.Dev), uint64(is.Ino)} //nolint:unconvert // their types differ between systems
}

// multiLinkInode returns the inode of a regular file with more than one name, and nil for anything else.
func multiLinkInode(is *unix.Stat_t) *inode {
	if is.Mode&unix.S_IFMT != unix.S_IFREG || is.Nlink < 2 {
		return nil
	}
	file := inodeOf(is)
	return &file
}

// linked returns the path of ours whose inode is file, or "". file may be nil.
func (c *candidate) linked(file *inode) string {
	if file == nil {
		return ""
	}
	if c.inspection.files == nil {
		c.inspection.files = c.own.inodes(c.inspection.ctx, c.paths, c.inspection.call.Received)
	}
	if len(c.inspection.files) > c.own.most {
		return "a hard link that may lead to one of ThoughtGate's files, which are too many to compare"
	}
	return c.inspection.files[*file]
}

// inodes returns the files at and below paths by their inodes, to detect hard links. It reuses
// the result of another judgement if that was computed after begun and recently.
func (o *protectedPaths) inodes(ctx context.Context, paths []string, begun time.Time) map[inode]string {
	now := time.Now()
	o.mu.Lock()
	files, filed := o.files, o.filed
	o.mu.Unlock()
	if files != nil && filed.After(begun) && now.Sub(filed) < ownFresh {
		return files
	}
	files = map[inode]string{}
	for _, path := range paths {
		// A file that cannot be read cannot have been linked either.
		_ = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil, len(files) > o.most:
				return filepath.SkipAll
			case err != nil || !d.Type().IsRegular():
				return nil
			}
			var is unix.Stat_t
			if unix.Lstat(p, &is) == nil {
				files[inodeOf(&is)] = p
			}
			return nil
		})
	}
	if ctx.Err() == nil {
		o.mu.Lock()
		o.files, o.filed = files, now
		o.mu.Unlock()
	}
	return files
}

// found is what the system says about a path as a whole.
type found uint8

const (
	isUnclear found = iota // the path must be followed link by link
	isThere                // the path exists and contains no link
	isMissing              // a part does not exist, and no part before it is a link
)

// follow returns the path to which p leads from the folder at, which must not contain links. It
// follows each link, and .. means the parent of the folder that was reached, as the system does.
// Parts that do not exist are taken as written. For an existing path, file is the result of
// several.
//
// Most paths contain no link, which a single system call can tell.
func follow(ctx context.Context, at, p string) (led string, exists bool, file *inode) {
	// In /proc, self must not be resolved for this process.
	if !strings.Contains(p, "self") && !strings.Contains(at, "self") {
		whole := p
		if at != "/" || !strings.HasPrefix(p, "/") {
			whole = at + "/" + p
		}
		switch is, file := lookupWithoutLinks(whole); is {
		case isThere:
			return under(at, p), true, file
		case isMissing:
			if !strings.Contains(p, "..") { // otherwise .. may lead out of at if that is what is missing
				return under(at, p), false, nil
			}
		}
	}
	led, exists = linkByLink(ctx, at, p)
	var is unix.Stat_t
	if exists && unix.Lstat(led, &is) == nil {
		file = multiLinkInode(&is)
	}
	return led, exists, file
}

// under returns p below the folder at, with . and .. removed lexically.
func under(at, p string) string {
	if at == "/" && strings.HasPrefix(p, "/") {
		return filepath.Clean(p)
	}
	return filepath.Join(at, p)
}

// linkByLink is follow for one part of p after another. It stops when ctx is done.
func linkByLink(ctx context.Context, at, p string) (led string, exists bool) {
	rest := strings.Split(p, "/")
	links, missing := 0, false
	var buffer [1024]byte
	for len(rest) > 0 && ctx.Err() == nil {
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
		if next == "/proc/self" || next == "/proc/thread-self" { // the server's process, not this one
			return next + "/" + strings.Join(rest, "/"), false
		}
		n, err := unix.Readlink(next, buffer[:])
		if err != nil || links >= mostLinks {
			at = next
			missing = missing || err == unix.ENOENT || err == unix.ENOTDIR
			if missing && !slices.Contains(rest, "..") {
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
	return at, !missing
}
