package hook

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
	// maxTail is how much of a transcript is read, from its end, in bytes. maxLine is the maximum
	// length of a line.
	maxTail = 64 << 20
	maxLine = 8 << 20
	// maxPath is the maximum length of a path that an event may name.
	maxPath = 4096
	// maxSubagents is how many transcripts of the subagents of a conversation are read, and maxLooked
	// how many files are looked at to find them.
	maxSubagents, maxLooked = 256, 4096
)

// reading is what was read of a transcript.
type reading struct {
	cut     bool // it has more before what was read
	garbage int  // lines that are not understood
}

// readTranscript calls line for each line at the end of the file at path, which an agent has
// named. The file must be below folder, a regular file of this user's, and is reached without
// links. An error of line means that the line is not understood. A line that has no end yet need
// not be.
func readTranscript(ctx context.Context, folder, path string, line func([]byte) error) (r reading, err error) {
	f, err := openTranscript(folder, path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return r, err
	}
	from := max(0, size-maxTail)
	if _, err = f.Seek(from, io.SeekStart); err != nil {
		return r, err
	}
	in := bufio.NewReaderSize(io.LimitReader(f, maxTail), 64<<10)
	if r.cut = from > 0; r.cut {
		_, _, err = nextLine(in)
	}
	for err == nil && ctx.Err() == nil {
		var text []byte
		var long bool
		text, long, err = nextLine(in)
		if len(text) > 0 && (long || line(text) != nil) && err == nil {
			r.garbage++
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
		if long = long || len(line)+len(part) > maxLine; !long {
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

	errTooManyFiles = fmt.Errorf("there are more than %d of subagents", maxSubagents)
)

// transcriptsBelow returns the transcripts of a conversation's subagents, which are in a folder
// beside its own: below, and also in folders there. It leaves out those that were last written before
// since, and returns an error if there may be more.
func transcriptsBelow(ctx context.Context, folder, below string, since time.Time) (paths []string, err error) {
	dir, start, err := within(folder, below)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	err = walk(ctx, dir, start, maxLooked, func(name string, info beneath.Info) bool {
		if isJournal := path.Base(name) == "journal.jsonl"; !info.IsDir() && strings.HasSuffix(name, ".jsonl") && !isJournal && !time.Unix(info.Mtime.Unix()).Before(since) {
			paths = append(paths, folder+"/"+name)
		}
		return len(paths) <= maxSubagents
	})
	if len(paths) > maxSubagents {
		paths, err = paths[:maxSubagents], errTooManyFiles
	}
	return paths, err
}

// walk calls visit for what is in the folder start below dir, and in the folders there, until visit
// reports false. name is a path below dir. No more than max names are read, since there may be more
// than there is memory or time for. The error is the first; errTooManyFiles if there are more.
func walk(ctx context.Context, dir *beneath.Dir, start string, max int, visit func(name string, info beneath.Info) (more bool)) (err error) {
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
			if info.IsDir() {
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

// openTranscript opens the file at path, which must be below folder.
func openTranscript(folder, path string) (*os.File, error) {
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
	name, top, err := nameIn(folder, path)
	if err != nil {
		return nil, "", err
	}
	dir, err := beneath.Open(top)
	return dir, name, err
}

// nameIn returns the name of path in folder, and where that is: it may be reached by links of its
// user's.
func nameIn(folder, path string) (name, top string, err error) {
	top, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return "", "", err
	}
	name, below := strings.CutPrefix(path, folder+"/")
	if !below {
		name, below = strings.CutPrefix(path, top+"/")
	}
	if !below || len(path) > maxPath || !beneath.IsValid(name) {
		return "", "", errElsewhere
	}
	return name, top, nil
}

// problemOf says why a transcript may have calls that were not found; empty if it can't.
func problemOf(r reading, err error) string {
	what := ""
	switch at, _ := errors.AsType[*fs.PathError](err); {
	case errors.Is(err, fs.ErrNotExist):
		what = "transcript not found"
	case at != nil:
		what = fmt.Sprintf("transcript not read (%v)", at.Err)
	case err != nil:
		what = fmt.Sprintf("transcript not read (%v)", err)
	case r.cut:
		what = fmt.Sprintf("only the last %d MB of the transcript read", maxTail>>20)
	case r.garbage == 1:
		what = "1 line of the transcript not understood"
	case r.garbage > 1:
		what = fmt.Sprintf("%d lines of the transcript not understood", r.garbage)
	default:
		return ""
	}
	return what + ": calls that no hook reported would not be seen"
}
