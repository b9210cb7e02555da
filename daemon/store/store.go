// Package store keeps the state that must survive a restart of the daemon, such as
// questions for people and sessions whose files must be restored. It is one SQLite file,
// state.db.
//
// The file is not evidence; the audit log is. When a question has ended, what it shows is
// erased from the file, not merely marked as deleted.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite" // registers the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// DB is an open state.db. Its methods are safe for concurrent use. What a method has
// written is on stable storage when it returns, unless its comment says otherwise.
type DB struct {
	sql  *sql.DB
	path string

	mu    sync.Mutex
	stale bool // erased bytes may still be in the write-ahead log
}

// Open opens the file at path and brings it to the current version. It creates the file
// and its folder if necessary. gate.ErrVersion means that a newer program wrote the file.
func Open(path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	db, err := openFile(path, migrations, "synchronous(FULL)", "secure_delete(ON)", "cache_size(-512)")
	if err != nil {
		return nil, fmt.Errorf("open state %s: %w%s", path, err, remedy(path, err))
	}
	db.stale = true // the previous daemon may have erased something just before it died
	db.empty(context.Background())
	return db, nil
}

// openFile opens a file, creates it if necessary, and brings it to the version after the
// last step.
func openFile(path string, steps []string, pragmas ...string) (*DB, error) {
	if err := claim(path); err != nil {
		return nil, err
	}
	handle, err := sql.Open("sqlite", source(path, pragmas...))
	if err != nil {
		return nil, err
	}
	// One connection: the driver has a single lock anyway, and without concurrent readers
	// the write-ahead log can always be emptied.
	handle.SetMaxOpenConns(1)
	db := &DB{sql: handle, path: path}
	if err := db.migrate(context.Background(), steps); err != nil { // it is local and short
		// The first error counts; nothing was written.
		_ = handle.Close()
		return nil, err
	}
	return db, nil
}

// Explain adds to err what to do about it, if the cause is a corrupt file or a full disk.
// It is for callers that have opened db and then could not read from it. Any other err is
// returned unchanged.
func (db *DB) Explain(err error) error {
	if what := remedy(db.path, err); what != "" {
		return fmt.Errorf("%w%s", err, what)
	}
	return err
}

// remedy returns what to do about a file that is corrupt or not a database, and about a
// full disk; empty for any other error.
func remedy(path string, err error) string {
	var broken *sqlite.Error
	if !errors.As(err, &broken) {
		return ""
	}
	switch broken.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return "; check whether the disk of " + filepath.Dir(path) + " is full"
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return "; move " + path + " away to start with an empty state (" + path + "with its -wal and -shm files): waiting questions are lost, and `tgctl unwrap` restores files that a wrap left rewritten"
	}
	return ""
}

// claim creates the file if necessary, accessible to its owner only. It refuses a link
// and a file of another user. SQLite gives its other files the same mode.
func claim(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &stat)
	switch {
	case err != nil:
	case int(stat.Uid) != os.Geteuid():
		err = fmt.Errorf("%s belongs to another user (uid %d)", path, stat.Uid)
	default:
		err = f.Chmod(0o600)
	}
	return errors.Join(err, f.Close())
}

// source returns the driver's name for the file, with its options.
func source(path string, pragmas ...string) string {
	options := url.Values{
		"_txlock":    {"immediate"},
		"_defensive": {"1"},
		"_dqs":       {"0"},
		"_pragma": append([]string{"busy_timeout(5000)", "journal_mode(WAL)", "foreign_keys(ON)",
			"temp_store(MEMORY)", "trusted_schema(OFF)"}, pragmas...),
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: options.Encode()}
	return u.String()
}

// Close closes the file.
func (db *DB) Close() error {
	// Closing empties the write-ahead log, unless another program reads.
	return wrapError("close state", db.sql.Close())
}

// empty empties the write-ahead log if something was erased. If that fails, because
// another program reads the file or the disk is full, it is retried after the next write
// and when the file is closed.
func (db *DB) empty(ctx context.Context) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.stale {
		return
	}
	var busy, pages, done int
	err := db.sql.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &done)
	db.stale = err != nil || busy != 0
}
