package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// Head says how far a log goes. Kept outside of the log, it shows that a tail
// is gone, which the chain alone can't.
type Head struct {
	Log string // random id of the log
	Seq uint64 // of the last record known to it
	Sum string // hex SHA-256 of that record's line
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
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := ParseHead(content)
	if err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return &h, nil
}
