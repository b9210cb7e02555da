// Package transcript reads what agents have written down about their conversations. All of it is what
// an agent or a model has written, and may be crafted: only regular files of this user below a folder
// are read, without following links there, and no more of each, and of no more of them, than there is
// memory for.
package transcript

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

const (
	// MaxTail is how much of a transcript is read, from its end, in bytes.
	MaxTail = 64 << 20
	// MaxLine is the maximum length of a line, in bytes.
	MaxLine = 8 << 20
	// MaxPath is the maximum length of a path that an event may name, in bytes.
	MaxPath = 4096
	// MaxSubagents is how many transcripts of the subagents of a conversation are read, and maxLooked
	// how many files are looked at to find them.
	MaxSubagents, maxLooked = 256, 4096
)

// Reading is what was read of a transcript.
type Reading struct {
	Cut     bool // it has more before what was read
	Garbage int  // lines that are not understood
}

// Read calls line, which may keep its argument, for each line at the end of the file at path, which an
// agent has named. The file must be below folder, a regular file of this user's, and is reached
// without links. An error of line means that the line is not understood. A line that has no end yet
// need not be.
func Read(ctx context.Context, folder, path string, line func([]byte) error) (r Reading, err error) {
	f, err := Open(folder, path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return r, err
	}
	from := max(0, size-MaxTail)
	if _, err = f.Seek(from, io.SeekStart); err != nil {
		return r, err
	}
	in := bufio.NewReaderSize(io.LimitReader(f, MaxTail), 64<<10)
	if r.Cut = from > 0; r.Cut {
		_, _, err = nextLine(in)
	}
	for err == nil && ctx.Err() == nil {
		var text []byte
		var long bool
		text, long, err = nextLine(in)
		if len(text) > 0 && (long || line(text) != nil) && err == nil {
			r.Garbage++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return r, errors.Join(err, context.Cause(ctx))
}

// nextLine returns the next line without its end, and whether it is longer than is read. The
// error of a line without an end is io.EOF.
func nextLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > MaxLine; !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), long, err
		}
	}
}

var (
	errElsewhere = errors.New("it is not in the agent's folder")
	errForeign   = errors.New("it belongs to another user")

	errTooManyFiles = fmt.Errorf("there are more than %d of subagents", MaxSubagents)
)

// Below returns the transcripts of a conversation's subagents, which are in a folder
// beside its own: below, and also in folders there. It leaves out those that were last written before
// since, and returns an error if there may be more.
func Below(ctx context.Context, folder, below string, since time.Time) (paths []string, err error) {
	dir, start, err := within(folder, below)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	err = Walk(ctx, dir, start, maxLooked, AnyFolder, func(name string, info beneath.Info) bool {
		if isJournal := path.Base(name) == "journal.jsonl"; !info.IsDir() && strings.HasSuffix(name, ".jsonl") && !isJournal && !time.Unix(info.Mtime.Unix()).Before(since) {
			paths = append(paths, folder+"/"+name)
		}
		return len(paths) <= MaxSubagents
	})
	if len(paths) > MaxSubagents {
		paths, err = paths[:MaxSubagents], errTooManyFiles
	}
	return paths, err
}

// AnyFolder has [Walk] enter all folders.
func AnyFolder(string) bool { return true }

// Walk calls visit for what is in the folder start below dir, and in the folders there that enter
// reports true of, until visit reports false. name is a path below dir. No more than max names are
// read, since there may be more than there is memory or time for. The error is the first;
// errTooManyFiles if there are more.
func Walk(ctx context.Context, dir *beneath.Dir, start string, max int, enter func(name string) bool, visit func(name string, info beneath.Info) (more bool)) (err error) {
	for folders := []string{start}; len(folders) > 0; folders = folders[1:] {
		at, failed := dir.Dir(folders[0])
		if errors.Is(failed, fs.ErrNotExist) {
			continue
		}
		if failed != nil {
			err = cmp.Or(err, failed)
			continue
		}
		names, all, failed := at.Names(max)
		err = cmp.Or(err, failed)
		slices.Sort(names)
		for _, base := range names {
			info, failed := at.Lstat(base)
			if failed != nil {
				err = cmp.Or(err, failed)
				continue
			}
			name := path.Join(folders[0], base)
			if err = cmp.Or(err, context.Cause(ctx)); ctx.Err() != nil || !visit(name, info) {
				_ = at.Close() // nothing was written, here and below
				return err
			}
			if info.IsDir() && enter(name) {
				folders = append(folders, name)
			}
		}
		_ = at.Close()
		if failed == nil && !all {
			return cmp.Or(err, errTooManyFiles)
		}
		max -= len(names)
	}
	return err
}

// Open opens the file at path, which must be below folder, a regular file of this user's, and is reached
// without links there.
func Open(folder, path string) (*os.File, error) {
	dir, name, err := within(folder, path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, info, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	if info.UID != uint32(os.Geteuid()) {
		_ = f.Close() // nothing was written
		return nil, errForeign
	}
	return f, nil
}

// within opens folder, and returns the name in it of path, which must be below it.
func within(folder, path string) (*beneath.Dir, string, error) {
	name, top, err := NameIn(folder, path)
	if err != nil {
		return nil, "", err
	}
	dir, err := beneath.Open(top)
	return dir, name, err
}

// NameIn returns the name of path in folder, and where that is: it may be reached by links of its
// user's.
func NameIn(folder, path string) (name, top string, err error) {
	top, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return "", "", err
	}
	name, below := strings.CutPrefix(path, folder+"/")
	if !below {
		name, below = strings.CutPrefix(path, top+"/")
	}
	if !below || len(path) > MaxPath || !beneath.IsValid(name) {
		return "", "", errElsewhere
	}
	return name, top, nil
}
