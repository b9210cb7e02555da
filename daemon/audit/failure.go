package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// retryAfter is how long a failed log refuses records without retrying. A disk with space
// for one record in three is as good as full.
const retryAfter = 250 * time.Millisecond

// failure is a period in which the log can't be written.
type failure struct {
	err     error
	cause   error
	since   time.Time
	retry   time.Time
	refused uint64
}

// fail records that the log can't be written and returns the reason. It logs each such
// period once in the daemon's own log.
func (l *Log) fail(cause error) error {
	now := l.o.Now()
	if l.failed == nil {
		l.failed = &failure{since: now}
		l.o.Logger.Error("the audit log can't be written: governed calls are denied", "component", "audit", "dir", l.dir, "err", cause)
	}
	if l.failed.cause == nil || l.failed.cause.Error() != cause.Error() {
		l.failed.cause = cause
		l.failed.err = fmt.Errorf("%w: %w", gate.ErrUnrecorded, reason(cause, l.dir))
	}
	l.failed.refused++
	l.failed.retry = now.Add(retryAfter)
	return l.failed.err
}

// reason returns what is wrong with the log in dir and what to do about it.
func reason(cause error, dir string) error {
	var path *fs.PathError
	if errors.As(cause, &path) {
		cause = path.Err
	}
	switch {
	case errors.Is(cause, unix.ENOSPC), errors.Is(cause, unix.EDQUOT), errors.Is(cause, unix.EFBIG):
		return fmt.Errorf("%w; make room for %s", cause, dir)
	case errors.Is(cause, unix.EROFS), errors.Is(cause, fs.ErrPermission):
		return fmt.Errorf("%w; make %s writable for its owner", cause, dir)
	}
	return fmt.Errorf("%w (%s)", cause, dir)
}

// unwritable reports whether err can be cured by freeing space or fixing permissions.
func unwritable(err error) bool {
	curable := []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, unix.EROFS, unix.EACCES, unix.EPERM, unix.EIO}
	return slices.ContainsFunc(curable, func(errno unix.Errno) bool { return errors.Is(err, errno) })
}

// retryTakeUp takes up the log if that has failed so far.
func (l *Log) retryTakeUp() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready(l.o.Now(), false)
}

// ready makes sure that the next record can be written: the log is taken up, and the
// segment has no torn end and is not full. With atOnce it retries even if the log failed
// a moment ago.
func (l *Log) ready(now time.Time, atOnce bool) error {
	switch {
	case l.closed:
		return fmt.Errorf("%w: %w", gate.ErrUnrecorded, errClosed)
	case l.failed != nil && now.Before(l.failed.retry) && !atOnce:
		l.failed.refused++
		return l.failed.err
	}
	if l.file == nil {
		if err := l.takeUp(); err != nil {
			return l.fail(err)
		}
	}
	if l.torn {
		if err := l.cut(); err != nil {
			return l.fail(err)
		}
	}
	if l.suspect || l.size >= l.keeping().SegmentSize {
		if err := l.rotate(now); err != nil {
			return l.fail(err)
		}
	}
	return nil
}

// gap returns the record that reports what the log is missing; nil if nothing is.
func (l *Log) gap(now time.Time) *record.Record {
	reasons := l.lost
	if f := l.failed; f != nil {
		reasons = append(reasons[:len(reasons):len(reasons)], fmt.Sprintf("nothing could be written since %s: %d records are missing: %v",
			stamp(f.since).Format(time.RFC3339), f.refused, f.cause))
	}
	if len(reasons) == 0 {
		return nil
	}
	return &record.Record{Kind: record.KindGap, Time: stamp(now), Reason: strings.Join(reasons, "; "), Profile: l.keeping().Profile}
}

// mended ends a period in which the log could not be written.
func (l *Log) mended(now time.Time) {
	l.lost = nil
	if l.failed == nil {
		return
	}
	l.o.Logger.Info("the audit log is writable again", "component", "audit", "dir", l.dir,
		"refused", l.failed.refused, "after", now.Sub(l.failed.since))
	l.failed = nil
}

// Failure returns why the log can't be written; nil if it can as far as is known.
func (l *Log) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed.reason()
}

// reason returns the error for callers; nil if f is nil.
func (f *failure) reason() error {
	if f == nil {
		return nil
	}
	return f.err
}
