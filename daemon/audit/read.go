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
