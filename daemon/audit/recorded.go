package audit

import (
	"bytes"
	"errors"
	"slices"

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
	found := l.recorded(attachment, record.KindCall)[record.KindCall]
	missing := map[uint64]bool{}
	for _, call := range asked {
		if _, ok := found[call]; !ok {
			missing[call] = true
		}
	}
	if len(missing) > 0 {
		l.lookBack(attachment, func(r *record.Record) bool {
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
	for call := range l.recorded(attachment, record.KindOrphan)[record.KindOrphan] {
		found[call] = true
	}
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
	l.lookBack(attachment, func(r *record.Record) bool {
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
// returns false or what the attachment began with has been met.
func (l *Log) lookBack(attachment string, see func(*record.Record) bool) {
	err := l.newestFirst(attachment, func(r *record.Record) bool {
		began := r.Kind == record.KindAttach && r.Verdict == "attached" || r.Kind == record.KindDetach
		return !began && see(r)
	})
	if err != nil {
		l.o.Logger.Warn("look for the records of an attachment", "component", "audit", "err", err)
	}
}

// newestFirst calls see with all records of an attachment, from the newest on, until that
// returns false.
func (l *Log) newestFirst(attachment string, see func(*record.Record) bool) error {
	needle := needleOf(attachment)
	end, _, _ := l.end()
	to := end.offset
	for n := end.segment; n > 0; n-- {
		if n < end.segment {
			var err error
			if to, err = l.sizeOf(n); err != nil {
				return l.missing(err) // it was dropped, as was what stands before it
			}
		}
		for size := int64(recordedWithin); to > 0; {
			from := max(0, to-size)
			start, look := to, l.window
			if from == 0 {
				start, look = 0, l.entries // an entry begins there
			}
			var found []record.Record
			err := look(n, from, to, func(e record.Entry) bool {
				start = min(start, e.Offset)
				if bytes.Contains(e.Line, needle) {
					if r, err := record.Parse(e.Line); err == nil && r.Attachment == attachment {
						found = append(found, r)
					}
				}
				return true
			})
			if err != nil {
				return l.missing(err)
			}
			for i := range found {
				if !see(&found[len(found)-1-i]) {
					return nil
				}
			}
			if start == to { // an entry that is longer than that
				size *= 2
			}
			to = start
		}
	}
	return nil
}

// needleOf is what stands in each record of an attachment.
func needleOf(attachment string) []byte {
	return append([]byte(`,"attachment":`), record.AppendString(nil, attachment)...)
}

// recorded returns the newest record of each kind for each call of an attachment.
func (l *Log) recorded(attachment string, kinds ...record.Kind) map[record.Kind]map[uint64]record.Record {
	needle := needleOf(attachment)
	found := map[record.Kind]map[uint64]record.Record{}
	var needles [][]byte
	for _, kind := range append(kinds, record.KindDetach) {
		found[kind] = map[uint64]record.Record{}
		needles = append(needles, []byte(`,"kind":"`+string(kind)+`"`))
	}
	see := func(e record.Entry) bool {
		is := func(needle []byte) bool { return bytes.Contains(e.Line, needle) }
		if !slices.ContainsFunc(needles, is) || !is(needle) {
			return true
		}
		r, err := record.Parse(e.Line)
		switch {
		case err != nil || r.Attachment != attachment:
		case r.Kind == record.KindDetach:
			for _, calls := range found {
				clear(calls) // what was said to it before has been made use of, or was taken back
			}
		case found[r.Kind] != nil:
			found[r.Kind][r.Call] = r
		}
		return true
	}
	end, _, _ := l.end()
	var failures []error
	if rest := recordedWithin - end.offset; rest > 0 && end.segment > 1 {
		size, err := l.sizeOf(end.segment - 1)
		if err == nil {
			err = l.window(end.segment-1, max(0, size-rest), size, see)
		}
		failures = append(failures, err)
	}
	if end.segment > 0 {
		failures = append(failures, l.window(end.segment, max(0, end.offset-recordedWithin), end.offset, see))
	}
	if err := errors.Join(failures...); err != nil {
		l.o.Logger.Warn("look for the records of an attachment", "component", "audit", "err", err)
	}
	return found
}
