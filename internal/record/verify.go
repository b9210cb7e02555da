package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// VerifyOptions says what else a log is held against. The zero value is good.
type VerifyOptions struct {
	// Heads are what the log must contain, as kept outside of it. A folder is
	// held against its own head file as well.
	Heads []Head
	// Each is called for every record found good, in order. The entry is valid
	// during the call. An error ends Verify and is returned by it.
	Each func(seq uint64, e Entry) error
}

// Report is what Verify found.
type Report struct {
	Log      string    `json:"log"`   // id of the log
	First    uint64    `json:"first"` // seq of the first record that is there, 0 when there is none
	Last     Head      `json:"last"`  // the last good record
	From     time.Time `json:"-"`
	Until    time.Time `json:"-"`
	Retired  uint64    `json:"retired"` // records before First that the log says it dropped
	Segments int       `json:"segments"`
	Records  uint64    `json:"records"`
	Values   uint64    `json:"values"`         // lines of values that are there and right
	Dropped  uint64    `json:"values_dropped"` // records whose line of values is not there, which is allowed
	Gaps     uint64    `json:"gaps"`           // records of kind gap: the log says itself that something is missing
	Headed   bool      `json:"head_reached"`   // a head was there, and the log reaches at least as far
	Torn     int64     `json:"torn_bytes"`     // bytes behind the last record that a writer may be busy with
	Bad      *Bad      `json:"bad"`            // the first thing that is wrong; nothing after it was looked at
}

// Bad names a record that is not as it was written.
type Bad struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // in File
	Seq    uint64 `json:"record"` // of the record, or of the one that should stand there
	What   string `json:"what"`   // what is wrong with it, following the words "record N"
}

// Error names file, byte and record, and says what is wrong.
func (b *Bad) Error() string {
	return fmt.Sprintf("%s: byte %d: record %d %s", b.File, b.Offset, b.Seq, b.What)
}

// Verify reads a log whole and reports whether every record is as it was
// written. Each path is a folder with a log, or a segment; segments are of one
// log and in order. A folder must hold its log from the first record on, or from
// where the log itself says that what stood before was dropped. The error is of
// reading only: what is wrong with the log is in Report.Bad.
//
// It may run while the log is written to.
func Verify(paths []string, o VerifyOptions) (Report, error) {
	v := newVerifier(o)
	var files []string
	for _, path := range paths {
		more, err := v.expand(path)
		if err != nil {
			return Report{}, fmt.Errorf("verify audit log: %w", err)
		}
		files = append(files, more...)
	}
	for i, path := range files {
		if err := v.open(path, i == len(files)-1); err != nil {
			return v.report, fmt.Errorf("verify audit log: %w", err)
		}
		if v.report.Bad != nil {
			break
		}
	}
	v.end()
	return v.report, nil
}

func newVerifier(o VerifyOptions) *verifier {
	v := &verifier{each: o.Each, heads: map[uint64][]Head{}}
	for _, head := range o.Heads {
		v.heads[head.Seq] = append(v.heads[head.Seq], head)
	}
	return v
}

// expand returns the segments that path stands for. The head of a folder is
// read before its segments are listed: a log that is written to meanwhile goes
// further than its head, never less far.
func (v *verifier) expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		v.whole = v.whole || filepath.Base(path) == SegmentName(1)
		return []string{path}, nil
	}
	v.whole = true
	head, err := ReadHead(path)
	if err != nil {
		return nil, err
	}
	if head != nil {
		v.heads[head.Seq] = append(v.heads[head.Seq], *head)
		v.near = head
	}
	numbers, err := Segments(path)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 && head == nil {
		return nil, fmt.Errorf("there is no log in %s", path)
	}
	v.name = path // what is missing is missing here
	var files []string
	for _, n := range numbers {
		files = append(files, filepath.Join(path, SegmentName(n)))
	}
	return files, nil
}

