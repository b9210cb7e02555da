package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Index is audit/index.db, which maps words to their places in the audit log. It can be
// rebuilt from the log at any time, so it is written less safely than state.db, and
// discarded if it is corrupt or has another version. It contains no values of arguments,
// only data from the records themselves.
type Index struct{ *DB }

// indexSteps create the schema. When the indexed data changes, a new step must empty the
// file.
var indexSteps = []string{`
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
	) STRICT, WITHOUT ROWID;`}

// OpenIndex opens the index at path. It creates a new one if there is none or it can't be
// used. Its folder must exist.
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
			return nil, fmt.Errorf("create the index of the audit log: %w", err)
		}
	}
	if x, err = openIndex(path); err != nil {
		return nil, fmt.Errorf("open the index of the audit log %s: %w", path, err)
	}
	return x, nil
}

func openIndex(path string) (*Index, error) {
	db, err := openFile(path, indexSteps, "synchronous(OFF)", "cache_size(-1024)")
	return &Index{db}, err
}

var blocks = newTable("blocks", func(b *record.Block) []column {
	return []column{
		{"segment", &b.Segment}, {"start", &b.From}, {"finish", &b.To}, {"first", &b.First}, {"last", &b.Last},
		{"since", stamp(&b.Since)}, {"until", stamp(&b.Until)},
	}
})

// Blocks returns the indexed blocks of the log with the given id, in the order of the
// log. It forgets those of any other log.
func (x *Index) Blocks(log string) ([]record.Block, error) {
	const doing = "read the index of the audit log"
	ctx := context.Background() // the database is local
	var known string
	err := x.sql.QueryRowContext(ctx, "SELECT id FROM log").Scan(&known)
	if errors.Is(err, sql.ErrNoRows) || err == nil && known != log {
		return nil, x.exec(ctx, doing, write("DELETE FROM postings"), write("DELETE FROM blocks"), write("INSERT OR REPLACE INTO log VALUES (1, ?)", log))
	}
	if err != nil {
		return nil, wrapError(doing, err)
	}
	return blocks.all(ctx, x.DB, doing, "ORDER BY segment, start")
}

// Add adds one block.
func (x *Index) Add(b record.Block, postings []record.Posting) error {
	ctx := context.Background()
	return wrapError("add to the index of the audit log", x.inTransaction(ctx, func(tx *sql.Tx) error {
		if _, err := blocks.insert(&b).run(ctx, tx); err != nil {
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
	}))
}

// Find returns the postings of a field in a block whose word is the given one or empty;
// all postings of the field if word is empty.
func (x *Index) Find(ctx context.Context, b record.Block, field, word string) ([]record.Posting, error) {
	query, args := "SELECT word, places FROM postings WHERE segment = ? AND start = ? AND field = ?", []any{b.Segment, b.From, field}
	if word != "" {
		query, args = query+" AND word IN ('', ?)", append(args, word)
	}
	var found []record.Posting
	err := x.each(ctx, "search the index of the audit log", func(scan func(...any) error) error {
		p := record.Posting{Field: field}
		err := scan(&p.Word, &p.Places)
		found = append(found, p)
		return err
	}, query, args...)
	return found, err
}

// Forget removes all blocks of the segments before the given one.
func (x *Index) Forget(segment uint64) error { return x.forget("WHERE segment < ?", segment) }

// Clear removes all blocks.
func (x *Index) Clear() error { return x.forget("") }

func (x *Index) forget(which string, args ...any) error {
	return x.exec(context.Background(), "delete a part of the index of the audit log", write("DELETE FROM blocks "+which, args...))
}
