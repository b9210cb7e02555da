package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Index maps words to their places in the log, so that a query for a few of a million
// records need not read them all. It proves nothing and may be lost: query results are
// read from the log and checked again, and Verify never uses it. Its methods must be
// called by one goroutine at a time, except Find.
type Index interface {
	// Blocks returns the indexed blocks of the log with the given id, in the order of the
	// log. It forgets those of any other log.
	Blocks(log string) ([]record.Block, error)
	// Add adds one block.
	Add(record.Block, []record.Posting) error
	// Find returns the postings of a field in a block whose word is the given one or
	// empty; all postings of the field if word is empty. It may be called concurrently.
	Find(ctx context.Context, b record.Block, field, word string) ([]record.Posting, error)
	// Forget removes all blocks of the segments before the given one.
	Forget(segment uint64) error
	// Clear removes everything.
	Clear() error
}

// blockSize is the number of bytes of a block. Every query reads the log after the last
// block in full.
const blockSize = 4 << 20

// index keeps the index up to date until the log is closed.
func (l *Log) index() {
	for known := false; ; {
		var err error
		if !known {
			known, err = l.takeUpIndex()
		}
		if known {
			err = l.indexWhole()
		}
		if err != nil {
			l.unindexed(err)
			return
		}
		select {
		case <-l.grown:
		case <-l.stop:
			return
		}
	}
}

// unindexed disables the index after an error: queries then read the whole log.
func (l *Log) unindexed(err error) {
	l.o.Logger.Warn("the audit log has no index; queries are slower", "component", "audit", "dir", l.dir, "err", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocks = nil
}

// takeUpIndex reads the blocks of the index, and clears it if they don't fit the log. It
// reports false if the log itself was not taken up yet.
func (l *Log) takeUpIndex() (bool, error) {
	l.mu.Lock()
	id := l.id
	l.mu.Unlock()
	if id == "" {
		return false, nil
	}
	blocks, err := l.o.Index.Blocks(id)
	if err != nil {
		return false, err
	}
	if len(blocks) > 0 && !l.fits(blocks[len(blocks)-1]) {
		l.o.Logger.Info("rebuilding the index of the audit log", "component", "audit")
		if err := l.o.Index.Clear(); err != nil {
			return false, err
		}
		blocks = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocks = blocks
	return true, nil
}

// fits reports whether the log contains a block as the index has it. The other blocks
// were added before it.
func (l *Log) fits(b record.Block) bool {
	var last uint64
	end := int64(0)
	err := l.window(b.Segment, max(b.From, b.To-l.chunk), b.To, func(e record.Entry) bool {
		if seq, _, ok := record.Peek(e.Line); ok {
			last = seq
		}
		end = e.Offset + e.Size()
		return true
	})
	return err == nil && end == b.To && (last == b.Last || b.Last == 0)
}

// indexWhole adds every complete block, and the rest of each segment that has ended.
func (l *Log) indexWhole() error {
	end, _, _ := l.end()
	numbers, err := l.numbers(end)
	if err != nil {
		return err
	}
	if len(numbers) > 0 {
		if err := l.forgetBlocks(numbers[0]); err != nil {
			return err
		}
	}
	for _, n := range numbers {
		if err := l.indexSegment(n, end); err != nil {
			return fmt.Errorf("index %s: %w", l.path(n), err)
		}
	}
	return nil
}

// forgetBlocks removes the blocks of dropped segments, which are those before first.
func (l *Log) forgetBlocks(first uint64) error {
	l.mu.Lock()
	kept := slices.DeleteFunc(slices.Clone(l.blocks), func(b record.Block) bool { return b.Segment < first })
	gone := len(kept) < len(l.blocks)
	l.blocks = kept
	l.mu.Unlock()
	if !gone {
		return nil
	}
	return l.o.Index.Forget(first)
}

// indexSegment adds the blocks of one segment.
func (l *Log) indexSegment(n uint64, end place) error {
	from := int64(0)
	l.mu.Lock()
	for _, b := range l.blocks {
		if b.Segment == n {
			from = b.To
		}
	}
	l.mu.Unlock()
	to, err := l.sizeAt(n, end)
	if err != nil {
		return l.missing(err)
	}
	for to-from >= l.block || n < end.segment && from < to {
		x := record.NewIndexer(n, from)
		err := l.missing(l.entries(n, from, to, func(e record.Entry) bool {
			x.Add(e)
			return x.Size() < l.block
		}))
		if err != nil {
			return err
		}
		b, postings := x.Block()
		if b.To == b.From {
			return nil // the rest is not an entry
		}
		if err := l.o.Index.Add(b, postings); err != nil {
			return err
		}
		l.mu.Lock()
		l.blocks = append(slices.Clip(l.blocks), b)
		l.mu.Unlock()
		from = b.To
		select {
		case <-l.stop:
			return nil
		default:
		}
	}
	return nil
}
