package audit

import (
	"cmp"
	"log/slog"
	"time"
)

// Sync says how safe a record is when Record returns.
type Sync string

const (
	SyncNever    Sync = "never"    // the kernel has it: it survives the daemon
	SyncInterval Sync = "interval" // the same; on stable storage a moment later
	SyncAlways   Sync = "always"   // on stable storage: it survives the machine
)

// Values says what is kept of the arguments of a call.
type Values string

const (
	ValuesNone     Values = "none"     // their length and HMAC
	ValuesRedacted Values = "redacted" // also themselves, secrets replaced by an HMAC; large ones in part
	ValuesFull     Values = "full"     // themselves whole, but for the members that are never kept
)

// Options say how a log is kept. The zero value is good, but keeps no values
// for want of a Redact.
type Options struct {
	Sync     Sync          // SyncInterval when empty
	Interval time.Duration // how long a record may wait for stable storage; 20 ms when zero
	Values   Values        // ValuesRedacted when empty
	// Redact returns a copy of values, a JSON value, with every secret it
	// recognises and every member named by paths replaced by the string that mask
	// returns for it; nil keeps nothing. It is called by many goroutines at once, and
	// keeps nothing of values but what it returns.
	Redact func(values []byte, paths []string, mask func(secret []byte) string) []byte
	// Profile is what records say that name no profile and are about no session, as
	// those that the log writes itself; empty for nothing.
	Profile string
	// SegmentSize is after how many bytes a new segment begins; 64 MiB when zero.
	// It is never more than an eighth of MaxSize.
	SegmentSize int64
	Retention   time.Duration // how old a record may get; zero for any age
	MaxSize     int64         // how many bytes the segments may hold together; zero for any number
	// Strict refuses records when the log has reached MaxSize and holds none that
	// may be dropped; else it grows on.
	Strict bool
	Index  Index            // nil for none: queries read the whole log
	Heads  string           // a file elsewhere to which the head of the log is added at the end of each segment; empty for none
	Now    func() time.Time // time.Now when nil
	Logger *slog.Logger     // discards when nil
}

func (o Options) withDefaults() Options {
	o.Sync, o.Values = cmp.Or(o.Sync, SyncInterval), cmp.Or(o.Values, ValuesRedacted)
	if o.Interval <= 0 {
		o.Interval = 20 * time.Millisecond
	}
	if o.SegmentSize <= 0 {
		o.SegmentSize = 64 << 20
	}
	if o.MaxSize > 0 {
		o.SegmentSize = min(o.SegmentSize, o.MaxSize/8)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Apply has the log kept as o says from now on: Sync, Interval, Values,
// SegmentSize, Retention, MaxSize, Strict and Heads count, all else stays. What is
// on record already stays as it was kept.
func (l *Log) Apply(o Options) {
	now := l.o
	now.Sync, now.Interval, now.Values, now.SegmentSize = o.Sync, o.Interval, o.Values, o.SegmentSize
	now.Retention, now.MaxSize, now.Strict, now.Heads, now.Profile = o.Retention, o.MaxSize, o.Strict, o.Heads, o.Profile
	now = now.withDefaults()
	l.how.Store(&now)
	token(l.ending) // there may be something to drop
}

// keeping is how the log is kept now.
func (l *Log) keeping() *Options { return l.how.Load() }
