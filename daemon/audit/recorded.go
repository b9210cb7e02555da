package audit

import (
	"bytes"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// recordedWithin is how far back Recorded looks for all calls, in bytes.
const recordedWithin = 4 << 20

// Recorded returns the newest record of kind call for each call of an attachment since it
// was last let go, by the number the shim gave it. It looks at the last 4 MiB of the log,
// since most calls that are open are recent, and for asked, which may have been held for
// long, as far back as it has to. What can't be read is left out; those calls are judged
// again.
func (l *Log) Recorded(attachment string, asked ...uint64) map[uint64]record.Record {
	found := l.newest(attachment, record.KindCall)
	missing := map[uint64]bool{}
	for _, call := range asked {
		if _, ok := found[call]; !ok {
			missing[call] = true
		}
	}
	if len(missing) > 0 {
		l.lookBack(attachment, 0, func(r *record.Record) bool {
			if r.Kind == record.KindCall && missing[r.Call] {
				delete(missing, r.Call)
				found[r.Call] = *r
			}
			return len(missing) > 0
		})
	}
	return found
}

// Orphaned returns which calls of an attachment are on record as having no answer, as
// Recorded does.
func (l *Log) Orphaned(attachment string) map[uint64]bool {
	found := map[uint64]bool{}
	for call := range l.newest(attachment, record.KindOrphan) {
		found[call] = true
	}
	return found
}

// newest returns the newest record of a kind for each call of an attachment.
func (l *Log) newest(attachment string, kind record.Kind) map[uint64]record.Record {
	found := map[uint64]record.Record{}
	l.lookBack(attachment, recordedWithin, func(r *record.Record) bool {
		if _, newer := found[r.Call]; r.Kind == kind && !newer {
			found[r.Call] = *r
		}
		return true
	})
	return found
}

// Earlier looks up what earlier daemons have put on record of calls of an attachment: the
// SHA-256, in hexadecimal digits, of what was let pass, and of which it was told what came
// of it. It looks back until it has found all of them or what the attachment began with:
// nobody knows for how long somebody has not read a line.
func (l *Log) Earlier(attachment string, calls []uint64) (passed map[uint64]string, told map[uint64]bool) {
	passed, told = map[uint64]string{}, map[uint64]bool{}
	missing := map[uint64]bool{}
	for _, call := range calls {
		missing[call] = true
	}
	l.lookBack(attachment, 0, func(r *record.Record) bool {
		switch {
		case r.Kind == record.KindOutcome && missing[r.Call]:
			told[r.Call] = true
		case r.Kind == record.KindCall && missing[r.Call]:
			delete(missing, r.Call)
			if r.Verdict == "forward" {
				passed[r.Call] = r.Digest
			}
		}
		return len(missing) > 0
	})
	return passed, told
}

// lookBack calls see with the records of an attachment, from the newest on, until see
// returns false or what the attachment began with has been met. With within it looks no
// further back than so many bytes.
func (l *Log) lookBack(attachment string, within int64, see func(*record.Record) bool) {
	err := l.newestFirst(attachment, within, func(r *record.Record) bool {
		began := r.Kind == record.KindAttach && r.Verdict == "attached" || r.Kind == record.KindDetach
		return !began && see(r) // what was said to it before has been made use of, or was taken back
	})
	if err != nil {
		l.o.Logger.Warn("look for the records of an attachment", "component", "audit", "err", err)
	}
}

// newestFirst calls see with all records of an attachment, from the newest on, until that
// returns false.
func (l *Log) newestFirst(attachment string, within int64, see func(*record.Record) bool) error {
	needle := append([]byte(`,"attachment":`), record.AppendString(nil, attachment)...)
	end, _, _ := l.end()
	read := int64(0) // bytes behind those that come next
	for n := end.segment; n > 0; n-- {
		to, err := l.sizeAt(n, end)
		if err != nil {
			return l.missing(err) // it was dropped, as was what stands before it
		}
		var found []record.Record
		start := to
		collect := func(e record.Entry) {
			start = min(start, e.Offset)
			if bytes.Contains(e.Line, needle) {
				if r, err := record.Parse(e.Line); err == nil && r.Attachment == attachment {
					found = append(found, r)
				}
			}
		}
		more, err := l.backwards(region{segment: n, to: to}, recordedWithin, collect, func() bool {
			for i := range found {
				if !see(&found[len(found)-1-i]) {
					return false
				}
			}
			found = found[:0]
			return within == 0 || read+to-start < within
		})
		if err != nil || !more {
			return l.missing(err)
		}
		read += to
	}
	return nil
}
