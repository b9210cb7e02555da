package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// commits lets many records share one sync. A caller that finds no sync under way makes
// one for all records written so far; the others wait for the next.
type commits struct {
	mu      sync.Mutex // guards the fields below
	done    chan struct{}
	synced  uint64 // every record up to this one is on stable storage,
	failed  uint64 // except those above from, up to this one, whose sync failed
	from    uint64
	failure error
}

// commit returns when the record seq is on stable storage.
func (l *Log) commit(ctx context.Context, seq uint64) error {
	g := &l.group
	for {
		g.mu.Lock()
		switch {
		case seq > g.from && seq <= g.failed:
			defer g.mu.Unlock()
			return g.failure
		case seq <= g.synced:
			g.mu.Unlock()
			return nil
		case g.done == nil:
			g.done = make(chan struct{})
			g.mu.Unlock()
			l.lead()
			continue
		}
		done := g.done
		g.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("%w: it is not on stable storage yet: %w", gate.ErrUnrecorded, context.Cause(ctx))
		}
	}
}

// lead syncs on behalf of all waiting callers.
func (l *Log) lead() {
	seq, err := l.sync()
	g := &l.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.from, g.failed, g.failure = g.synced, max(seq, g.failed), err
	}
	g.synced = max(g.synced, seq)
	close(g.done)
	g.done = nil
}

// Await returns when the write or sync under way now is done. It also returns if the log
// can't be written: the log is responsive then too.
func (l *Log) Await() {
	l.Seq() // before the other lock, so that nobody waits for a sync because of Await
	l.syncing.Lock()
	defer l.syncing.Unlock()
}

// sync brings all records written so far to stable storage and returns the seq of the
// last one. After an error the kernel may have discarded what it could not write, so a
// second attempt would prove nothing: the segment is abandoned.
func (l *Log) sync() (uint64, error) {
	l.mu.Lock()
	f, seq := l.file, l.chain.Seq
	if f == nil || l.suspect {
		defer l.mu.Unlock()
		return seq, l.failed.reason()
	}
	l.behind = time.Time{}
	l.syncing.Lock()
	l.mu.Unlock()
	err := l.datasync(f)
	l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.markSynced(seq)
		return seq, nil
	}
	seq = l.chain.Seq // records written meanwhile share its fate
	l.distrust(err)
	return seq, l.fail(err)
}

// markSynced records that all records up to seq are on stable storage. l.mu must be held.
func (l *Log) markSynced(seq uint64) {
	if seq >= l.synced {
		l.synced, l.waiting = seq, l.behind
	}
}

// distrust abandons the current segment after a failed sync; the next record begins a new
// one.
func (l *Log) distrust(err error) {
	l.suspect = true
	l.addGapReason(fmt.Sprintf("records up to %d may not be on stable storage: %v", l.chain.Seq, err))
}

// flush brings records to stable storage shortly after they were written, and then writes
// the head of the log. It sleeps while nothing is written.
func (l *Log) flush() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for {
		select {
		case <-l.dirty:
		case <-l.stop:
			return
		}
		seq := l.Seq()
		pause.Reset(l.keeping().Interval)
		select {
		case <-pause.C:
		case <-l.stop:
			return
		}
		if err := l.settle(seq); err != nil {
			continue // the log has failed and reports it
		}
		l.mu.Lock()
		l.writeHead()
		l.mu.Unlock()
	}
}

// settle brings records to stable storage that nobody waits for: with SyncAlways those up
// to seq, which a later record may have brought there already; with SyncInterval all.
func (l *Log) settle(seq uint64) error {
	how := l.keeping().Sync
	if how == config.SyncAlways {
		return l.commit(context.Background(), seq)
	}
	select { // this round covers what was written up to here
	case <-l.dirty:
	default:
	}
	if how == config.SyncNever {
		return nil
	}
	_, err := l.sync()
	return err
}

// writeHead writes the head file. The log does not depend on it, so a failure is only
// logged.
func (l *Log) writeHead() {
	if l.head == nil || l.chain.Seq == 0 {
		return
	}
	head := record.Head{Log: l.id, Seq: l.chain.Seq, Sum: l.chain.Sum}
	if _, err := l.head.WriteAt(head.Line(), 0); err != nil {
		l.o.Logger.Warn("write the head of the audit log", "component", "audit", "err", err)
	}
}

// token wakes the receiver of c, now or when it next waits.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
