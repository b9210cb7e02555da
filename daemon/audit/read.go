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

// place is a position in a log.
type place struct {
	segment uint64
	offset  int64
}

// Read calls see for every record that q selects, oldest first, with the bytes as stored:
// line without its newline, and values, its values line, nil if there is none. Both are
// valid during the call. A damaged line has seq 0. Without Follow, Read ends with the
// records present when it is called. With Follow, it ends when ctx or the log ends or see
// returns an error.
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

// show calls show for the entries of regions, in order.
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

// between returns the regions between two places, at each of which an entry must begin.
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

// since returns numbers without the segments that end before the record from. If the
// start of a segment can't be read, the previous one is kept too.
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

// end returns the end of the log, and a channel that is closed when it grows or is
// closed. open is false if it is closed already.
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
		return nil, nil // the log could not be created yet
	}
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return slices.DeleteFunc(numbers, func(n uint64) bool { return n > end.segment }), nil
}

// first returns the first record of segment n; the zero Record if the segment does not
// begin with one.
func (l *Log) first(n uint64) (r record.Record, err error) {
	err = l.window(n, 0, l.chunk, func(e record.Entry) bool {
		r, _ = record.Parse(e.Line) // in case of an error r is the zero Record
		return false
	})
	return r, err
}

// lastHits returns the regions of the newest entries that f selects, at most last, oldest
// first.
func (l *Log) lastHits(ctx context.Context, regions []region, last int, f *filter) ([]region, error) {
	var hits, some []region // newest first; some are the hits of one chunk, oldest first
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

// backwards reads a region from its end to its start in chunks, the first of the given
// size and each next one larger. It calls see for the entries of a chunk, in order, and
// then done, until done returns false.
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
		start, look := to, l.window // start is where the first complete entry begins
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

// Query selects records; an empty field selects all. Server and Tool are globs, the other
// texts are exact.
type Query struct {
	From    uint64    // seq, inclusive
	Since   time.Time // inclusive
	Until   time.Time // exclusive
	Server  string
	Tool    string
	Verdict string
	Session string
	Kind    record.Kind
	Last    int  // only this many of the selected records, the newest
	Follow  bool // keep waiting for new records
}

// filter is a prepared Query. Most records are selected by bytes that their line must
// contain, without being parsed.
type filter struct {
	q            Query
	needles      [][]byte
	since, until []byte // formatted as times in records
	server, tool config.Glob
	wants        []want // the same conditions, for the index
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

// longWord is longer than any text that a record contains unchanged: the index has words
// as the records do, where long ones are cut.
const longWord = 4 << 10

// need selects records whose member name is text; all if text is empty. The bytes it
// searches for can't occur inside a string of a record.
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

// match returns the seq of an entry and reports whether it is selected. A damaged line
// has seq 0, and is selected unless the query has a condition that can't be checked for
// it.
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

// region is a range of a segment that a query has to read.
type region struct {
	segment  uint64
	from, to int64
	at       []int64 // offsets of the only entries that may be selected
	only     bool    // at is used
}

// regions returns the regions to read for f, in the order of the log.
func (l *Log) regions(ctx context.Context, f *filter, numbers []uint64, end place) ([]region, error) {
	l.mu.Lock()
	blocks := l.blocks
	l.mu.Unlock()
	var all []region
	for _, n := range numbers {
		from := int64(0)
		to, err := l.sizeAt(n, end) // none if it was dropped meanwhile
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

// mayHold reports whether a block may contain what f selects, by seq and time.
func (f *filter) mayHold(b record.Block) bool {
	return b.First == 0 || // nothing in it could be read
		b.Last >= f.q.From &&
			(f.q.Since.IsZero() || !b.Until.Before(f.q.Since)) &&
			(f.q.Until.IsZero() || b.Since.Before(f.q.Until))
}

// candidates returns the entries of b that f may select according to the index. If the
// index can't tell, it returns all of b.
func (l *Log) candidates(ctx context.Context, f *filter, b record.Block) region {
	r := region{segment: b.Segment, from: b.From, to: b.To}
	for _, want := range f.wants {
		postings, err := l.o.Index.Find(ctx, b, want.field, want.word)
		if err != nil {
			l.o.Logger.Warn("query the index of the audit log", "component", "audit", "err", err)
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

// want is a condition on a member of a record for a query: it must equal word, or match.
type want struct {
	field, word string
	match       config.Glob
}

// offsets merges the offsets of the matching words. known is false if the field is not
// indexed.
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

// visit calls see for the entries of a region, in order, until see returns false. Entries
// that were dropped meanwhile are skipped.
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

// missing ignores the error of a segment that was dropped.
func (l *Log) missing(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("read audit log: %w", err)
}

// recordedWithin is how far back Recorded looks for all calls, in bytes.
const recordedWithin = 4 << 20

// Recorded returns the newest record of kind call for each call of an attachment since it
// last attached, by the call's number. It searches the last 4 MiB of the log, since most
// open calls are recent, and for the calls in asked, which may have been held for long,
// as far back as necessary. Calls whose records can't be read are left out; they are
// judged again.
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

// Orphaned returns the calls of an attachment that are recorded as having no answer. It
// searches as Recorded does.
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

// PreviousOutcomes returns what previous daemons recorded about calls of an attachment: passed has
// the hexadecimal SHA-256 of each forwarded call, and told the calls whose outcome is
// recorded. It searches back until it has found all of them or the start of the
// attachment, since a line may have been unread for any length of time.
func (l *Log) PreviousOutcomes(attachment string, calls []uint64) (passed map[uint64]string, told map[uint64]bool) {
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

// lookBack calls see with the records of an attachment, newest first, until see returns
// false or the start of the attachment is reached. If within is not 0, it searches at
// most that many bytes back.
func (l *Log) lookBack(attachment string, within int64, see func(*record.Record) bool) {
	err := l.newestFirst(attachment, within, func(r *record.Record) bool {
		began := r.Kind == record.KindAttach && r.Verdict == "attached" || r.Kind == record.KindDetach
		return !began && see(r) // earlier records are used up or were withdrawn
	})
	if err != nil {
		l.o.Logger.Warn("look for the records of an attachment", "component", "audit", "err", err)
	}
}

// newestFirst calls see with all records of an attachment, newest first, until see
// returns false.
func (l *Log) newestFirst(attachment string, within int64, see func(*record.Record) bool) error {
	needle := append([]byte(`,"attachment":`), record.AppendString(nil, attachment)...)
	end, _, _ := l.end()
	read := int64(0) // bytes after those that come next
	for n := end.segment; n > 0; n-- {
		to, err := l.sizeAt(n, end)
		if err != nil {
			return l.missing(err) // it was dropped, as was everything before it
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
