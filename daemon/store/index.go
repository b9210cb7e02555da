package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Index is audit/index.db: where in the audit log which words stand. It can be made
// anew from the log at any time, so that it is not kept safe as state.db is, and
// is thrown away when it is broken or of another version. It holds no values of
// arguments, only what the records themselves say.
type Index struct{ DB }

// indexVersion is raised when the file or what is indexed changes.
const indexVersion = 1

const indexSchema = `
	CREATE TABLE log (
		one INTEGER PRIMARY KEY CHECK (one = 1),
		id  TEXT NOT NULL
	) STRICT;
	CREATE TABLE blocks (
		segment INTEGER NOT NULL,
		start   INTEGER NOT NULL,
		finish  INTEGER NOT NULL,
		first   INTEGER NOT NULL,
		last    INTEGER NOT NULL,
		since   INTEGER NOT NULL,
		until   INTEGER NOT NULL,
		PRIMARY KEY (segment, start)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE postings (
		segment INTEGER NOT NULL,
		start   INTEGER NOT NULL,
		field   TEXT    NOT NULL,
		word    TEXT    NOT NULL,
		places  BLOB    NOT NULL,
		PRIMARY KEY (segment, start, field, word),
		FOREIGN KEY (segment, start) REFERENCES blocks ON DELETE CASCADE
	) STRICT, WITHOUT ROWID;`

// OpenIndex opens the index at path, and begins a new one when there is none, or
// none that can be used. Its folder must exist.
func OpenIndex(path string) (*Index, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the index of the audit log: %w", err)
	}
	x, err := openIndex(path)
	if err == nil {
		return x, nil
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("begin a new index of the audit log: %w", err)
		}
	}
	if x, err = openIndex(path); err != nil {
		return nil, fmt.Errorf("open the index of the audit log %s: %w", path, err)
	}
	return x, nil
}

var errOldIndex = errors.New("it is of another version")

func openIndex(path string) (*Index, error) {
	if err := claim(path); err != nil {
		return nil, err
	}
	options := url.Values{
		"_txlock": {"immediate"}, "_defensive": {"1"}, "_dqs": {"0"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(OFF)", "foreign_keys(ON)", "temp_store(MEMORY)", "trusted_schema(OFF)", "cache_size(-1024)"},
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: options.Encode()}
	handle, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	handle.SetMaxOpenConns(1)
	x := &Index{DB{sql: handle}}
	if err := x.prepare(context.Background()); err != nil {
		// The first error counts; what is in the file is thrown away.
		_ = handle.Close()
		return nil, err
	}
	return x, nil
}

func (x *Index) prepare(ctx context.Context) error {
	return x.together(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		switch version {
		case indexVersion:
			return nil
		case 0:
			_, err := tx.ExecContext(ctx, indexSchema+fmt.Sprintf("PRAGMA user_version = %d", indexVersion))
			return err
		}
		return errOldIndex
	})
}

// Blocks returns what is known of the log with the given id, in the order of the
// log, and forgets what is known of any other.
func (x *Index) Blocks(log string) ([]record.Block, error) {
	ctx := context.Background() // it is local
	var blocks []record.Block
	var known string
	err := x.sql.QueryRowContext(ctx, "SELECT id FROM log").Scan(&known)
	if errors.Is(err, sql.ErrNoRows) || err == nil && known != log {
		err = x.together(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM postings; DELETE FROM blocks; INSERT OR REPLACE INTO log VALUES (1, ?)", log)
			return err
		})
	}
	if err == nil {
		err = x.each(ctx, "SELECT segment, start, finish, first, last, since, until FROM blocks ORDER BY segment, start", func(scan func(...any) error) error {
			var b record.Block
			var since, until int64
			if err := scan(&b.Segment, &b.From, &b.To, &b.First, &b.Last, &since, &until); err != nil {
				return err
			}
			b.Since, b.Until = fromMicros(since), fromMicros(until)
			blocks = append(blocks, b)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the index of the audit log: %w", err)
	}
	return blocks, nil
}

// Add remembers one more block.
func (x *Index) Add(b record.Block, postings []record.Posting) error {
	ctx := context.Background()
	err := x.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)", b.Segment, b.From, b.To, b.First, b.Last, micros(b.Since), micros(b.Until))
		if err != nil {
			return err
		}
		insert, err := tx.PrepareContext(ctx, "INSERT INTO postings VALUES (?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		for _, p := range postings {
			if _, err := insert.ExecContext(ctx, b.Segment, b.From, p.Field, p.Word, append([]byte{}, p.Places...)); err != nil {
				return errors.Join(err, insert.Close())
			}
		}
		return insert.Close()
	})
	if err != nil {
		return fmt.Errorf("add to the index of the audit log: %w", err)
	}
	return nil
}

// Find returns the postings of a field in a block that have the word or none; all
// of the field when the word is empty.
func (x *Index) Find(ctx context.Context, b record.Block, field, word string) ([]record.Posting, error) {
	query, args := "SELECT word, places FROM postings WHERE segment = ? AND start = ? AND field = ?", []any{b.Segment, b.From, field}
	if word != "" {
		query, args = query+" AND word IN ('', ?)", append(args, word)
	}
	var found []record.Posting
	err := x.each(ctx, query, func(scan func(...any) error) error {
		p := record.Posting{Field: field}
		if err := scan(&p.Word, &p.Places); err != nil {
			return err
		}
		found = append(found, p)
		return nil
	}, args...)
	return found, err
}

// Forget forgets all blocks of the segments before the given one.
func (x *Index) Forget(segment uint64) error { return x.forget("WHERE segment < ?", segment) }

// Clear forgets all blocks.
func (x *Index) Clear() error { return x.forget("") }

func (x *Index) forget(which string, args ...any) error {
	if _, _, err := x.change(context.Background(), "DELETE FROM blocks "+which, args...); err != nil {
		return fmt.Errorf("forget a part of the index of the audit log: %w", err)
	}
	return nil
}
