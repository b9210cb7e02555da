package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// minDropAge is the age below which no record is dropped, however large the log is.
const minDropAge = 7 * 24 * time.Hour

// retainInterval is the interval at which the log looks for segments to drop when nothing else
// triggers that.
const retainInterval = time.Hour

// errFull reports that the log is full and has nothing to drop.
var errFull = fmt.Errorf("the log has reached audit.max_size, and nothing in it is older than %d days; raise audit.max_size, or verify old segments and move them elsewhere",
	int(minDropAge/(24*time.Hour)))

// errUnsent reports that the log is full of records that its fleet has not got, and that the
// fleet's policy says not to drop them.
var errUnsent = errors.New("the log has reached audit.max_size with records that the fleet has not got, and the fleet's policy keeps them; " +
	"connect to the fleet (tgctl fleet status), or raise audit.max_size")

// Sending is what is known of the records that a fleet gets.
type Sending struct {
	Sends   bool   // records are sent
	Through uint64 // up to which record they were, as the courier says; 0: none
	Drops   bool   // the fleet's policy has the log drop records that were not sent rather than refuse new ones
}

// KeepUnsent has records that are sent to a fleet kept for that, although the log has reached
// MaxSize, as sending says for the log with an id. It may be called with other records being
// written. How long records are kept does not depend on it: a courier that lies about what was
// sent can only have the log keep more than without a fleet.
func (l *Log) KeepUnsent(sending func(log string) Sending) { l.sending.Store(&sending) }

// unsent returns what is known of the records that are sent. l.mu must not be held.
func (l *Log) unsent() Sending {
	ask := l.sending.Load()
	if ask == nil {
		return Sending{}
	}
	l.mu.Lock()
	id := l.id
	l.mu.Unlock()
	return (*ask)(id)
}

