package audit

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// recordedWithin is how far back Recorded looks, in bytes.
const recordedWithin = 4 << 20

// Recorded returns the newest record of kind call for each call of an
// attachment since it was last let go, by the number the shim gave it. It looks at the last 4 MiB of the
// log: a shim that comes back has few calls open, and they are recent. What can't
// be read is left out; those calls are judged again.
func (l *Log) Recorded(attachment string) map[uint64]record.Record {
	return l.recorded(attachment, record.KindCall)[record.KindCall]
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

// Earlier is what earlier daemons have recorded of an attachment. It is looked up when
// it is asked for: most attachments have nothing under way, and need not wait for that.
type Earlier struct {
	lookUp func() map[record.Kind]map[uint64]record.Record
}

// Earlier returns what earlier daemons have recorded of an attachment, as Recorded does.
func (l *Log) Earlier(attachment string) Earlier {
	return Earlier{sync.OnceValue(func() map[record.Kind]map[uint64]record.Record {
		return l.recorded(attachment, record.KindCall, record.KindOutcome)
	})}
}

// Passed returns the SHA-256 of what a verdict has let pass, in hexadecimal digits.
func (e Earlier) Passed(seq uint64) (digest string, ok bool) {
	r := e.lookUp()[record.KindCall][seq]
	return r.Digest, r.Verdict == "forward"
}

// Told reports whether it is on record what came of a call.
func (e Earlier) Told(seq uint64) bool {
	_, ok := e.lookUp()[record.KindOutcome][seq]
	return ok
}

// recorded returns the newest record of each kind for each call of an attachment.
func (l *Log) recorded(attachment string, kinds ...record.Kind) map[record.Kind]map[uint64]record.Record {
	needle := append([]byte(`,"attachment":`), record.AppendString(nil, attachment)...)
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
