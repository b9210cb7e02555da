package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// place is a point in a log.
type place struct {
	segment uint64
	offset  int64
}

// Read calls see for every record that q selects, oldest first, with the bytes
// as they are stored: line without its newline, and values, the line of values
// beside it, nil when there is none. Both are valid during the call. A line that
// is damaged has seq 0. Without Follow it ends with what is there when it is
// called; with it, when ctx or the log ends or see returns an error.
func (l *Log) Read(ctx context.Context, q Query, see func(seq uint64, line, values []byte) error) error {
	f, err := q.filter()
	if err != nil {
		return err
	}
	show := func(e record.Entry) error {
		seq, ok := f.match(e)
		if !ok {
			return nil
		}
		return see(seq, e.Line, e.Values)
	}
	at, _, _ := l.end()
	if err := l.stored(ctx, q, f, at, show); err != nil {
		return err
	}
	for q.Follow {
		end, news, open := l.end()
		if err := l.show(ctx, between(at, end), show); err != nil {
			return err
		}
		at = end
		if !open {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stored shows what q selects of the log up to end.
func (l *Log) stored(ctx context.Context, q Query, f *filter, end place, show func(record.Entry) error) error {
	numbers, err := l.numbers(end)
	if err != nil || len(numbers) == 0 {
		return err
	}
	if q.Last == 0 {
		numbers = l.since(numbers, q.From)
	}
	regions, err := l.regions(ctx, f, numbers, end)
	if err != nil {
		return err
	}
	if q.Last > 0 {
		if regions, err = l.lastHits(ctx, regions, q.Last, f); err != nil {
			return err
		}
	}
	return l.show(ctx, regions, show)
}

// show shows the entries of regions, in order.
func (l *Log) show(ctx context.Context, regions []region, show func(record.Entry) error) error {
	for _, r := range regions {
		var failure error
		err := l.visit(r, func(e record.Entry) bool {
			if failure = context.Cause(ctx); failure == nil {
				failure = show(e)
			}
			return failure == nil
		})
		if failure != nil {
			return failure
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// between returns the log from one place to another, each of them where an entry begins.
func between(from, to place) []region {
	var all []region
	for n := max(from.segment, 1); n <= to.segment; n++ {
		r := region{segment: n, from: from.offset, to: 1 << 62}
		if n == to.segment {
			r.to = to.offset
		}
		if r.from < r.to {
			all = append(all, r)
		}
		from.offset = 0
	}
	return all
}

// since leaves out the segments that end before the record from. One whose start
// can't be read is looked at from the one before.
func (l *Log) since(numbers []uint64, from uint64) []uint64 {
	first := 0
	for i, n := range numbers[1:] {
		if r, err := l.first(n); err != nil || r.Seq == 0 || from < r.Seq {
			break
		}
		first = i + 1
	}
	return numbers[first:]
}

// end returns where the log ends, and a channel that is closed when it grows or
// is closed. open is false when it is closed already.
func (l *Log) end() (at place, news <-chan struct{}, open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news == nil {
		l.news = make(chan struct{})
	}
	return place{l.segment, l.size}, l.news, !l.closed
}

// numbers returns the segments up to end.
func (l *Log) numbers(end place) ([]uint64, error) {
	numbers, err := record.Segments(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the log could not be begun yet
	}
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return slices.DeleteFunc(numbers, func(n uint64) bool { return n > end.segment }), nil
}

// first returns the first record of segment n, the zero Record where it begins with none.
func (l *Log) first(n uint64) (r record.Record, err error) {
	err = l.window(n, 0, l.chunk, func(e record.Entry) bool {
		r, _ = record.Parse(e.Line) // an error comes with the zero Record
		return false
	})
	return r, err
}

// lastHits returns where the newest entries of the regions stand that f selects, at most
// last, oldest first.
func (l *Log) lastHits(ctx context.Context, regions []region, last int, f *filter) ([]region, error) {
	var hits, some []region // newest first; and those of one chunk, oldest first
	for _, r := range slices.Backward(regions) {
		see := func(e record.Entry) {
			if _, ok := f.match(e); ok {
				some = append(some, region{segment: r.segment, from: e.Offset, to: e.Offset + e.Size()})
			}
		}
		more, err := l.backwards(r, l.chunk, see, func() bool {
			slices.Reverse(some)
			hits, some = append(hits, some...), some[:0]
			return len(hits) < last && ctx.Err() == nil
		})
		if err == nil {
			err = context.Cause(ctx)
		}
		if err = l.missing(err); err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	hits = hits[:min(last, len(hits))]
	slices.Reverse(hits)
	return hits, nil
}

// backwards reads a region from its end to its start, in chunks, of which the first has
// the given size and each other one is larger. It calls see for the entries of a chunk,
// in order, and then done, until that returns false.
func (l *Log) backwards(r region, size int64, see func(record.Entry), done func() bool) (more bool, err error) {
	if r.only {
		for _, offset := range slices.Backward(r.at) {
			err := l.entries(r.segment, offset, r.to, func(e record.Entry) bool {
				see(e)
				return false
			})
			if err != nil || !done() {
				return false, err
			}
		}
		return true, nil
	}
	for to := r.to; to > r.from; size *= 2 {
		from := max(r.from, to-size)
		start, look := to, l.window // start is where the first whole entry begins
		if from == r.from {
			start, look = from, l.entries // an entry begins there
		}
		err := look(r.segment, from, to, func(e record.Entry) bool {
			start = min(start, e.Offset)
			see(e)
			return true
		})
		if err != nil || !done() {
			return false, err
		}
		to = start
	}
	return true, nil
}

// Query selects records; what is not set selects all. Server and Tool are
// globs, the other texts are exact.
type Query struct {
	From    uint64    // seq, inclusive
	Since   time.Time // inclusive
	Until   time.Time // exclusive
	Server  string
	Tool    string
	Verdict string
	Session string
	Kind    record.Kind
	Last    int  // only the newest so many of what is selected
	Follow  bool // stay, and pass on what comes
}

// filter is a Query made ready. Most records are told apart by bytes that their
// line must hold, without being parsed.
type filter struct {
	q            Query
	needles      [][]byte
	since, until []byte // as times are written
	server, tool config.Glob
	wants        []want // the same, for the index
}

const timeLayout = "2006-01-02T15:04:05.000000Z"

func (q Query) filter() (*filter, error) {
	f := &filter{q: q}
	for _, g := range []struct {
		name, text string
		glob       *config.Glob
	}{{"server", q.Server, &f.server}, {"tool", q.Tool, &f.tool}} {
		if g.text == "" {
			continue
		}
		var err error
		if *g.glob, err = config.NewGlob(g.text); err != nil {
			return nil, fmt.Errorf("read audit log: %s: %w: %w", g.name, gate.ErrInvalid, err)
		}
		if g.glob.Literal() {
			f.need(g.name, g.text)
			*g.glob = config.Glob{}
		} else {
			f.wants = append(f.wants, want{field: g.name, match: *g.glob})
		}
	}
	f.need("kind", string(q.Kind))
	f.need("session", q.Session)
	f.need("verdict", q.Verdict)
	if !q.Since.IsZero() {
		f.since = q.Since.UTC().AppendFormat(nil, timeLayout)
	}
	if !q.Until.IsZero() {
		f.until = q.Until.UTC().AppendFormat(nil, timeLayout)
	}
	return f, nil
}

// longWord is more than what stands in any record as it is: the index knows words
// as the records have them, where long ones are cut.
const longWord = 4 << 10

// need selects records in which the member name is text; all if text is empty.
// The bytes it looks for can't stand inside a string of a record.
func (f *filter) need(name, text string) {
	if text == "" {
		return
	}
	f.needles = append(f.needles, record.AppendString([]byte(`,"`+name+`":`), text))
	if len(text) <= longWord && utf8.ValidString(text) {
		f.wants = append(f.wants, want{field: name, word: text})
	}
}

func (f *filter) globs() bool { return !f.server.IsZero() || !f.tool.IsZero() }

// match reports whether an entry is selected, and its seq. A damaged line has
// seq 0, and is selected unless the query asks for something that it can't say.
func (f *filter) match(e record.Entry) (uint64, bool) {
	seq, at, ok := record.Peek(e.Line)
	if !ok {
		return 0, len(f.needles) == 0 && !f.globs()
	}
	switch {
	case seq < f.q.From,
		f.since != nil && bytes.Compare(at, f.since) < 0,
		f.until != nil && bytes.Compare(at, f.until) >= 0:
		return seq, false
	}
	for _, needle := range f.needles {
		if !bytes.Contains(e.Line, needle) {
			return seq, false
		}
	}
	if !f.globs() {
		return seq, true
	}
	r, err := record.Parse(e.Line)
	return seq, err == nil &&
		(f.server.IsZero() || f.server.Match(r.Server)) &&
		(f.tool.IsZero() || f.tool.Match(r.Tool))
}

// region is a stretch of a segment that a query has to look at.
type region struct {
	segment  uint64
	from, to int64
	at       []int64 // offsets of the only entries that may be selected
	only     bool    // at counts
}

// regions returns what has to be looked at for f, in the order of the log.
func (l *Log) regions(ctx context.Context, f *filter, numbers []uint64, end place) ([]region, error) {
	l.mu.Lock()
	blocks := l.blocks
	l.mu.Unlock()
	var all []region
	for _, n := range numbers {
		from := int64(0)
		to, err := l.sizeAt(n, end) // none for one that was dropped meanwhile
		if err = l.missing(err); err != nil {
			return nil, err
		}
		for _, b := range blocks {
			if b.Segment != n || b.From != from || b.To > to {
				continue
			}
			from = b.To
			if !f.mayHold(b) {
				continue
			}
			if r := l.candidates(ctx, f, b); !r.only || len(r.at) > 0 {
				all = append(all, r)
			}
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
		}
		if from < to {
			all = append(all, region{segment: n, from: from, to: to})
		}
	}
	return all, nil
}

// mayHold reports whether a block may hold what f selects, by numbers and times.
func (f *filter) mayHold(b record.Block) bool {
	return b.First == 0 || // nothing could be read of it
		b.Last >= f.q.From &&
			(f.q.Since.IsZero() || !b.Until.Before(f.q.Since)) &&
			(f.q.Until.IsZero() || b.Since.Before(f.q.Until))
}

// candidates asks the index which entries of b f may select. When the index can't
// tell, all of b is looked at.
func (l *Log) candidates(ctx context.Context, f *filter, b record.Block) region {
	r := region{segment: b.Segment, from: b.From, to: b.To}
	for _, want := range f.wants {
		postings, err := l.o.Index.Find(ctx, b, want.field, want.word)
		if err != nil {
			l.o.Logger.Warn("ask the index of the audit log", "component", "audit", "err", err)
			return region{segment: b.Segment, from: b.From, to: b.To}
		}
		at, known := want.offsets(b, postings)
		switch {
		case !known:
		case !r.only:
			r.only, r.at = true, at
		default:
			r.at = slices.DeleteFunc(r.at, func(offset int64) bool {
				_, found := slices.BinarySearch(at, offset)
				return !found
			})
		}
	}
	return r
}

// want is what a member of a record must be for a query: word, or what match says.
type want struct {
	field, word string
	match       config.Glob
}

// offsets joins the places of the words that fit; not known when the words of the
// field are not kept apart.
func (w *want) offsets(b record.Block, postings []record.Posting) (at []int64, known bool) {
	for _, p := range postings {
		if p.Word == "" {
			return nil, false
		}
		if w.word == "" && !w.match.Match(p.Word) {
			continue
		}
		more, err := p.Offsets(b)
		if err != nil {
			return nil, false
		}
		at = append(at, more...)
	}
	slices.Sort(at)
	return at, true
}

// visit shows the entries of a region, in order, until see returns false. What was
// dropped meanwhile is not there.
func (l *Log) visit(r region, see func(record.Entry) bool) error {
	if !r.only {
		return l.missing(l.entries(r.segment, r.from, r.to, see))
	}
	more := true
	for _, offset := range r.at {
		err := l.missing(l.entries(r.segment, offset, r.to, func(e record.Entry) bool {
			more = see(e)
			return false
		}))
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// missing turns a segment that was dropped into one without entries.
func (l *Log) missing(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("read audit log: %w", err)
}

// recordedWithin is how far back Recorded looks for all calls, in bytes.
const recordedWithin = 4 << 20

// Recorded returns the newest record of kind call for each call of an attachment since it
// was last let go, by the number the shim gave it. It looks at the last 4 MiB of the log,
// since most calls that are open are recent, and for asked, which may have been held for
// long, as far back as it has to. What can't be read is left out; those calls are judged
// again.
func (l *Log) Recorded(attachment string, asked ...uint64) map[uint64]record.Record {
	found := l.newest(attachment, record.KindCall)
	missing := map[uint64]bool{}
	for _, call := range asked {
		if _, ok := found[call]; !ok {
			missing[call] = true
		}
	}
	if len(missing) > 0 {
		l.lookBack(attachment, 0, func(r *record.Record) bool {
			if r.Kind == record.KindCall && missing[r.Call] {
				delete(missing, r.Call)
				found[r.Call] = *r
			}
			return len(missing) > 0
		})
	}
	return found
}

// Orphaned returns which calls of an attachment are on record as having no answer, as
// Recorded does.
func (l *Log) Orphaned(attachment string) map[uint64]bool {
	found := map[uint64]bool{}
	for call := range l.newest(attachment, record.KindOrphan) {
		found[call] = true
	}
	return found
}

// newest returns the newest record of a kind for each call of an attachment.
func (l *Log) newest(attachment string, kind record.Kind) map[uint64]record.Record {
	found := map[uint64]record.Record{}
	l.lookBack(attachment, recordedWithin, func(r *record.Record) bool {
		if _, newer := found[r.Call]; r.Kind == kind && !newer {
			found[r.Call] = *r
		}
		return true
	})
	return found
}

// Earlier looks up what earlier daemons have put on record of calls of an attachment: the
// SHA-256, in hexadecimal digits, of what was let pass, and of which it was told what came
// of it. It looks back until it has found all of them or what the attachment began with:
// nobody knows for how long somebody has not read a line.
func (l *Log) Earlier(attachment string, calls []uint64) (passed map[uint64]string, told map[uint64]bool) {
	passed, told = map[uint64]string{}, map[uint64]bool{}
	missing := map[uint64]bool{}
	for _, call := range calls {
		missing[call] = true
	}
	l.lookBack(attachment, 0, func(r *record.Record) bool {
		switch {
		case r.Kind == record.KindOutcome && missing[r.Call]:
			told[r.Call] = true
		case r.Kind == record.KindCall && missing[r.Call]:
			delete(missing, r.Call)
			if r.Verdict == "forward" {
				passed[r.Call] = r.Digest
			}
		}
		return len(missing) > 0
	})
	return passed, told
}

// lookBack calls see with the records of an attachment, from the newest on, until see
// returns false or what the attachment began with has been met. With within it looks no
// further back than so many bytes.
func (l *Log) lookBack(attachment string, within int64, see func(*record.Record) bool) {
	err := l.newestFirst(attachment, within, func(r *record.Record) bool {
		began := r.Kind == record.KindAttach && r.Verdict == "attached" || r.Kind == record.KindDetach
		return !began && see(r) // what was said to it before has been made use of, or was taken back
	})
	if err != nil {
		l.o.Logger.Warn("look for the records of an attachment", "component", "audit", "err", err)
	}
}

// newestFirst calls see with all records of an attachment, from the newest on, until that
// returns false.
func (l *Log) newestFirst(attachment string, within int64, see func(*record.Record) bool) error {
	needle := append([]byte(`,"attachment":`), record.AppendString(nil, attachment)...)
	end, _, _ := l.end()
	read := int64(0) // bytes behind those that come next
	for n := end.segment; n > 0; n-- {
		to, err := l.sizeAt(n, end)
		if err != nil {
			return l.missing(err) // it was dropped, as was what stands before it
		}
		var found []record.Record
		start := to
		collect := func(e record.Entry) {
			start = min(start, e.Offset)
			if bytes.Contains(e.Line, needle) {
				if r, err := record.Parse(e.Line); err == nil && r.Attachment == attachment {
					found = append(found, r)
				}
			}
		}
		more, err := l.backwards(region{segment: n, to: to}, recordedWithin, collect, func() bool {
			for i := range found {
				if !see(&found[len(found)-1-i]) {
					return false
				}
			}
			found = found[:0]
			return within == 0 || read+to-start < within
		})
		if err != nil || !more {
			return l.missing(err)
		}
		read += to
	}
	return nil
}
