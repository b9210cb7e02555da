package facts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// inode is what the names of one file have in common.
type inode struct{ device, number uint64 }

func inodeOf(is *unix.Stat_t) inode {
	return inode{uint64(is.Dev), uint64(is.Ino)} //nolint:unconvert // their types differ between systems
}

// several returns what the names of a file have in common that has more than one; nil
// for anything else.
func several(is *unix.Stat_t) *inode {
	if is.Mode&unix.S_IFMT != unix.S_IFREG || is.Nlink < 2 {
		return nil
	}
	file := inodeOf(is)
	return &file
}

// linked returns which of our files a file with several names is; nil is none.
func (c *candidate) linked(file *inode) string {
	if file == nil {
		return ""
	}
	if c.look.files == nil {
		c.look.files = c.own.inodes(c.look.ctx, c.paths, c.look.call.Received)
	}
	if len(c.look.files) > c.own.most {
		return "a file with several names, of which one could be among more files of ours than can be compared"
	}
	return c.look.files[*file]
}

// inodes returns the files at and within paths, by what a hard link has in common
// with them. They are looked for once for a judgement: what another has found since
// the time begun is as good, if that was just now.
func (o *own) inodes(ctx context.Context, paths []string, begun time.Time) map[inode]string {
	now := time.Now()
	o.mu.Lock()
	files, filed := o.files, o.filed
	o.mu.Unlock()
	if files != nil && filed.After(begun) && now.Sub(filed) < ownFresh {
		return files
	}
	files = map[inode]string{}
	for _, path := range paths {
		// What can't be read holds no file of which anybody could have made a link.
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

// found is what the system says of a path as a whole.
type found uint8

const (
	isUnclear found = iota // it has to be followed link by link
	isThere                // it exists, and no part of it is a link
	isMissing              // a part of it does not exist, and none before that is a link
)

// follow returns where p leads from the folder at, itself without links, when
// each link on the way is followed and .. means the folder above where that led,
// as the system does. What does not exist is taken as it is written; of what does, file
// is as with several.
//
// Most paths have no link in them, and one call of the system says so.
func follow(ctx context.Context, at, p string) (led string, exists bool, file *inode) {
	// What /proc shows of whoever looks is not for the system to follow.
	if !strings.Contains(p, "self") && !strings.Contains(at, "self") {
		whole := p
		if at != "/" || !strings.HasPrefix(p, "/") {
			whole = at + "/" + p
		}
		switch is, file := straight(whole); is {
		case isThere:
			return under(at, p), true, file
		case isMissing:
			if !strings.Contains(p, "..") { // which may lead out of at, should that be what is missing
				return under(at, p), false, nil
			}
		}
	}
	led, exists = linkByLink(ctx, at, p)
	var is unix.Stat_t
	if exists && unix.Lstat(led, &is) == nil {
		file = several(&is)
	}
	return led, exists, file
}

// under is p as it is written, begun at the folder at, with . and .. taken out.
func under(at, p string) string {
	if at == "/" && strings.HasPrefix(p, "/") {
		return filepath.Clean(p)
	}
	return filepath.Join(at, p)
}

// linkByLink is follow, one part of p after another. It goes no further once ctx has
// ended.
func linkByLink(ctx context.Context, at, p string) (led string, exists bool) {
	rest := strings.Split(p, "/")
	links := 0
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
