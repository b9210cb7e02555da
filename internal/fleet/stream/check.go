package stream

import (
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// FaultKind says what is wrong with a stream.
type FaultKind string

const (
	Gap       FaultKind = "gap"       // records are missing
	Explained FaultKind = "explained" // a gap found before: the log itself says that it had dropped these records
	Double    FaultKind = "double"    // a record is there again, the same
	Fork      FaultKind = "fork"      // two records claim one place: somebody has changed the log, or two write it
	Damaged   FaultKind = "damaged"   // a record is not as it was written
	Foreign   FaultKind = "foreign"   // a record of another log
)

// Fault is something wrong with a stream.
type Fault struct {
	Kind FaultKind
	From uint64 // the first record concerned; 0 if it can't be read
	To   uint64 // the last one
	What string
}

// Error returns the fault in words.
func (f *Fault) Error() string { return f.What }

// remembered is how many records back two records of one place can be told apart; maxGaps is
// how many gaps may be explained later.
const (
	remembered = 64 << 10
	maxGaps    = 256
)

// Check checks the records of one log as they arrive. It goes on after a fault, with what came
// last. Its zero value is invalid; see NewCheck.
type Check struct {
	log   string
	chain record.Chain
	first uint64
	sums  map[uint64]string // of the last records, by seq
	gaps  []record.Chain    // for each gap: the record before its end, as the one after it names it
	count uint64
}

// NewCheck returns a Check of the log with that id. A stream may begin with any record, since
// what was recorded before the machine joined does not travel.
func NewCheck(log string) *Check {
	return &Check{log: log, sums: map[uint64]string{}}
}

// Last returns the last record of the stream.
func (c *Check) Last() record.Chain { return c.chain }

// First returns the seq of the first record of the stream.
func (c *Check) First() uint64 { return c.first }

// Records returns how many records there were, each counted once.
func (c *Check) Records() uint64 { return c.count }

// Add adds the next record and returns what is wrong with it; nil if nothing is.
func (c *Check) Add(e record.Entry) *Fault {
	next, ok := record.After(e)
	r, err := record.Parse(e.Line)
	switch {
	case !ok || err != nil:
		return &Fault{Kind: Damaged, What: fmt.Sprintf("a record after record %d is damaged", c.chain.Seq)}
	case !e.Sound():
		return &Fault{Kind: Damaged, From: next.Seq, To: next.Seq, What: fmt.Sprintf("the values of record %d are not those that were recorded", next.Seq)}
	case r.Kind == record.KindLog && r.Log != c.log:
		return &Fault{Kind: Foreign, From: next.Seq, To: next.Seq, What: fmt.Sprintf("record %d is of the log %.80q", next.Seq, r.Log)}
	}
	if c.count > 0 && next.Seq <= c.chain.Seq {
		return c.again(next)
	}
	fault := c.follow(next, r.Prev)
	if c.count == 0 {
		c.first = next.Seq
	}
	c.chain, c.count = next, c.count+1
	c.sums[next.Seq] = next.Sum
	delete(c.sums, next.Seq-remembered)
	if fault == nil && r.Kind == record.KindDropped {
		fault = c.explain(&r)
	}
	return fault
}

// again judges a record at a place that the stream has passed.
func (c *Check) again(next record.Chain) *Fault {
	was, known := c.sums[next.Seq]
	switch {
	case known && was == next.Sum:
		return &Fault{Kind: Double, From: next.Seq, To: next.Seq, What: fmt.Sprintf("record %d is there twice", next.Seq)}
	case known:
		return &Fault{Kind: Fork, From: next.Seq, To: next.Seq, What: fmt.Sprintf("there are two records %d, which differ", next.Seq)}
	}
	return &Fault{Kind: Fork, From: next.Seq, To: next.Seq, What: fmt.Sprintf("record %d comes after record %d", next.Seq, c.chain.Seq)}
}

// follow judges a record at a place after the last one.
func (c *Check) follow(next record.Chain, prev string) *Fault {
	switch {
	case c.count == 0:
		return nil
	case next.Seq > c.chain.Seq+1:
		if len(c.gaps) < maxGaps {
			c.gaps = append(c.gaps, record.Chain{Seq: next.Seq - 1, Sum: prev})
		}
		return &Fault{Kind: Gap, From: c.chain.Seq + 1, To: next.Seq - 1, What: fmt.Sprintf("records %d to %d are missing", c.chain.Seq+1, next.Seq-1)}
	case prev != c.chain.Sum:
		return &Fault{Kind: Fork, From: c.chain.Seq, To: c.chain.Seq, What: fmt.Sprintf("record %d follows another record %d than the one in the stream", next.Seq, c.chain.Seq)}
	}
	return nil
}

// explain looks for a gap that ends with the last record that the log says it has dropped.
func (c *Check) explain(r *record.Record) *Fault {
	for i, gap := range c.gaps {
		if gap.Seq == r.Through && gap.Sum == r.Digest {
			c.gaps = append(c.gaps[:i], c.gaps[i+1:]...)
			return &Fault{Kind: Explained, From: r.Through, To: r.Through, What: fmt.Sprintf("the records missing before record %d were dropped when the log was full", gap.Seq+1)}
		}
	}
	return nil
}

// Seen compares the stream with what the device said of itself at some time. It returns a Gap
// for records that the stream does not have yet: a fault only if they stay away.
func (c *Check) Seen(s *fleet.Seen) *Fault {
	if s.Log != c.log {
		return nil
	}
	if sum, known := c.sums[s.Seq]; known && sum != s.Head {
		return &Fault{Kind: Fork, From: s.Seq, To: s.Seq, What: fmt.Sprintf("record %d of the stream is not the one that the device has", s.Seq)}
	}
	if s.Seq > c.chain.Seq {
		return &Fault{Kind: Gap, From: c.chain.Seq + 1, To: s.Seq, What: fmt.Sprintf("records %d to %d have not arrived", c.chain.Seq+1, s.Seq)}
	}
	return nil
}