func (v *verifier) open(path string, last bool) error {
	open := os.Open
	if SegmentNumber(filepath.Base(path)) > 0 { // else it is what a person has named, be it a pipe
		open = func(path string) (*os.File, error) { return OpenFile(path, os.O_RDONLY) }
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	// Closing a file that was only read can't lose anything.
	defer func() { _ = f.Close() }()
	return v.segment(path, f, last)
}

// segment reads one segment to its end or to the first thing that is wrong.
func (v *verifier) segment(name string, r io.Reader, last bool) error {
	v.name, v.past, v.opening = name, 0, true
	v.bare = false // values stand in the segment of their record
	v.report.Segments++
	entries := NewReader(r, 0)
	for {
		e, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, ErrTorn):
			v.torn(e, last)
			return nil
		case errors.Is(err, ErrTooLong):
			v.bad(v.past, v.due(nil), "is longer than any record")
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := v.entry(e); err != nil {
			return err
		}
		if v.report.Bad != nil {
			v.behind(e, entries)
			return nil
		}
	}
}

// behind corrects which record is named bad when that is the first that was looked
// at and is damaged, so that it may not tell: the one behind it knows.
func (v *verifier) behind(damaged Entry, entries *Reader) {
	if v.report.Bad == nil || v.placed() || sealed(damaged.Line) == nil {
		return
	}
	// A line end that is damaged makes two records one.
	records := uint64(max(1, bytes.Count(damaged.Line, []byte(`,"crc":"`))))
	next, err := entries.Next()
	if err != nil || sealed(next.Line) != nil {
		return
	}
	if h, ok := readHeader(next.Line); ok && h.seq > records {
		v.report.Bad.Seq = h.seq - records
	}
}

// verifier is the state of one Verify.
type verifier struct {
	each  func(uint64, Entry) error
	heads map[uint64][]Head // what the log must contain, by seq
	near  *Head             // the head file of the folder

	report  Report
	chain   Chain
	name    string // of the segment
	past    int64  // where the last good entry of the segment ends
	whole   bool   // the log must begin with its first record
	opening bool   // at the start of a segment
	before  Chain  // where the log stood before the first record that is there
	gone    *Bad   // what is wrong unless the log says that it dropped what stood before
	bare    bool   // the last record names values that are not there
	until   []byte // the time of the last good record, as written
}

// header is what chains a record to the others.
type header struct {
	version, seq          uint64
	time, prev, kind, log []byte
}

func (v *verifier) bad(offset int64, seq uint64, format string, args ...any) {
	v.report.Bad = &Bad{File: v.name, Offset: offset, Seq: seq, What: fmt.Sprintf(format, args...)}
}

// due returns the seq of the record that should come next. In the middle of a
// log of which nothing was seen yet, it is what the line says.
func (v *verifier) due(line []byte) uint64 {
	if v.placed() {
		return v.chain.Seq + 1
	}
	h, _ := readHeader(line)
	return h.seq
}

// placed reports whether it is known which record should come next: that some were
// seen, or that it is the very first of the log.
func (v *verifier) placed() bool {
	return v.report.Records > 0 || v.whole && filepath.Base(v.name) == SegmentName(1)
}

// entry holds one entry against what came before.
func (v *verifier) entry(e Entry) error {
	if err := sealed(e.Line); err != nil {
		v.unsealed(e, err)
		return nil
	}
	h, ok := readHeader(e.Line)
	switch {
	case !ok || !sound(e.Line):
		v.bad(e.Offset, v.due(e.Line), "is not as a record is written")
	case h.version != Version:
		v.bad(e.Offset, v.due(e.Line), "is of version %d, and only version %d is known", h.version, Version)
	case v.opening && string(h.kind) != string(KindLog) && v.placed() && h.seq != v.chain.Seq+1:
		v.bad(e.Offset, v.chain.Seq+1, "is missing: record %d stands in its place", h.seq)
	case v.opening && string(h.kind) != string(KindLog):
		v.bad(e.Offset, h.seq, "can't be the first of a segment: what stood before it is missing")
	default:
		v.linked(e, h)
	}
	if v.report.Bad == nil {
		v.values(e, h)
	}
	if v.report.Bad != nil {
		return nil
	}
	v.accept(e, h)
	if v.each != nil && v.report.Bad == nil {
		return v.each(h.seq, e)
	}
	return nil
}

