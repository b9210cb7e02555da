package courier

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// batchAge is how long a record waits for others to travel with.
	batchAge = 15 * time.Second
	// askAgain is after how long the stream is asked again for what it holds, though
	// nothing has failed.
	askAgain = 5 * time.Minute
)

// ReadAudit reads the records of a log from a sequence on, oldest first, and then new ones
// as they are written. It may begin with a later record, if older ones do not leave or are
// gone.
type ReadAudit func(ctx context.Context, log string, from uint64) iter.Seq2[*pb.FleetAuditRecord, error]

// ErrFork reports that another record was sent than the log of this machine has in its
// place. Somebody has changed one of them. Nothing is sent any more, and what the engine
// holds stays.
var ErrFork = errors.New("what was sent before is not what this machine has")

// An Uploader sends one log to the engine. It keeps no cursor: that is what the stream
// holds. So it heals an engine that was put back to an older copy, and after an error with
// an unknown outcome it asks, and sends nothing twice.
type Uploader struct {
	Conn   *nats.Conn
	Device string
	Log    string
	Read   ReadAudit
	Failed func(error) // is told why an upload failed, and nil once one has worked; may be nil

	Collector *Collector // takes the records instead of an engine; nil: there is an engine

	sent atomic.Uint64
}

// Sent returns the sequence of the last record that the engine is known to hold.
func (u *Uploader) Sent() uint64 { return u.sent.Load() }

// Run sends records until ctx ends, or the log is a fork.
func (u *Uploader) Run(ctx context.Context) error {
	var again backoff
	for ctx.Err() == nil {
		began, before := time.Now(), u.Sent()
		session, cancel := context.WithTimeout(ctx, askAgain)
		err := u.session(session)
		ended := session.Err() != nil
		cancel()
		if errors.Is(err, ErrFork) {
			u.failed(err)
			return err
		}
		if ended {
			continue
		}
		if u.Sent() > before || time.Since(began) > retryMost {
			again = backoff{}
		}
		again.after(ctx, err, u.failed)
	}
	return nil
}

func (u *Uploader) failed(err error) {
	if u.Failed != nil {
		u.Failed(err)
	}
}

// cursor is where a stream ends.
type cursor struct {
	record.Chain
	last uint64 // the sequence of the stream's last message on the subject
}

// session asks the stream for what it holds, and sends what comes after that, until an
// error.
func (u *Uploader) session(ctx context.Context) error {
	at, err := u.ask(ctx)
	if err != nil {
		return err
	}
	u.sent.Store(at.Seq)
	records := make(chan *pb.FleetAuditRecord, stream.MaxRecords)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- u.read(ctx, at, records)
		close(records)
	}()
	err = u.send(ctx, at, records)
	cancel()
	if reading := <-ended; errors.Is(reading, ErrFork) || err == nil {
		return reading
	}
	return err
}

// ask asks the stream for the last batch of the log.
func (u *Uploader) ask(ctx context.Context) (cursor, error) {
	if u.Collector != nil {
		at, err := u.Collector.Last(u.Log)
		return cursor{Chain: at}, err
	}
	stored, err := streams.Last(ctx, u.Conn, streams.AuditStream, streams.Audit(u.Device, u.Log))
	if errors.Is(err, streams.ErrNone) {
		return cursor{}, nil
	}
	if err != nil {
		return cursor{}, err
	}
	chain, err := stream.Last(stored.Data)
	if err != nil {
		return cursor{}, fmt.Errorf("%w: log %s: its last batch there: %w", ErrFork, u.Log, err)
	}
	return cursor{chain, stored.Seq}, nil
}

// read puts the records after the cursor into a channel. The one at the cursor has to be
// the one that the stream holds.
func (u *Uploader) read(ctx context.Context, at cursor, records chan<- *pb.FleetAuditRecord) error {
	next := at.Seq // the least sequence that may come
	for r, err := range u.Read(ctx, u.Log, at.Seq) {
		switch {
		case err != nil:
			return fmt.Errorf("read the audit log: %w", err)
		case r.GetLog() != u.Log || r.GetSeq() < next:
			return fmt.Errorf("read the audit log: record %d of log %.80q came where one after %d was asked for", r.GetSeq(), r.GetLog(), next)
		}
		next = r.GetSeq() + 1
		if r.GetSeq() == at.Seq {
			if chain, ok := record.After(record.Entry{Line: r.GetLine()}); !ok || chain != at.Chain {
				return fmt.Errorf("%w: log %s, record %d", ErrFork, u.Log, at.Seq)
			}
			continue
		}
		select {
		case records <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// send sends batches until the records end, or there is an error.
func (u *Uploader) send(ctx context.Context, at cursor, records <-chan *pb.FleetAuditRecord) error {
	var batch stream.Batch
	for more := true; more; {
		var left *pb.FleetAuditRecord // the batch has no room for it
		if left, more = u.fill(&batch, records); !more && ctx.Err() != nil {
			return ctx.Err()
		}
		if batch.Len() > 0 {
			var err error
			if at.last, err = u.put(ctx, &batch, at.last); err != nil {
				return err
			}
			u.sent.Store(batch.Last)
			u.failed(nil)
		}
		batch.Reset()
		if left != nil && !Add(&batch, left) {
			return fmt.Errorf("record %d is too long to be sent", left.GetSeq())
		}
	}
	return nil
}

// put sends a batch after the stream's message last, and returns which message it is.
func (u *Uploader) put(ctx context.Context, batch *stream.Batch, last uint64) (uint64, error) {
	if u.Collector != nil {
		return 0, u.Collector.put(ctx, u.Log, batch)
	}
	data, err := batch.Pack()
	if err != nil {
		return 0, err
	}
	return streams.Put(ctx, u.Conn, &nats.Msg{Subject: streams.Audit(u.Device, u.Log), Data: data}, &last)
}

// fill adds records until the batch is full, or its first one has waited for long enough.
// It returns the record for which there was no room, and false after the last record.
func (u *Uploader) fill(batch *stream.Batch, records <-chan *pb.FleetAuditRecord) (*pb.FleetAuditRecord, bool) {
	var age <-chan time.Time
	for !batch.IsFull() {
		if age == nil && batch.Len() > 0 {
			age = time.After(batchAge)
		}
		select {
		case r, ok := <-records:
			if !ok {
				return nil, false
			}
			if !Add(batch, r) {
				return r, true
			}
		case <-age:
			return nil, true
		}
	}
	return nil, true
}

// maxValues is the maximum length of the values of a record that are sent. Longer ones
// stay: the record has their digest.
const maxValues = 256 << 10

// Add adds a record to a batch as it leaves, and reports whether the batch had room.
func Add(batch *stream.Batch, r *pb.FleetAuditRecord) bool {
	values := r.GetValues()
	if len(values) > maxValues {
		values = nil
	}
	return batch.Add(r.GetSeq(), r.GetLine(), values)
}
