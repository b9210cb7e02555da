package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// HeadFile is the name of the file in a log's folder that contains its Head.
const HeadFile = "head"

const segmentSuffix = ".jsonl"

// SegmentName returns the file name of the nth segment of a log, counted from 1.
func SegmentName(n uint64) string { return fmt.Sprintf("%06d%s", n, segmentSuffix) }

// SegmentNumber is the inverse of SegmentName. It returns 0 for any other name.
func SegmentNumber(name string) uint64 {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || SegmentName(n) != name {
		return 0
	}
	return n
}

// Segments returns the numbers of the segments in dir in ascending order.
func Segments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []uint64
	for _, entry := range entries {
		if n := SegmentNumber(entry.Name()); n > 0 {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, cmp.Compare)
	return found, nil
}

// OpenFile opens a file of a log like [os.OpenFile]; a new file is accessible to its
// owner only. Anyone who can write to the folder can put anything there under such a
// name, so OpenFile follows no link, opens regular files only, and does not block on a
// named pipe.
func OpenFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	// ELOOP: a link. ENXIO: a pipe without a reader, or a socket.
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return nil, notRegular(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path)
	}
	if err != nil {
		// Nothing was written, so closing can't lose data.
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func notRegular(path string) error {
	return fmt.Errorf("%s is not a regular file; move it away", path)
}

// Head is the position of the end of a log. Kept outside of the log, it shows that
// records at the end are missing, which the chain alone can't.
type Head struct {
	Log string `json:"log"`    // random id of the log
	Seq uint64 `json:"seq"`    // of the last known record
	Sum string `json:"sha256"` // hex SHA-256 of that record's line
}

// headLen is the length of every head file, so that a single write replaces all of it.
const headLen = 160

// Line returns the content of a head file: one JSON object, padded to a fixed length, and
// a newline.
func (h Head) Line() []byte {
	line := fmt.Appendf(nil, `{"log":%q,"seq":%d,"sha256":%q}`, h.Log, h.Seq, h.Sum)
	return fmt.Appendf(nil, "%-*s\n", headLen-1, line)
}

// ParseHead parses the content of a head file.
func ParseHead(content []byte) (Head, error) {
	var h Head
	text := strings.TrimRight(string(content), " \n")
	_, err := fmt.Sscanf(text, `{"log":%q,"seq":%d,"sha256":%q}`, &h.Log, &h.Seq, &h.Sum)
	if err != nil || string(h.Line()) != string(content) {
		return Head{}, errors.New("is not the head of a log")
	}
	return h, nil
}

// ParseHeads parses a file of consecutive heads, as kept where someone who can change the
// log can't reach it. Lines in errors are counted from 1.
func ParseHeads(content []byte) ([]Head, error) {
	var heads []Head
	for len(content) > 0 {
		line := content[:min(headLen, len(content))]
		h, err := ParseHead(line)
		if err != nil {
			return nil, fmt.Errorf("line %d %w", len(heads)+1, err)
		}
		heads, content = append(heads, h), content[len(line):]
	}
	return heads, nil
}

// ReadHead reads the head file of the log in dir. It returns nil without an error if
// there is none.
func ReadHead(dir string) (*Head, error) {
	path := filepath.Join(dir, HeadFile)
	f, err := OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Closing a file that was only read can't lose data.
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, headLen+1))
	if err != nil {
		return nil, err
	}
	h, err := ParseHead(content)
	if err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return &h, nil
}