// unsealed names a line that is no record. A line behind a record whose values
// are missing is taken for these, unless it looks like a record.
func (v *verifier) unsealed(e Entry, err error) {
	switch {
	case bytes.HasPrefix(e.Line, valuesPrefix):
		v.bad(e.Offset, v.chain.Seq, "is followed by values that are not its own")
	case v.bare && !recordLike(e.Line):
		v.bad(e.Offset, v.chain.Seq, "has values that are damaged")
	default:
		v.bad(e.Offset, v.due(e.Line), "%s", err)
	}
}

// recordLike reports whether a line that is no record may have been one: it has the
// beginning, the second name or the end of one. Who flips a bit leaves two of them.
func recordLike(line []byte) bool {
	return bytes.HasPrefix(line, recordPrefix) || bytes.Contains(line[:min(len(line), 32)], []byte(`"seq"`)) ||
		len(line) > sealLen && bytes.HasPrefix(line[len(line)-sealLen:], []byte(`,"crc":"`))
}

// linked checks that h follows on what came before.
func (v *verifier) linked(e Entry, h header) {
	switch {
	case v.report.Records == 0 && h.seq > 1 && v.placed():
		v.bad(e.Offset, 1, "is missing: record %d stands in its place", h.seq)
	case v.report.Records == 0 && h.seq > 1:
		// The log is looked at from here on. When all of it was to be seen, it must
		// say itself that it dropped what came before.
		v.before = Chain{Seq: h.seq - 1, Sum: string(h.prev)}
		if v.whole {
			v.gone = &Bad{File: v.name, Offset: e.Offset, Seq: 1, What: fmt.Sprintf("is missing: record %d stands in its place", h.seq)}
		}
	case h.seq > v.chain.Seq+1:
		v.bad(e.Offset, v.chain.Seq+1, "is missing: record %d stands in its place", h.seq)
	case h.seq <= v.chain.Seq:
		v.bad(e.Offset, v.chain.Seq+1, "is missing: record %d stands in its place, again", h.seq)
	case string(h.prev) != v.chain.Sum && v.chain.Seq == 0:
		v.bad(e.Offset, h.seq, "says that one came before it")
	case string(h.prev) != v.chain.Sum:
		v.bad(e.Offset, v.chain.Seq, "is not the one that record %d was written behind", h.seq)
	}
	if v.report.Bad != nil || !v.opening {
		return
	}
	id := string(h.log)
	if id == "" || v.report.Log != "" && id != v.report.Log {
		v.bad(e.Offset, h.seq, "belongs to another log (%q)", id)
	}
	for _, heads := range v.heads {
		for _, head := range heads {
			if v.report.Bad == nil && head.Log != id {
				v.bad(e.Offset, h.seq, "belongs to the log %q, and %q is expected", id, head.Log)
			}
		}
	}
	v.report.Log = id
	if v.report.Bad == nil && v.report.Records == 0 {
		v.meet(e.Offset, v.before)
	}
}

// meet holds a point of the log against the heads that name it.
func (v *verifier) meet(offset int64, at Chain) {
	for _, head := range v.heads[at.Seq] {
		if head.Sum != at.Sum && at.Seq > 0 {
			v.bad(offset, at.Seq, "is not the one that the head of the log names")
			return
		}
	}
}

// dropped takes in a record of kind dropped: what it names need not be there.
func (v *verifier) dropped(e Entry) {
	r, err := Parse(e.Line)
	if err == nil && r.Through == v.before.Seq && r.Digest == v.before.Sum {
		v.gone, v.report.Retired = nil, r.Through
	}
}

