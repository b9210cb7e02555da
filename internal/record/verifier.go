package record

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

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
