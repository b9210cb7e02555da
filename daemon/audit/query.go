package audit

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Query selects records; what is not set selects all. Server and Tool are
// globs, the other texts are exact.
type Query struct {
	From    uint64    // seq, inclusive
	Since   time.Time // inclusive
	Until   time.Time // exclusive
	Server  string
	Tool    string
	Verdict string
	Session string
	Kind    record.Kind
	Last    int  // only the newest so many of what is selected
	Follow  bool // stay, and pass on what comes
}

// filter is a Query made ready. Most records are told apart by bytes that their
// line must hold, without being parsed.
type filter struct {
	q            Query
	needles      [][]byte
	since, until []byte // as times are written
	server, tool config.Glob
	wants        []want // the same, for the index
}

const timeLayout = "2006-01-02T15:04:05.000000Z"

func (q Query) filter() (*filter, error) {
	f := &filter{q: q}
	for _, g := range []struct {
		name, text string
		glob       *config.Glob
	}{{"server", q.Server, &f.server}, {"tool", q.Tool, &f.tool}} {
		if g.text == "" {
			continue
		}
		var err error
		if *g.glob, err = config.NewGlob(g.text); err != nil {
			return nil, fmt.Errorf("read audit log: %s: %w: %w", g.name, gate.ErrInvalid, err)
		}
		if g.glob.Literal() {
			f.need(g.name, g.text)
			*g.glob = config.Glob{}
		} else {
			f.wants = append(f.wants, want{field: g.name, match: *g.glob})
		}
	}
	f.need("kind", string(q.Kind))
	f.need("session", q.Session)
	f.need("verdict", q.Verdict)
	if !q.Since.IsZero() {
		f.since = q.Since.UTC().AppendFormat(nil, timeLayout)
	}
	if !q.Until.IsZero() {
		f.until = q.Until.UTC().AppendFormat(nil, timeLayout)
	}
	return f, nil
}

// longWord is more than what stands in any record as it is: the index knows words
// as the records have them, where long ones are cut.
const longWord = 4 << 10

// need selects records in which the member name is text; all if text is empty.
// The bytes it looks for can't stand inside a string of a record.
func (f *filter) need(name, text string) {
	if text == "" {
		return
	}
	f.needles = append(f.needles, record.AppendString([]byte(`,"`+name+`":`), text))
	if len(text) <= longWord && utf8.ValidString(text) {
		f.wants = append(f.wants, want{field: name, word: text})
	}
}

func (f *filter) globs() bool { return !f.server.IsZero() || !f.tool.IsZero() }

// match reports whether an entry is selected, and its seq. A damaged line has
// seq 0, and is selected unless the query asks for something that it can't say.
func (f *filter) match(e record.Entry) (uint64, bool) {
	seq, at, ok := record.Peek(e.Line)
	if !ok {
		return 0, len(f.needles) == 0 && !f.globs()
	}
	switch {
	case seq < f.q.From,
		f.since != nil && bytes.Compare(at, f.since) < 0,
		f.until != nil && bytes.Compare(at, f.until) >= 0:
		return seq, false
	}
	for _, needle := range f.needles {
		if !bytes.Contains(e.Line, needle) {
			return seq, false
		}
	}
	if !f.globs() {
		return seq, true
	}
	r, err := record.Parse(e.Line)
	return seq, err == nil &&
		(f.server.IsZero() || f.server.Match(r.Server)) &&
		(f.tool.IsZero() || f.tool.Match(r.Tool))
}