// keep publishes heads and drops segments that are too old or too large together. It does
// so whenever a segment has ended, and periodically.
func (l *Log) keep() {
	every := time.NewTicker(retainInterval)
	defer every.Stop()
	for {
		l.publish()
		if l.keeping().MaxSize > 0 {
			if err := l.recount(l.o.Now()); err != nil {
				l.o.Logger.Warn("compute the shares of the audit log", "component", "audit", "dir", l.dir, "err", err)
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

// ended is a segment that is no longer written.
type ended struct {
	n     uint64
	size  int64
	until time.Time // when the next one began
	last  uint64    // seq of its last record
}

// retain drops the oldest segments, whole ones only. They are older than the retention,
// or must make space and are not among the youngest. A record written before they are
// removed says so, so the rest of the log can still be verified.
func (l *Log) retain(now time.Time) error {
	l.retaining.Lock()
	defer l.retaining.Unlock()
	all, total, err := l.inventory()
	if err != nil {
		return err
	}
	room := l.keeping().MaxSize - l.keeping().SegmentSize // the current segment may still fill up
	sending := l.unsent()
	drop := 0
	for _, s := range all {
		age := now.Sub(s.until)
		kept := sending.Sends && !sending.Drops && s.last > sending.Through
		if !(l.keeping().Retention > 0 && age > l.keeping().Retention) && !(l.keeping().MaxSize > 0 && total > room && age > minDropAge && !kept) {
			break
		}
		total -= s.size
		drop++
	}
	err = l.drop(all[:drop], sending)
	if err != nil {
		_, total, _ = l.inventory() // what is left still counts; its error adds nothing to err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.segment
	if drop < len(all) {
		first = all[drop].n
	}
	l.pruneLedger(now, first)
	l.older = total // if a segment ends meanwhile, keep runs again
	l.holds = drop < len(all) && sending.Sends && !sending.Drops && all[drop].last > sending.Through && now.Sub(all[drop].until) > minDropAge
	if l.eldest = 0; drop < len(all) {
		l.eldest = all[drop].last
	}
	return err
}

// Unsent returns a warning if the log is nearly full, and its oldest records were not sent to the
// fleet.
func (l *Log) Unsent() []string {
	sending := l.unsent()
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.keeping().MaxSize
	if !sending.Sends || most <= 0 || l.older+l.size < most/4*3 || sending.Through >= l.eldest {
		return nil
	}
	then := "production denies calls"
	if sending.Drops {
		then = "the oldest are dropped"
	}
	return []string{fmt.Sprintf("the audit log is nearly full (audit.max_size), and the fleet has not got its records after %d; when it is full, %s; see tgctl fleet status", sending.Through, then)}
}

// inventory returns the segments before the current one, oldest first, and their total
// size in bytes.
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
		all = append(all, ended{n, size, next.Time, next.Seq - 1})
		total += size
	}
	return all, total, nil
}

// drop removes the given segments, which are the oldest, once the record that says so is
// on stable storage.
func (l *Log) drop(all []ended, sending Sending) error {
	if len(all) == 0 {
		return nil
	}
	newest := all[len(all)-1]
	last, _, err := l.lastEntry(newest.n)
	if err != nil {
		return err
	}
	if last == nil {
		return fmt.Errorf("%s has no records; move it elsewhere", l.path(newest.n))
	}
	gone := &record.Record{
		Kind: record.KindDropped, Through: last.chain.Seq, Digest: last.chain.Sum, Profile: l.keeping().Profile,
		Reason: fmt.Sprintf("%d segments with records up to %s are older than audit.retention or exceed audit.max_size", len(all), newest.until.UTC().Format(time.DateOnly)),
	}
	if sending.Sends && sending.Through < gone.Through {
		gone.Reason += fmt.Sprintf("; the fleet has not got those after record %d", sending.Through)
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

// full refuses a record if the log has no space for it. l.mu must be held.
func (l *Log) full(kind record.Kind) error {
	if l.keeping().MaxSize <= 0 || !l.keeping().Strict || kind == record.KindDropped || l.older+l.size < l.keeping().MaxSize {
		return nil
	}
	token(l.ending) // segments that were too young may be old enough by now
	if l.holds {
		return errUnsent
	}
	return errFull
}

// A log of limited size is shared by all whose records it contains; otherwise one of them
// could fill it and cause the calls of all others to be refused. Of the records that are
// too young to be dropped, a server may have one share and a session one, however many
// servers it names. Past half of a share, records are written without the values of
// calls; past the whole share, they are refused. When a few have filled their shares, the
// rest is reserved for those who hold little.
const (
	shares   = 4  // a share is MaxSize divided by this
	littles  = 32 // those who hold less than MaxSize divided by this may use the last share
	mostKeys = 4096
)

// holder is a server, session or agent whose records are counted.
type holder struct{ kind, name string }

// others stands for holders that are not counted separately, since there are too many.
var others = holder{"others", " together, too many to count separately"}

func (h holder) String() string {
	switch h.kind {
	case "server":
		return fmt.Sprintf("server %q", h.name)
	case "session":
		return "session " + h.name
	case "agent":
		return fmt.Sprintf("agent %q without a session", h.name)
	}
	return h.kind + h.name
}

// ledger counts how much each holder has in the segments that are too young to be
// dropped. The log's mutex guards it.
type ledger struct {
	segments map[uint64]*holding
	young    holding           // sum of segments
	told     map[holder]string // what was logged about a holder's records, to log it once
}

// holding is the number of bytes per holder, and of all records.
type holding struct {
	by    map[holder]int64
	all   int64
	until time.Time // when the segment ended; zero for the current one
}

func (h *holding) add(who holder, n int64) {
	if h.by == nil {
		h.by = map[holder]int64{}
	}
	h.by[h.as(who)] += n
}

// as returns the holder that who is counted as: others if there are too many already.
func (h *holding) as(who holder) holder {
	if _, ok := h.by[who]; !ok && len(h.by) >= mostKeys {
		return others
	}
	return who
}

// holders returns the holders that a record counts for: none, one or two.
func holders(r *record.Record) (all [2]holder) {
	if r.Server != "" {
		all[0] = holder{"server", r.Server}
	}
	switch {
	case r.Session != "":
		all[1] = holder{"session", r.Session}
	case r.Agent != "":
		all[1] = holder{"agent", r.Agent}
	case r.Server != "":
		all[1] = holder{"agents without a session", ""}
	}
	return all
}

// sharing reports whether r counts as an act of its server and session, so that it is
// refused when they have filled their shares.
func sharing(r *record.Record) bool {
	switch r.Kind {
	case record.KindCall, record.KindHook, record.KindMessage, record.KindRefused, record.KindMemory, record.KindOrphan, record.KindAttach:
		return r.Attachment != ""
	}
	return false
}

// countBytes adds n bytes to the given holders. l.mu must be held.
func (l *Log) countBytes(segment uint64, n int64, who ...holder) {
	if l.ledger.segments == nil {
		l.ledger.segments = map[uint64]*holding{}
	}
	s := l.ledger.segments[segment]
	if s == nil {
		s = &holding{}
		l.ledger.segments[segment] = s
	}
	for _, h := range []*holding{s, &l.ledger.young} {
		h.all += n
		for _, w := range who {
			if w != (holder{}) {
				h.add(w, n)
			}
		}
	}
}

// pruneLedger removes what is old enough to be dropped, and segments before first, which no
// longer exist. l.mu must be held.
func (l *Log) pruneLedger(now time.Time, first uint64) {
	for n, s := range l.ledger.segments {
		if n < first || !s.until.IsZero() && now.Sub(s.until) > minDropAge {
			delete(l.ledger.segments, n)
		}
	}
	old := l.ledger.young
	l.ledger.young = holding{}
	for _, s := range l.ledger.segments {
		l.ledger.young.all += s.all
		for who, n := range s.by {
			l.ledger.young.add(who, n)
		}
	}
	for who := range old.by {
		if l.ledger.young.by[who] == 0 {
			delete(l.ledger.told, who)
		}
	}
}

// standing returns what happens to the records of a holder with n bytes: bare if values
// are not kept, and the reason if they are refused. l.mu must be held.
func (l *Log) standing(who holder, n int64) (bare bool, refused string) {
	most := l.keeping().MaxSize
	if most <= 0 || !l.keeping().Strict {
		return false, ""
	}
	share := most / shares
	switch {
	case n >= share:
		return true, fmt.Sprintf("%s has filled its share of audit.max_size, which is a quarter of it within %d days", who, int(minDropAge/(24*time.Hour)))
	case l.ledger.young.all >= most-share && n >= most/littles:
		return true, fmt.Sprintf("the last quarter of audit.max_size is reserved for those that use little of it, and %s uses %d bytes", who, n)
	}
	return n >= share/2, ""
}

// mayKeep reports whether the values of r may be kept. It fails if r is refused. l.mu
// must not be held.
func (l *Log) mayKeep(r *record.Record) (values bool, err error) {
	if !sharing(r) {
		return true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	values = true
	for _, who := range holders(r) {
		if who == (holder{}) {
			continue
		}
		who = l.ledger.young.as(who)
		bare, refused := l.standing(who, l.ledger.young.by[who])
		switch {
		case refused != "":
			l.logShareState(who, "refused")
			return false, fmt.Errorf("%s; see `tgctl status` for the shares", refused)
		case bare:
			l.logShareState(who, "without values")
			values = false
		}
	}
	return values, nil
}

// logShareState logs once what happens to a holder's records. l.mu must be held.
func (l *Log) logShareState(who holder, what string) {
	if l.ledger.told[who] == what {
		return
	}
	if l.ledger.told == nil {
		l.ledger.told = map[holder]string{}
	}
	l.ledger.told[who] = what
	l.o.Logger.Warn("a share of the audit log is used up", "component", "audit", "who", who.String(), "records", what)
}

// Shares returns a sentence for each holder whose values are no longer kept or whose
// calls are refused, because it has used too much of its share or holds too much of a
// nearly full log.
func (l *Log) Shares() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var said []string
	for who, n := range l.ledger.young.by {
		bare, refused := l.standing(who, n)
		switch {
		case refused != "":
			said = append(said, fmt.Sprintf("calls of %s are denied, because the audit log does not record them: %s", who, strings.TrimPrefix(refused, who.String()+" ")))
		case bare:
			said = append(said, fmt.Sprintf("the audit log stores no values of the calls of %s, which has used more than half of its share of audit.max_size (%d bytes)", who, n))
		}
	}
	slices.Sort(said)
	return said
}

// recount counts the records of a previous daemon that are too young to be dropped. It
// does nothing while the log is small: then nobody can have used much of a share.
func (l *Log) recount(now time.Time) error {
	l.mu.Lock()
	before := l.uncounted
	l.uncounted = place{}
	l.mu.Unlock()
	if before == (place{}) {
		return nil
	}
	all, total, err := l.inventory()
	if err != nil || total+before.offset < l.keeping().MaxSize/shares/2 {
		return err
	}
	all = slices.DeleteFunc(all, func(s ended) bool { return s.n >= before.segment || now.Sub(s.until) > minDropAge })
	for _, s := range append(all, ended{n: before.segment, size: before.offset}) {
		var of holding
		known := map[string][2]holder{} // the holders, by the members that determine them
		err := l.missing(l.entries(s.n, 0, s.size, func(e record.Entry) bool {
			size := e.Size()
			of.all += size
			key := string(member(e.Line, "server")) + " " + string(member(e.Line, "session")) + " " + string(member(e.Line, "agent"))
			who, ok := known[key]
			if !ok && len(known) < mostKeys {
				if r, err := record.Parse(e.Line); err == nil {
					who = holders(&r)
				}
				known[key] = who
			}
			for _, w := range who {
				if w != (holder{}) {
					of.add(w, size)
				}
			}
			select {
			case <-l.stop:
				return false
			default:
				return true
			}
		}))
		if err != nil {
			return err
		}
		l.mu.Lock()
		for who, n := range of.by {
			l.countBytes(s.n, n, who)
			l.ledger.segments[s.n].all -= n
			l.ledger.young.all -= n
		}
		l.countBytes(s.n, of.all)
		if s.n != l.segment && l.ledger.segments[s.n].until.IsZero() {
			if l.ledger.segments[s.n].until = s.until; s.until.IsZero() {
				l.ledger.segments[s.n].until = now
			}
		}
		l.mu.Unlock()
	}
	return nil
}

// member returns the raw text of the string member name of a record; nil if there is
// none. Quotes within strings are escaped, so the search can't match inside another
// string.
func member(line []byte, name string) []byte {
	_, rest, ok := bytes.Cut(line, []byte(`,"`+name+`":"`))
	if !ok {
		return nil
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return rest[:i]
		}
	}
	return nil
}