// values checks the line of values against the digest that its record names.
func (v *verifier) values(e Entry, h header) {
	v.bare = false
	want := declared(e.Line)
	switch {
	case e.Values == nil:
		v.bare = want != nil
		return
	case want == nil || !belongs(e.Values, h.seq):
		v.bad(e.Offset, h.seq, "is followed by values that are not its own")
		return
	}
	if sumOf(e.Values) != string(want) {
		v.bad(e.Offset, h.seq, "has values that were changed")
	}
}

// accept moves on behind a good record.
func (v *verifier) accept(e Entry, h header) {
	v.chain = Chain{Seq: h.seq, Sum: sumOf(e.Line)}
	if v.meet(e.Offset, v.chain); v.report.Bad != nil {
		return
	}
	r := &v.report
	if r.Records == 0 {
		r.First, r.From = h.seq, timeOf(h.time)
	}
	v.until = append(v.until[:0], h.time...)
	r.Records++
	switch Kind(h.kind) {
	case KindGap:
		r.Gaps++
	case KindDropped:
		v.dropped(e)
	}
	if e.Values != nil {
		r.Values++
	}
	if v.bare {
		r.Dropped++
	}
	v.past, v.opening = e.Offset+e.Size(), false
}

// timeOf reads the time of a record, the zero time if it is none: it is shown,
// and nothing hangs on it.
func timeOf(text []byte) time.Time {
	at, err := time.Parse(timeLayout, string(text))
	if err != nil {
		return time.Time{}
	}
	return at
}

// torn judges bytes without a newline at the end of a segment. At the end of
// the log, past what its head vouches for, a writer may be busy with them.
func (v *verifier) torn(e Entry, last bool) {
	vouched := v.near == nil || v.chain.Seq < v.near.Seq || v.chain.Seq == v.near.Seq && v.bare
	if last && !vouched {
		v.report.Torn = int64(len(e.Line))
		return
	}
	if v.bare && (bytes.HasPrefix(e.Line, valuesPrefix) || bytes.HasPrefix(valuesPrefix, e.Line)) {
		v.bad(e.Offset, v.chain.Seq, "has values that are cut off")
		return
	}
	v.bad(e.Offset, v.due(e.Line), "is cut off")
}

// end completes the report, and checks what can be checked only when all has
// been read.
func (v *verifier) end() {
	v.report.Until = timeOf(v.until)
	v.report.Last = Head{Log: v.report.Log, Seq: v.chain.Seq, Sum: v.chain.Sum}
	if v.report.Bad == nil {
		v.report.Bad = v.gone
	}
	if v.report.Bad != nil {
		return
	}
	if last := slices.Max(append(slices.Collect(maps.Keys(v.heads)), 0)); v.chain.Seq < last {
		v.bad(v.past, v.chain.Seq+1, "is missing, and all up to record %d: the end of the log is gone", last)
		return
	}
	v.report.Headed = len(v.heads) > 0
}

// readHeader reads the members at the start of a record.
func readHeader(line []byte) (header, bool) {
	var h header
	c := cursor{line: line, at: 1}
	for _, name := range []string{"v", "seq", "time", "prev", "kind"} {
		if !c.next() || string(c.name) != name {
			return h, false
		}
		switch name {
		case "v":
			h.version = c.number()
		case "seq":
			h.seq = c.number()
		case "time":
			h.time = c.raw()
		case "prev":
			h.prev = c.raw()
		case "kind":
			h.kind = c.raw()
		}
	}
	if string(h.kind) == string(KindLog) && c.next() && string(c.name) == "log" {
		h.log = c.raw()
	}
	return h, c.err == nil
}

// raw returns what stands between the quotes of the next string.
func (c *cursor) raw() []byte {
	quoted := c.quoted()
	if len(quoted) < 2 {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}
