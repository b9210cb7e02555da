// Package audit writes and reads the audit log: a folder of append-only files of JSON
// lines, each line chained to the one before (internal/record).
//
// A record is written before the verdict it is about leaves the daemon, so a verdict that
// can't be recorded becomes a denial. While the log can't be written, every Record fails
// with the same reason. The log retries by itself with later records, and reports in a
// record of kind gap what is missing.
//
// Beside the segments are key.hmac, the key under which secrets are matched without being
// kept; head, the end of the log; and torn-* files, the remains of records that a crash
// cut off. All are readable by their owner only.
package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Log is an open audit log. Its methods are safe for concurrent use.
type Log struct {
	dir    string
	o      Options                 // as given to Open; see how for what Apply changes
	how    atomic.Pointer[Options] // the options in force now
	key    atomic.Pointer[hmacKey] // nil until the log was taken up
	dirty  chan struct{}           // holds a token when records wait for the flusher
	grown  chan struct{}           // holds a token when a block of the log is complete
	ending chan struct{}           // holds a token when a segment has ended or the log is full
	stop   chan struct{}           // closed to stop the goroutines
	ended  sync.WaitGroup
	group  commits

	harmless harmless
	sending  atomic.Pointer[func(log string) Sending] // nil: nothing is sent

	datasync   func(*os.File) error // datasync; tests make it fail
	foldersync func(*os.File) error // (*os.File).Sync; tests make it fail
	chunk      int64                // how much is first read backwards from the end, 1 MiB
	block      int64                // blockSize; smaller in tests

	// syncing is held while the current segment is being synced, so that it is not closed
	// meanwhile. It is locked after mu, never before it.
	syncing sync.Mutex

	retaining sync.Mutex // held while old segments are dropped; locked before mu

	mu      sync.Mutex     // guards the fields below
	lock    *os.File       // the locked folder; nil until the log was taken up
	file    *os.File       // the current segment; nil until the log was taken up
	head    *os.File       // nil if it can't be written
	segment uint64         // number of file
	size    int64          // of file, up to the end of its last complete record
	older   int64          // bytes in the segments before file
	eldest  uint64         // seq of the last record of the oldest of them; 0 if there is none
	holds   bool           // the oldest of them may be dropped for its size but for records that were not sent
	blocks  []record.Block // the indexed blocks, in the order of the log
	untold  []record.Head  // heads that publish has not reported yet
	id      string
	chain   record.Chain
	torn    bool     // bytes of a failed write may follow after size
	suspect bool     // a sync failed: file must not be written any more
	lost    []string // what the next gap record must report
	failed  *failure // nil if the log can be written
	ledger  ledger
	// The records before it were not counted in ledger yet; zero if all were.
	uncounted place
	news      chan struct{}
	buf       []byte
	closed    bool

	synced  uint64    // seq up to which records are on stable storage
	waiting time.Time // when the first record after synced was written; zero if there is none
	behind  time.Time // when the first record that the last sync does not cover was written; zero if there is none
}

var errClosed = errors.New("the audit log is closed")

// Open opens the log in dir, or creates one. What a crash left of the last record is
// moved to a file of its own. A log that can't be written at the moment, because the disk
// is full or read-only, is opened anyway: Failure returns the reason, and Record retries.
// Any other fault is an error, for example when another process has locked the log.
func Open(dir string, o Options) (*Log, error) { return newLog(dir, o).open() }

