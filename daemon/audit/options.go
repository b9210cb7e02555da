package audit

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// Options configures a log. The zero value is valid, but without Redact no values are
// kept.
type Options struct {
	Sync     config.Sync   // SyncInterval if empty
	Interval time.Duration // how long a record may wait for stable storage; 20 ms if zero
	Values   config.Values // ValuesRedacted if empty
	// Redact returns a copy of values, a JSON value, in which every recognized secret and
	// every member named by paths is replaced by the string that mask returns for it; nil
	// keeps nothing. It may be called concurrently, and must not retain values.
	Redact func(values []byte, paths []string, mask func(secret []byte) string) []byte
	// Profile is the profile of records that name none and belong to no session, such as
	// those that the log itself writes; may be empty.
	Profile string
	// SegmentSize is the number of bytes after which a new segment begins; 64 MiB if
	// zero. It is at most an eighth of MaxSize.
	SegmentSize int64
	Retention   time.Duration // maximum age of a record; unlimited if zero
	MaxSize     int64         // maximum size of all segments together, in bytes; unlimited if zero
	// Strict refuses records when the log has reached MaxSize and contains none that may
	// be dropped. Without it the log keeps growing.
	Strict bool
	Index  Index            // if nil, queries read the whole log
	Heads  string           // a file elsewhere to which the head of the log is appended at the end of each segment; none if empty
	Now    func() time.Time // time.Now if nil
	Logger *slog.Logger     // discards if nil
}

func (o Options) withDefaults() Options {
	o.Sync, o.Values = cmp.Or(o.Sync, config.SyncInterval), cmp.Or(o.Values, config.ValuesRedacted)
	o.Interval, o.SegmentSize = cmp.Or(o.Interval, 20*time.Millisecond), cmp.Or(o.SegmentSize, 64<<20)
	if o.MaxSize > 0 {
		o.SegmentSize = min(o.SegmentSize, o.MaxSize/8)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Apply puts Sync, Interval, Values, SegmentSize, Retention, MaxSize, Strict, Heads and
// Profile of o in force; all other options stay. Existing records are not changed.
func (l *Log) Apply(o Options) {
	now := l.o
	now.Sync, now.Interval, now.Values, now.SegmentSize = o.Sync, o.Interval, o.Values, o.SegmentSize
	now.Retention, now.MaxSize, now.Strict, now.Heads, now.Profile = o.Retention, o.MaxSize, o.Strict, o.Heads, o.Profile
	now = now.withDefaults()
	l.how.Store(&now)
	token(l.ending) // there may be something to drop
}

// keeping returns the options in force.
func (l *Log) keeping() *Options { return l.how.Load() }
