package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// youngest is the age below which no record is dropped, however large the log is.
const youngest = 7 * 24 * time.Hour

// anew is how often the log looks for what may be dropped when nothing else makes
// it look.
const anew = time.Hour

// errFull is why a log refuses records that has no room left and nothing to drop.
var errFull = fmt.Errorf("the log has reached audit.max_size, and nothing in it is older than %d days; raise audit.max_size, or move old segments to another place once they are verified",
	int(youngest/(24*time.Hour)))

// keep tells where the log stands, and drops what is too old or too much, whenever
// a segment has ended, and from time to time.
func (l *Log) keep() {
	every := time.NewTicker(anew)
	defer every.Stop()
	for {
		l.publish()
		if l.keeping().MaxSize > 0 {
			if err := l.recount(l.o.Now()); err != nil {
				l.o.Logger.Warn("count who holds how much of the audit log", "component", "audit", "dir", l.dir, "err", err)
			}
		}
		if l.keeping().Retention > 0 || l.keeping().MaxSize > 0 {
			if err := l.retain(l.o.Now()); err != nil {
				l.o.Logger.Warn("drop old records of the audit log", "component", "audit", "dir", l.dir, "err", err)
			}
		}
		select {
		case <-l.ending:
		case <-every.C:
		case <-l.stop:
			return
		}
	}
}

// ended is a segment that is not written to any more.
type ended struct {
	n     uint64
	size  int64
	until time.Time // when the next one began
}

// retain drops the oldest segments, whole ones only, that are older than the
// retention, or must go to make room and are not among the youngest. The log says
// so in a record before they go, so that what is left can still be verified.
func (l *Log) retain(now time.Time) error {
	l.retaining.Lock()
	defer l.retaining.Unlock()
	all, total, err := l.inventory()
	if err != nil {
		return err
	}
	room := l.keeping().MaxSize - l.keeping().SegmentSize // the current segment may still fill up
	drop := 0
	for _, s := range all {
		age := now.Sub(s.until)
		if !(l.keeping().Retention > 0 && age > l.keeping().Retention) && !(l.keeping().MaxSize > 0 && total > room && age > youngest) {
			break
		}
		total -= s.size
		drop++
	}
	err = l.drop(all[:drop])
	if err != nil {
		_, total, _ = l.inventory() // what is there still counts; its own error adds nothing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.segment
	if drop < len(all) {
		first = all[drop].n
	}
	l.age(now, first)
	l.older = total // a segment that ended meanwhile makes keep look again
	return err
}

// inventory lists the segments before the current one, oldest first, and how many
// bytes they hold.
func (l *Log) inventory() (all []ended, total int64, err error) {
	end, _, _ := l.end()
	numbers, err := l.numbers(end)
	if err != nil || len(numbers) == 0 {
		return nil, 0, err
	}
	for i, n := range numbers[:len(numbers)-1] {
		size, err := l.sizeOf(n)
		if err != nil {
			return nil, 0, err
		}
		next, err := l.first(numbers[i+1])
		if err == nil && next.Seq == 0 {
			err = fmt.Errorf("%s does not begin with a record", l.path(numbers[i+1]))
		}
		if err != nil {
			return nil, 0, err
		}
		all = append(all, ended{n, size, next.Time})
		total += size
	}
	return all, total, nil
}

// drop removes segments, which are the oldest, once the record that says so is on
// stable storage.
func (l *Log) drop(all []ended) error {
	if len(all) == 0 {
		return nil
	}
	newest := all[len(all)-1]
	last, _, err := l.lastEntry(newest.n)
	if err != nil {
		return err
	}
	if last == nil {
		return fmt.Errorf("%s holds no record; move it to another place", l.path(newest.n))
	}
	gone := &record.Record{
		Kind: record.KindDropped, Through: last.chain.Seq, Digest: last.chain.Sum, Profile: l.keeping().Profile,
		Reason: fmt.Sprintf("%d segments, the newest record of %s, are older than audit.retention or past audit.max_size", len(all), newest.until.UTC().Format(time.DateOnly)),
	}
	if err := l.append(gone, nil); err != nil {
		return err
	}
	if _, err := l.sync(); err != nil {
		return err
	}
	for _, s := range all {
		if err := os.Remove(l.path(s.n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l.o.Logger.Info("old records of the audit log were dropped", "component", "audit", "through", gone.Through, "segments", len(all))
	return nil
}

// full refuses a record when the log has no room for it. l.mu is held.
func (l *Log) full(kind record.Kind) error {
	if l.keeping().MaxSize <= 0 || !l.keeping().Strict || kind == record.KindDropped || l.older+l.size < l.keeping().MaxSize {
		return nil
	}
	token(l.ending) // what was too young may be old enough by now
	return errFull
}
