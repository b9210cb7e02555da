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

// VerifyOptions configures Verify. The zero value is valid.
type VerifyOptions struct {
	// Heads are heads kept outside of the log that the log must contain. A folder is also
	// compared with its own head file.
	Heads []Head
	// Each is called for every valid record, in order. The entry is valid during the
	// call. If Each returns an error, Verify stops and returns it.
	Each func(seq uint64, e Entry) error
}

// Report is the result of Verify.
type Report struct {
	Log      string    `json:"log"`   // id of the log
	First    uint64    `json:"first"` // seq of the first record present; 0 if there is none
	Last     Head      `json:"last"`  // the last valid record
	From     time.Time `json:"-"`
	Until    time.Time `json:"-"`
	Retired  uint64    `json:"retired"` // records before First that the log says it dropped
	Segments int       `json:"segments"`
	Records  uint64    `json:"records"`
	Values   uint64    `json:"values"`         // values lines that are present and correct
	Dropped  uint64    `json:"values_dropped"` // records whose values line is absent, which is allowed
	Gaps     uint64    `json:"gaps"`           // records of kind gap, which report that something is missing
	Headed   bool      `json:"head_reached"`   // there was a head, and the log reaches it
	Torn     int64     `json:"torn_bytes"`     // bytes after the last record that a writer may still be writing
	Bad      *Bad      `json:"bad"`            // the first fault; nothing after it was checked
}

// Bad describes a record that is not as it was written.
type Bad struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // in File
	Seq    uint64 `json:"record"` // of the record, or of the missing one
	What   string `json:"what"`   // the fault, to be read after the words "record N"
}

// Error returns the file, byte, record and fault.
func (b *Bad) Error() string {
	return fmt.Sprintf("%s: byte %d: record %d %s", b.File, b.Offset, b.Seq, b.What)
}

// Verify reads a whole log and reports whether every record is as it was written. Each
// path is a folder that contains a log, or a segment; segments must be of one log and in
// order. A folder must contain its log from the first record on, or from where the log
// itself says that earlier records were dropped. Errors are about reading only; a fault
// of the log is in Report.Bad.
//
// Verify may run while the log is being written.
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

// expand returns the segments for path. It reads the head of a folder before it lists the
// segments: a log that is written meanwhile can only be longer than its head says.
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
		return nil, fmt.Errorf("no log in %s", path)
	}
	v.name = path // missing records are reported for the folder
	var files []string
	for _, n := range numbers {
		files = append(files, filepath.Join(path, SegmentName(n)))
	}
	return files, nil
}

