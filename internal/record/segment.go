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

// HeadFile is the name of the file in a log's folder that says how far the log
// goes.
const HeadFile = "head"

const segmentSuffix = ".jsonl"

// SegmentName returns the file name of the nth segment of a log; n counts from 1.
func SegmentName(n uint64) string { return fmt.Sprintf("%06d%s", n, segmentSuffix) }

// SegmentNumber is the reverse of SegmentName, 0 for the name of another file.
func SegmentNumber(name string) uint64 {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || SegmentName(n) != name {
		return 0
	}
	return n
}

// Segments returns the numbers of the segments in dir, lowest first.
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

// OpenFile opens a file of a log as [os.OpenFile] does, for its owner only if it
// is made. Who can write to the folder can put anything there under such a name:
// no link is followed, nothing but a regular file is opened, and a named pipe does
// not make the caller wait for its other end.
func OpenFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	// A link; and a pipe that nobody reads, or a socket.
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
		// Nothing was written, so there is nothing that closing could lose.
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func notRegular(path string) error {
	return fmt.Errorf("%s is not a regular file; move it away", path)
}

// Head says how far a log goes. Kept outside of the log, it shows that a tail
// is gone, which the chain alone can't.
type Head struct {
	Log string `json:"log"`    // random id of the log
	Seq uint64 `json:"seq"`    // of the last record known to it
	Sum string `json:"sha256"` // hex SHA-256 of that record's line
}

// headLen is the length of every head file, so that one write replaces all of it.
const headLen = 160

// Line returns the content of a head file: one JSON object, padded to a fixed
// length, and a newline.
func (h Head) Line() []byte {
	line := fmt.Appendf(nil, `{"log":%q,"seq":%d,"sha256":%q}`, h.Log, h.Seq, h.Sum)
	return fmt.Appendf(nil, "%-*s\n", headLen-1, line)
}

// ParseHead reads the content of a head file.
func ParseHead(content []byte) (Head, error) {
	var h Head
	text := strings.TrimRight(string(content), " \n")
	_, err := fmt.Sscanf(text, `{"log":%q,"seq":%d,"sha256":%q}`, &h.Log, &h.Seq, &h.Sum)
	if err != nil || string(h.Line()) != string(content) {
		return Head{}, errors.New("is not the head of a log")
	}
	return h, nil
}

// ParseHeads reads a file to which heads were written one after the other, as it
// is kept where whoever can change the log can't reach. Line is counted from 1.
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

// ReadHead reads the head file of the log in dir; nil without an error when
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
	// Closing a file that was only read can't lose anything.
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
