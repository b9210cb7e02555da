package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

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
