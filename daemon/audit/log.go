// Package audit is the record of what happened: a folder of append-only files
// of JSON lines, each line chained to the one before (internal/record).
//
// A record is written before the verdict it is about leaves the daemon, so that
// the one way for a verdict to be unrecorded is a refusal. While the log can't
// be written every Record fails, with one reason; the log tries again by itself
// with later records, and says in a record of kind gap what is missing.
//
// Beside the segments lie key.hmac, under which secrets are matched without
// being kept; head, which says how far the log goes; and torn-* files, the
// remains of records that a crash cut off. All are readable by their owner only.
package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Log is an open audit log. Its methods are safe for concurrent use.
type Log struct {
	dir    string
	o      Options                 // but for what Apply changes, which is in how
	how    atomic.Pointer[Options] // what is in force of it now
	key    atomic.Pointer[hmacKey] // nil until the log was taken up
	dirty  chan struct{}           // holds a token when something waits for the flusher
	grown  chan struct{}           // holds a token when a block of the log is whole
	ending chan struct{}           // holds a token when a segment has ended, or the log is full
	stop   chan struct{}           // closed to end the flusher and the keeper
	ended  sync.WaitGroup
	group  commits

	harmless harmless

	datasync   func(*os.File) error // datasync; tests let it fail
	foldersync func(*os.File) error // (*os.File).Sync; likewise
	chunk      int64                // how much is read backwards from the end at first, 1 MiB
	block      int64                // blockSize; tests have smaller ones

	// syncing is held while the current segment is being synced, so that it is
	// not closed meanwhile. It is taken with mu held, never the other way round.
	syncing sync.Mutex

	retaining sync.Mutex // held while old segments are looked for and dropped; taken before mu

	mu      sync.Mutex     // guards what follows
	lock    *os.File       // the folder, locked; nil until the log was taken up
	file    *os.File       // the current segment; nil until the log was taken up
	head    *os.File       // nil when it can't be written
	segment uint64         // number of file
	size    int64          // of file, up to the end of its last whole record
	older   int64          // bytes in the segments before file
	blocks  []record.Block // what the index knows, in the order of the log
	untold  []record.Head  // what publish has to tell
	id      string
	chain   record.Chain
	torn    bool     // bytes of a failed write may stand behind size
	suspect bool     // a sync failed: file is not to be written any more
	lost    []string // what the next gap record must say
	failed  *failure // nil when the log can be written
	ledger  ledger
	// Who holds what lies before it is not known yet; zero when it is.
	uncounted place
	news      chan struct{}
	buf       []byte
	closed    bool

	synced  uint64    // seq up to which records are on stable storage
	waiting time.Time // when the first one behind it was written; zero when there is none
	behind  time.Time // when the first one was that the last sync does not cover; likewise
}

var errClosed = errors.New("the audit log is closed")

// Open takes up the log in dir, or begins one. What a crash left of the last
// record is moved to a file of its own. A log that can't be written at the
// moment, because the disk is full or read-only, is opened all the same:
// Failure says so and Record tries again. Any other trouble is an error, as
// when another process holds the log.
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
		// The reason is kept, and given to everyone who asks.
		_ = l.fail(err)
	}
	l.ended.Go(l.flush)
	l.ended.Go(l.keep)
	if l.o.Index != nil {
		l.ended.Go(l.index)
	}
	return l, nil
}

// Record appends r, and beside it what the options let be kept of values, the
// raw JSON of arguments, or of params (gate.OfParams), or nil; redact names members of it that are never kept.
// Secrets in the texts of r are left out as well; r itself keeps them.
// Where whoever r is about has used up most of their share of a log that may only
// grow so large, no more is kept of values than their length and HMAC; when they have
// used up all of it, r is refused. It fills in Seq, Time, Prev and Values of r. When it returns nil, r is as safe
// as the options ask for; else whatever r is about must not happen.
//
// ctx bounds the wait for stable storage, says what was seen of the decider that
// r names (gate.WithCaller), and whether r only tells (gate.Telling): such a one is
// on stable storage after two intervals at the latest, and nobody waits for it.
func (l *Log) Record(ctx context.Context, r *record.Record, values []byte, redact []string) error {
	if l.key.Load() == nil {
		if err := l.again(); err != nil {
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
	if l.keeping().Sync == SyncAlways && !gate.OnlyTells(ctx) {
		return l.commit(ctx, r.Seq)
	}
	return nil
}

// append writes one record under the lock.
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
	l.hold(l.segment, int64(len(buf)), whose[:]...)
	for _, first := range []*time.Time{&l.waiting, &l.behind} {
		if first.IsZero() {
			*first = now
		}
	}
	l.mended(now)
	l.tell()
	token(l.dirty)
	return nil
}

// stamp is now as records have it.
func stamp(now time.Time) time.Time { return now.UTC().Truncate(time.Microsecond) }

// write appends whole lines to the current segment. What a failed write left
// behind is cut off, at once or before the next.
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
		// When this fails as well, ready tries again before the next write.
		_ = l.cut()
	}
	return err
}

// cut takes off what stands behind the last whole record.
func (l *Log) cut() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < l.size {
		return fmt.Errorf("%s was shortened by someone", l.file.Name())
	}
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	l.torn = false
	return nil
}

// tell wakes whoever follows the log.
func (l *Log) tell() {
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// Seq returns the seq of the last record, 0 when there is none.
func (l *Log) Seq() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chain.Seq
}

// Close ends the log: what was written is synced unless the options say never,
// and followers end. Records after it fail.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.stop)
	l.tell()
	l.mu.Unlock()
	l.ended.Wait()

	defer l.publish()
	l.mu.Lock()
	defer l.mu.Unlock()
	var failures []error
	if l.file != nil && l.keeping().Sync != SyncNever {
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

// release closes every file the log has open.
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

// Standing is how a log stands, for those who watch it.
type Standing struct {
	Bytes     int64 // of all segments
	Unindexed int64 // of Bytes
	Failing   bool  // it can't be written
	// Synced reports that records are brought to stable storage at all. Unsynced
	// is how many are not there yet, and Lag for how long the first of them waits.
	Synced   bool
	Unsynced uint64
	Lag      time.Duration
}

// Standing returns how the log stands now.
func (l *Log) Standing() Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Standing{Bytes: l.older + l.size, Failing: l.failed != nil, Synced: l.keeping().Sync != SyncNever}
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