func newLog(dir string, o Options) *Log {
	l := &Log{
		dir: dir, o: o.withDefaults(), datasync: datasync, foldersync: (*os.File).Sync, chunk: 1 << 20, block: blockSize,
		dirty: make(chan struct{}, 1), ending: make(chan struct{}, 1), grown: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	l.how.Store(&l.o)
	return l
}

func (l *Log) open() (*Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.takeUp(); err != nil {
		if !unwritable(err) {
			return nil, fmt.Errorf("open audit log: %w", err)
		}
		// The reason is kept and returned to every caller.
		_ = l.fail(err)
	}
	l.ended.Go(l.flush)
	l.ended.Go(l.keep)
	if l.o.Index != nil {
		l.ended.Go(l.index)
	}
	return l, nil
}

// Record appends r, and with it what the options allow to be kept of values: the raw JSON
// of arguments, or of params (gate.OfParams), or nil. redact names members of values that
// are never kept. Secrets in the texts of r are also left out, but r itself keeps them.
// In a strict log of limited size, values are reduced to their length and HMAC when the
// server or session of r has used half of its share, and r is refused when the share is
// used up. Record sets Seq, Time, Prev and Values of r. If it returns nil, r is stored as
// safely as the options ask for; otherwise what r is about must not happen.
//
// ctx bounds the wait for stable storage. It also carries what the kernel showed of the
// decider that r names (gate.WithCaller), and whether r only reports (gate.Telling): such
// a record is on stable storage after two intervals at the latest, and nobody waits for
// it.
func (l *Log) Record(ctx context.Context, r *record.Record, values []byte, redact []string) error {
	if l.key.Load() == nil {
		if err := l.retryTakeUp(); err != nil {
			return err
		}
	}
	if r.Decider != "" && r.Peer == nil {
		r.Peer = gate.PeerOf(ctx, r.Decider)
	}
	if r.Profile == "" && r.Session == "" && r.Attachment == "" { // sessions may have stricter ones
		r.Profile = l.keeping().Profile
	}
	written := l.clean(r)
	keep, err := l.mayKeep(written)
	if err != nil {
		return err
	}
	var members []byte
	if len(values) > 0 {
		room := buffers.Get().(*[]byte)
		defer putBuffer(room)
		name := ofArguments
		if gate.OfParams(ctx) {
			name = ofParams
		}
		*room = l.members((*room)[:0], name, values, redact, keep)
		members = *room
	}
	if err := l.append(written, members); err != nil {
		return err
	}
	r.Seq, r.Time, r.Prev, r.Values = written.Seq, written.Time, written.Prev, written.Values
	if l.keeping().Sync == config.SyncAlways && !gate.IsReportOnly(ctx) {
		return l.commit(ctx, r.Seq)
	}
	return nil
}

// append writes one record. It locks l.mu.
func (l *Log) append(r *record.Record, members []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.o.Now()
	if err := l.ready(now, r.Kind == record.KindDropped); err != nil {
		return err
	}
	if err := l.full(r.Kind); err != nil {
		return l.fail(err)
	}
	buf, chain := l.buf[:0], l.chain
	if gap := l.gap(now); gap != nil {
		buf, chain = chain.Append(buf, gap, nil)
	}
	r.Time = stamp(now)
	buf, chain = chain.Append(buf, r, members)
	if cap(buf) <= maxKept {
		l.buf = buf
	}
	if err := l.write(buf); err != nil {
		return l.fail(err)
	}
	l.chain = chain
	whose := holders(r)
	l.countBytes(l.segment, int64(len(buf)), whose[:]...)
	for _, first := range []*time.Time{&l.waiting, &l.behind} {
		if first.IsZero() {
			*first = now
		}
	}
	l.mended(now)
	l.wakeFollowers()
	token(l.dirty)
	return nil
}

// stamp returns now with the resolution of records.
func stamp(now time.Time) time.Time { return now.UTC().Truncate(time.Microsecond) }

// write appends complete lines to the current segment. The remains of a failed write are
// cut off at once, or else before the next write.
func (l *Log) write(lines []byte) error {
	n, err := l.file.Write(lines)
	if err == nil {
		if l.size += int64(n); l.size/l.block != (l.size-int64(n))/l.block {
			token(l.grown)
		}
		return nil
	}
	l.torn = n > 0
	if l.torn {
		// If this fails as well, ready retries before the next write.
		_ = l.cut()
	}
	return err
}

// cut truncates the segment after its last complete record.
func (l *Log) cut() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < l.size {
		return fmt.Errorf("%s was truncated by another program", l.file.Name())
	}
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	l.torn = false
	return nil
}

// wakeFollowers wakes the followers of the log.
func (l *Log) wakeFollowers() {
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// Seq returns the seq of the last record; 0 if there is none.
func (l *Log) Seq() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chain.Seq
}

// Head returns the end of the log. Its id is empty while the log can't be opened.
func (l *Log) Head() record.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return record.Head{Log: l.id, Seq: l.chain.Seq, Sum: l.chain.Sum}
}

// Stable returns when the record seq is on stable storage, if the log is synced at all. What has left
// this machine must not be lost by a crash: other records would take its place.
func (l *Log) Stable(ctx context.Context, seq uint64) error {
	isSynced := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return seq <= l.synced
	}
	if l.keeping().Sync == config.SyncNever || seq == 0 || isSynced() {
		return nil
	}
	pause := time.NewTimer(2 * l.keeping().Interval) // after which it was synced with others, as a rule
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if isSynced() {
		return nil
	}
	return l.commit(ctx, seq)
}

// Close closes the log. It syncs what was written unless the options say never, and ends
// followers. Later records fail.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.stop)
	l.wakeFollowers()
	l.mu.Unlock()
	l.ended.Wait()

	defer l.publish()
	l.mu.Lock()
	defer l.mu.Unlock()
	var failures []error
	if l.file != nil && l.keeping().Sync != config.SyncNever {
		l.syncing.Lock()
		failures = append(failures, l.datasync(l.file))
		l.syncing.Unlock()
	}
	l.writeHead()
	l.noteHead()
	failures = append(failures, l.release())
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}

// release closes all files of the log.
func (l *Log) release() error {
	var failures []error
	for _, f := range []**os.File{&l.file, &l.head, &l.lock} {
		if *f != nil {
			failures = append(failures, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(failures...)
}

// LogStatus is the state of a log, for monitoring.
type LogStatus struct {
	Bytes     int64 // of all segments
	Unindexed int64 // of Bytes
	Failing   bool  // the log can't be written
	// Synced reports whether records are synced at all. Unsynced is the number of records
	// not on stable storage yet, and Lag the age of the oldest of them.
	Synced   bool
	Unsynced uint64
	Lag      time.Duration
}

// Standing returns the current state of the log.
func (l *Log) Standing() LogStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LogStatus{Bytes: l.older + l.size, Failing: l.failed != nil, Synced: l.keeping().Sync != config.SyncNever}
	s.Unindexed = s.Bytes
	for _, b := range l.blocks {
		s.Unindexed -= b.To - b.From
	}
	s.Unindexed = max(0, s.Unindexed)
	if s.Synced && !l.waiting.IsZero() {
		s.Unsynced, s.Lag = l.chain.Seq-l.synced, max(0, l.o.Now().Sub(l.waiting))
	}
	return s
}
