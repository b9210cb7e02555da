package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// place is a point in a log.
type place struct {
	segment uint64
	offset  int64
}

// hit is an entry that a query selects.
type hit struct {
	at   place
	size int64
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
		if err := l.scan(ctx, at, end, show); err != nil {
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
		hits, err := l.lastHits(ctx, regions, q.Last, f)
		if err != nil {
			return err
		}
		for _, h := range hits {
			if err := l.scan(ctx, h.at, place{h.at.segment, h.at.offset + h.size}, show); err != nil {
				return err
			}
		}
		return nil
	}
	for _, r := range regions {
		var failure error
		err := l.visit(r, func(e record.Entry) bool {
			if failure = context.Cause(ctx); failure == nil {
				failure = show(e)
			}
			return failure == nil
		})
		if err = errors.Join(failure, err); err != nil {
			return err
		}
	}
	return nil
}

// since leaves out the segments that end before the record from. One whose start
// can't be read is looked at from the one before.
func (l *Log) since(numbers []uint64, from uint64) []uint64 {
	first := 0
	for i, n := range numbers[1:] {
		if seq, err := l.firstSeq(n); err != nil || from < seq {
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

// firstSeq returns the seq of the first record of segment n.
func (l *Log) firstSeq(n uint64) (seq uint64, err error) {
	ok := false
	err = l.window(n, 0, l.chunk, func(e record.Entry) bool {
		seq, _, ok = record.Peek(e.Line)
		return false
	})
	if err == nil && !ok {
		err = fmt.Errorf("%s does not begin with a record", l.path(n))
	}
	return seq, err
}

// scan shows every entry from one place to another.
func (l *Log) scan(ctx context.Context, from, to place, show func(record.Entry) error) error {
	for n := from.segment; n <= to.segment; n++ {
		end := int64(1) << 62
		if n == to.segment {
			end = to.offset
		}
		if n == 0 || from.offset >= end {
			continue
		}
		var failure error
		err := l.entries(n, from.offset, end, func(e record.Entry) bool {
			if failure = context.Cause(ctx); failure == nil {
				failure = show(e)
			}
			return failure == nil
		})
		if failure != nil {
			return failure
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read audit log: %w", err)
		}
		from.offset = 0
	}
	return nil
}

// lastHits returns the newest entries of the regions that f selects, at most last,
// oldest first. It reads backwards, in chunks that grow.
func (l *Log) lastHits(ctx context.Context, regions []region, last int, f *filter) ([]hit, error) {
	var hits []hit // newest first
	take := func(n uint64, some []hit) bool {
		slices.Reverse(some)
		hits = append(hits, some...)
		return len(hits) < last
	}
	for _, r := range slices.Backward(regions) {
		look := l.backwards
		if r.only {
			look = l.backwardsAt
		}
		more, err := look(ctx, r, f, func(some []hit) bool { return take(r.segment, some) })
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

// backwards looks for hits in a region, from its end to its start, and gives take
// those of one chunk after the other until it returns false.
func (l *Log) backwards(ctx context.Context, r region, f *filter, take func([]hit) bool) (bool, error) {
	to := r.to
	for size := l.chunk; to > r.from; size *= 2 {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		from := max(r.from, to-size)
		start := to // of the first whole entry
		var some []hit
		see := func(e record.Entry) bool {
			start = min(start, e.Offset)
			if _, ok := f.match(e); ok {
				some = append(some, hit{place{r.segment, e.Offset}, e.Size()})
			}
			return true
		}
		look := l.window
		if from == r.from {
			look = l.entries // an entry begins there
		}
		if err := look(r.segment, from, to, see); err != nil {
			return false, err
		}
		if from == r.from {
			start = from
		}
		to = start
		if !take(some) {
			return false, nil
		}
	}
	return true, nil
}

// backwardsAt is backwards for a region of which only a few entries count.
func (l *Log) backwardsAt(ctx context.Context, r region, f *filter, take func([]hit) bool) (bool, error) {
	for _, offset := range slices.Backward(r.at) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		more := true
		err := l.entries(r.segment, offset, r.to, func(e record.Entry) bool {
			if _, ok := f.match(e); ok {
				more = take([]hit{{place{r.segment, e.Offset}, e.Size()}})
			}
			return false
		})
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}
