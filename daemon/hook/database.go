package hook

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/sqlitefile"
	"github.com/thoughtgate/thoughtgated/internal/transcript"
)

const (
	// logSuffix follows the name of a database in that of its write-ahead log.
	logSuffix = "-wal"
	// maxOlder is how many rows that are too old are read in a row, which ends the reading: rows are
	// in the order of their time, but for some that were copied.
	maxOlder = 256
	// longestUse is how long an agent uses one tool at most. What was in a database that long before a scan
	// is not read by the next.
	longestUse = 2 * time.Hour
)

// readDatabase is [transcript.Read] for a transcript that is a database, of which the latest rows are
// read. row is called with the ids of the session and the message that a row belongs to, and with its
// object.
func readDatabase(ctx context.Context, folder, path string, t *agenthook.Table, since time.Time, row func(session, message string, line []byte) error) (r transcript.Reading, err error) {
	db, err := transcript.Open(folder, path)
	if err != nil {
		return r, err
	}
	defer db.Close()
	var wal io.ReaderAt
	log, err := transcript.Open(folder, path+logSuffix)
	if err == nil {
		defer log.Close()
		wal = log
	} else if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	file, err := sqlitefile.Open(db, wal, transcript.MaxTail, transcript.MaxLine)
	if err != nil {
		return r, err
	}
	older := 0
	err = file.Rows(t.Name, t.Columns, func(values []any) (more bool) {
		if len(values) <= max(t.Session, t.Message, t.Time, t.Data) {
			r.Garbage++
			return ctx.Err() == nil
		}
		session, _ := values[t.Session].(string)
		message, _ := values[t.Message].(string)
		at, _ := values[t.Time].(int64)
		data, ok := values[t.Data].(string)
		switch {
		case time.UnixMilli(at).Before(since):
			older++
			return older < maxOlder
		case !ok || row(session, message, []byte(data)) != nil:
			r.Garbage++
		}
		older = 0
		return ctx.Err() == nil
	})
	if r.Cut = errors.Is(err, sqlitefile.ErrTooMuch); r.Cut {
		err = nil
	}
	return r, errors.Join(err, context.Cause(ctx))
}