func (v *verifier) open(path string, last bool) error {
	open := os.Open
	if SegmentNumber(filepath.Base(path)) > 0 { // otherwise a person named the file, which may be a pipe
		open = func(path string) (*os.File, error) { return OpenFile(path, os.O_RDONLY) }
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	// Closing a file that was only read can't lose data.
	defer func() { _ = f.Close() }()
	return v.segment(path, f, last)
}

// segment reads one segment up to its end or the first fault.
func (v *verifier) segment(name string, r io.Reader, last bool) error {
	v.name, v.past, v.opening = name, 0, true
	v.bare = false // values are in the segment of their record
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

// behind corrects the seq of the bad record if the first record read is damaged and its
// own seq can't be trusted. The record after it tells the seq.
func (v *verifier) behind(damaged Entry, entries *Reader) {
	if v.report.Bad == nil || v.placed() || sealed(damaged.Line) == nil {
		return
	}
	// A damaged line end joins two records.
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
	past    int64  // end of the last valid entry of the segment
	whole   bool   // the log must begin with its first record
	opening bool   // at the start of a segment
	before  Chain  // the Chain before the first record present
	gone    *Bad   // the fault to report unless the log says that it dropped the earlier records
	bare    bool   // the last record names values that are absent
	until   []byte // time of the last valid record, as written
}

// header is the part of a record that chains it to the others.
type header struct {
	version, seq          uint64
	time, prev, kind, log []byte
}

func (v *verifier) bad(offset int64, seq uint64, format string, args ...any) {
	v.report.Bad = &Bad{File: v.name, Offset: offset, Seq: seq, What: fmt.Sprintf(format, args...)}
}

// due returns the seq of the record expected next. If nothing was read yet in the middle
// of a log, it is the seq in line.
func (v *verifier) due(line []byte) uint64 {
	if v.placed() {
		return v.chain.Seq + 1
	}
	h, _ := readHeader(line)
	return h.seq
}

// placed reports whether the next seq is known: records were read already, or the next
// record is the first of the log.
func (v *verifier) placed() bool {
	return v.report.Records > 0 || v.whole && filepath.Base(v.name) == SegmentName(1)
}

// entry checks one entry against the previous ones.
func (v *verifier) entry(e Entry) error {
	if err := sealed(e.Line); err != nil {
		v.unsealed(e, err)
		return nil
	}
	h, ok := readHeader(e.Line)
	switch {
	case !ok || !sound(e.Line):
		v.bad(e.Offset, v.due(e.Line), "does not have the form of a record")
	case h.version != Version:
		v.bad(e.Offset, v.due(e.Line), "has version %d; only version %d is supported", h.version, Version)
	case v.opening && string(h.kind) != string(KindLog) && v.placed() && h.seq != v.chain.Seq+1:
		v.bad(e.Offset, v.chain.Seq+1, "is missing: record %d is in its place", h.seq)
	case v.opening && string(h.kind) != string(KindLog):
		v.bad(e.Offset, h.seq, "can't be the first of a segment: the records before it are missing")
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

// unsealed reports a line that is not a record. After a record whose values are missing,
// the line is taken for these values unless it looks like a record.
func (v *verifier) unsealed(e Entry, err error) {
	switch {
	case bytes.HasPrefix(e.Line, valuesPrefix):
		v.bad(e.Offset, v.chain.Seq, "is followed by the values of another record")
	case v.bare && !recordLike(e.Line):
		v.bad(e.Offset, v.chain.Seq, "has corrupt values")
	default:
		v.bad(e.Offset, v.due(e.Line), "%s", err)
	}
}

// recordLike reports whether a line that is not a record may have been one: it has the
// beginning, the second name or the end of one. A flipped bit leaves two of these intact.
func recordLike(line []byte) bool {
	return bytes.HasPrefix(line, recordPrefix) || bytes.Contains(line[:min(len(line), 32)], []byte(`"seq"`)) ||
		len(line) > sealLen && bytes.HasPrefix(line[len(line)-sealLen:], []byte(`,"crc":"`))
}

// linked checks that h continues the chain.
func (v *verifier) linked(e Entry, h header) {
	switch {
	case v.report.Records == 0 && h.seq > 1 && v.placed():
		v.bad(e.Offset, 1, "is missing: record %d is in its place", h.seq)
	case v.report.Records == 0 && h.seq > 1:
		// Verification starts at this record. If the log must be whole, it must itself
		// say that it dropped the earlier records.
		v.before = Chain{Seq: h.seq - 1, Sum: string(h.prev)}
		if v.whole {
			v.gone = &Bad{File: v.name, Offset: e.Offset, Seq: 1, What: fmt.Sprintf("is missing: record %d is in its place", h.seq)}
		}
	case h.seq > v.chain.Seq+1:
		v.bad(e.Offset, v.chain.Seq+1, "is missing: record %d is in its place", h.seq)
	case h.seq <= v.chain.Seq:
		v.bad(e.Offset, v.chain.Seq+1, "is missing: record %d is in its place again", h.seq)
	case string(h.prev) != v.chain.Sum && v.chain.Seq == 0:
		v.bad(e.Offset, h.seq, "names a previous record, but there is none")
	case string(h.prev) != v.chain.Sum:
		v.bad(e.Offset, v.chain.Seq, "is not the record that precedes record %d", h.seq)
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
				v.bad(e.Offset, h.seq, "belongs to the log %q, expected %q", id, head.Log)
			}
		}
	}
	v.report.Log = id
	if v.report.Bad == nil && v.report.Records == 0 {
		v.meet(e.Offset, v.before)
	}
}

// meet compares a position of the log with the heads for that seq.
func (v *verifier) meet(offset int64, at Chain) {
	for _, head := range v.heads[at.Seq] {
		if head.Sum != at.Sum && at.Seq > 0 {
			v.bad(offset, at.Seq, "does not match the head of the log")
			return
		}
	}
}

// dropped handles a record of kind dropped: the records it names may be absent.
func (v *verifier) dropped(e Entry) {
	r, err := Parse(e.Line)
	if err == nil && r.Through == v.before.Seq && r.Digest == v.before.Sum {
		v.gone, v.report.Retired = nil, r.Through
	}
}

// values checks the values line against the digest in its record.
func (v *verifier) values(e Entry, h header) {
	v.bare = false
	want := declared(e.Line)
	switch {
	case e.Values == nil:
		v.bare = want != nil
		return
	case want == nil || !belongs(e.Values, h.seq):
		v.bad(e.Offset, h.seq, "is followed by the values of another record")
		return
	}
	if sumOf(e.Values) != string(want) {
		v.bad(e.Offset, h.seq, "has values that were changed")
	}
}

// accept advances past a valid record.
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

// timeOf parses the time of a record. It returns the zero time for an invalid one, since
// the time is only displayed.
func timeOf(text []byte) time.Time {
	at, _ := time.Parse(timeLayout, string(text))
	return at
}

// torn judges bytes without a newline at the end of a segment. At the end of the log,
// after the record that the head names, a writer may still be writing them.
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

// end completes the report and makes the checks that need the whole log.
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
		v.bad(v.past, v.chain.Seq+1, "is missing, like all up to record %d: the end of the log is missing", last)
		return
	}
	v.report.Headed = len(v.heads) > 0
}

// readHeader decodes the members at the start of a record.
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

// raw returns the text between the quotes of the next string.
func (c *cursor) raw() []byte {
	quoted := c.quoted()
	if len(quoted) < 2 {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}
