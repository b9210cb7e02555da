package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// file counts a file in a folder, which is base below dir and name in the tree.
func (s *survey) file(in folder, name string, info beneath.Info, dir *beneath.Dir, base string) {
	kind := s.kind(in, name, info, dir, base)
	if s.isOver() { // in the middle of it, so that it means nothing
		kind = Unclear
	}
	if s.tracked && kind != Staged && kind != Changed && kind != Unclear {
		return
	}
	s.report.count(kind, name, info.Size, s.t.limits.Names)
}

// kind says what is known of a file.
func (s *survey) kind(in folder, name string, info beneath.Info, dir *beneath.Dir, base string) Kind {
	switch {
	case in.internal || name == dotGit:
		return Internal
	case in.nested:
		return Nested
	case !info.IsRegular() && !info.IsLink():
		return Special
	case errors.Is(s.t.unreadable, ErrNoRepository):
		return Untracked
	case s.index == nil:
		return Unclear
	}
	e, n := s.index.lookup(name)
	if e == nil {
		switch {
		case in.ignored || in.rules.ignores(name, false):
			return Ignored
		case s.index.isLeftOut(name):
			s.report.miss("a sparse index does not list every file")
			return Unclear
		}
		return Untracked
	}
	for ; n < len(s.index.entries) && s.index.entries[n].name == name; n++ {
		s.found[n] = true
	}
	if e.stage > 0 || e.intended || (e.mode&modeKind == modeLink) != info.IsLink() || e.mode&modeKind == modeGitlink {
		return Changed
	}
	if !e.isUnchanged(info, s.index.mtime) {
		if kind := s.compare(in, name, e, info, dir, base); kind != Committed {
			return kind
		}
	}
	if s.head == nil {
		return Unclear
	}
	has, err := s.head.has(s.ctx, e)
	switch {
	case err != nil:
		s.report.miss(err.Error())
		return Unclear
	case !has:
		return Staged
	}
	return Committed
}

// stamp is a time as the index has it.
func stamp(seconds, nanoseconds int64) [2]uint32 {
	return [2]uint32{uint32(seconds), uint32(nanoseconds)}
}

// isUnchanged reports whether a file is the one that git looked at last, in all that the system
// says of it. One that is as young as the index may have been changed after that in the same
// moment.
func (e *entry) isUnchanged(info beneath.Info, index [2]uint32) bool {
	mtime := stamp(info.Mtime.Unix())
	young := mtime[0] > index[0] || mtime[0] == index[0] && mtime[1] >= index[1]
	return !young && e.mtime == mtime && e.ctime == stamp(info.Ctime.Unix()) &&
		e.size == uint32(info.Size) && e.ino == uint32(info.Ino) && e.uid == info.UID && e.gid == info.GID
}

// compare compares the content of a file with that in the index. It returns Committed if they
// are the same.
func (s *survey) compare(in folder, name string, e *entry, info beneath.Info, dir *beneath.Dir, base string) Kind {
	if info.IsLink() {
		target, err := dir.Readlink(base)
		if err != nil {
			return Changed
		}
		if h := newBlobHash(s.t.hash, int64(len(target))); h.is(e.id, []byte(target)) {
			return Committed
		}
		return Changed
	}
	if info.Size > s.hashed {
		s.report.miss("there is more to compare than the limit allows")
		return Unclear
	}
	s.hashed -= info.Size
	f, opened, err := dir.Open(base)
	if err != nil {
		s.report.miss(beneath.Explain(err).Error())
		return Unclear
	}
	defer f.Close()
	whole := newBlobHash(s.t.hash, opened.Size)
	crlf, err := copyCounting(s.ctx, whole, io.LimitReader(f, opened.Size))
	switch {
	case err != nil:
		s.report.miss(fmt.Sprintf("a file could not be compared: %v", err))
		return Unclear
	case whole.is(e.id, nil):
		return Committed
	case in.rules.converts(name):
		s.report.miss("some files are stored in another form, by a filter of the repository")
		return Unclear
	}
	if crlf == 0 {
		return Changed
	}
	// As git would store it if it converts line ends, which its configuration says.
	if _, err := f.Seek(0, io.SeekStart); err == nil {
		plain := newBlobHash(s.t.hash, opened.Size-crlf)
		_, err = copyCounting(s.ctx, &withoutCR{w: plain}, io.LimitReader(f, opened.Size))
		if err == nil && plain.is(e.id, nil) {
			s.report.miss("some files differ from what is stored in line ends only")
			return Unclear
		}
	}
	return Changed
}

// blobHash computes the name of a file's content.
type blobHash struct{ hash.Hash }

func newBlobHash(hash int, size int64) blobHash {
	h := newHash(hash)
	fmt.Fprintf(h, "blob %d\x00", size)
	return blobHash{h}
}

// is reports whether the name of what was written, and of rest, is id.
func (h blobHash) is(id objectID, rest []byte) bool {
	h.Write(rest)
	return bytes.Equal(h.Sum(nil), id[:h.Size()])
}

// copyCounting copies until the end of r or of ctx, and counts the CR before an LF.
func copyCounting(ctx context.Context, w io.Writer, r io.Reader) (crlf int64, err error) {
	buffer := make([]byte, 64<<10)
	wasCR := false
	for {
		if err := context.Cause(ctx); err != nil {
			return crlf, err
		}
		n, err := r.Read(buffer)
		if part := buffer[:n]; n > 0 {
			if wasCR && part[0] == '\n' {
				crlf++
			}
			crlf += int64(bytes.Count(part, []byte("\r\n")))
			wasCR = part[n-1] == '\r'
			if _, err := w.Write(part); err != nil {
				return crlf, err
			}
		}
		if err == io.EOF {
			return crlf, nil
		}
		if err != nil {
			return crlf, err
		}
	}
}

// withoutCR drops each CR before an LF.
type withoutCR struct {
	w    io.Writer
	held bool // a CR at the end of what was written
}

func (c *withoutCR) Write(b []byte) (int, error) {
	n := len(b)
	if c.held && n > 0 && b[0] != '\n' {
		if _, err := c.w.Write([]byte{'\r'}); err != nil {
			return 0, err
		}
	}
	if n > 0 {
		if c.held = b[n-1] == '\r'; c.held {
			b = b[:n-1]
		}
	}
	_, err := c.w.Write(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")))
	return n, err
}
