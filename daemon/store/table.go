package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// column is a column of a table and a pointer to its value, from which a row is written
// and into which it is read.
type column struct {
	name  string
	value any
}

// table defines how a T is stored as a row of a table.
type table[T any] struct {
	name    string
	columns func(*T) []column // always the same columns, in the same order
	names   string            // of the columns, in SQL
}

func newTable[T any](name string, columns func(*T) []column) *table[T] {
	var names []string
	for _, c := range columns(new(T)) {
		names = append(names, c.name)
	}
	return &table[T]{name, columns, strings.Join(names, ", ")}
}

// values returns pointers to the values of the columns.
func (t *table[T]) values(row *T) []any {
	columns := t.columns(row)
	all := make([]any, len(columns))
	for i, c := range columns {
		all[i] = c.value
	}
	return all
}

// insert returns the statement that adds a row.
func (t *table[T]) insert(row *T) statement { return t.write("INSERT", row) }

// replace returns the statement that adds a row, or replaces the one with its key.
func (t *table[T]) replace(row *T) statement { return t.write("INSERT OR REPLACE", row) }

func (t *table[T]) write(verb string, row *T) statement {
	values := t.values(row)
	return write(verb+" INTO "+t.name+" ("+t.names+") VALUES (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
}

// all returns the rows selected by rest, the part of a SELECT after the table name. doing
// is the context of its errors.
func (t *table[T]) all(ctx context.Context, db *DB, doing, rest string, args ...any) ([]T, error) {
	var rows []T
	if err := t.each(ctx, db, doing, func(row T) { rows = append(rows, row) }, rest, args...); err != nil {
		return nil, err
	}
	return rows, nil
}

// one returns the row selected by rest, or gate.ErrNotFound.
func (t *table[T]) one(ctx context.Context, db *DB, doing, rest string, args ...any) (row T, err error) {
	found := false
	err = t.each(ctx, db, doing, func(r T) { row, found = r, true }, rest, args...)
	if err == nil && !found {
		err = wrapError(doing, gate.ErrNotFound)
	}
	return row, err
}

// each calls see with each selected row. It does not collect the rows.
func (t *table[T]) each(ctx context.Context, db *DB, doing string, see func(T), rest string, args ...any) error {
	return db.each(ctx, doing, func(scan func(...any) error) error {
		var row T
		err := scan(t.values(&row)...)
		if err == nil {
			see(row)
		}
		return err
	}, "SELECT "+t.names+" FROM "+t.name+" "+rest, args...)
}

// statement is a statement that writes, with its arguments.
type statement struct {
	text string
	args []any
	must bool // if no row changes, it fails with gate.ErrDecided
}

// write returns a statement that may change nothing.
func write(text string, args ...any) statement { return statement{text: text, args: args} }

// update returns a statement that fails with gate.ErrDecided if it changes nothing.
func update(text string, args ...any) statement { return statement{text, args, true} }

// or adds what an insertion does in case of a conflict.
func (s statement) or(conflict string) statement {
	s.text += " ON CONFLICT " + conflict
	return s
}

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// run executes the statement and returns the id of the added row, if any.
func (s statement) run(ctx context.Context, in execer) (id int64, err error) {
	result, err := in.ExecContext(ctx, s.text, s.args...)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); s.must && (err != nil || n == 0) {
		if err == nil {
			err = gate.ErrDecided
		}
		return 0, err
	}
	return result.LastInsertId()
}

// exec runs statements in one transaction. doing is the context of its errors.
func (db *DB) exec(ctx context.Context, doing string, all ...statement) error {
	_, err := db.add(ctx, doing, all...)
	return err
}

// erase is like exec, for statements that erase something, and also erases it on disk.
func (db *DB) erase(ctx context.Context, doing string, all ...statement) error {
	err := db.exec(ctx, doing, all...)
	if err == nil {
		// The write-ahead log contains the old pages until it is emptied.
		db.mu.Lock()
		db.stale = true
		db.mu.Unlock()
		db.empty(context.WithoutCancel(ctx))
	}
	return err
}

// add is like exec, and returns the id of the row added by the first statement.
func (db *DB) add(ctx context.Context, doing string, all ...statement) (id int64, err error) {
	// The caller must know whether a statement took effect, so a canceled ctx does not
	// interrupt it.
	ctx = context.WithoutCancel(ctx)
	if len(all) == 1 {
		id, err = all[0].run(ctx, db.sql)
		return id, wrapError(doing, err)
	}
	err = db.inTransaction(ctx, func(tx *sql.Tx) error {
		for i, s := range all {
			n, err := s.run(ctx, tx)
			if err != nil {
				return err
			}
			if i == 0 {
				id = n
			}
		}
		return nil
	})
	return id, wrapError(doing, err)
}

// execUnsynced runs a statement without waiting for stable storage. What it has written survives
// the daemon but, until something else is written, not the system. The file stays consistent.
func (db *DB) execUnsynced(ctx context.Context, doing string, s statement) error {
	ctx = context.WithoutCancel(ctx)
	conn, err := db.sql.Conn(ctx) // the only one
	if err != nil {
		return wrapError(doing, err)
	}
	defer conn.Close()
	_, err = conn.ExecContext(ctx, "PRAGMA synchronous = NORMAL")
	if err == nil {
		_, err = s.run(ctx, conn)
	}
	if _, again := conn.ExecContext(ctx, "PRAGMA synchronous = FULL"); again != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the next connection is opened with it
	}
	return wrapError(doing, err)
}

// inTransaction runs do in one transaction.
func (db *DB) inTransaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := db.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		// The error of do says what went wrong.
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// each calls see for each row of a query, with a function that scans its columns.
func (db *DB) each(ctx context.Context, doing string, see func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := db.sql.QueryContext(ctx, query, args...)
	if err != nil {
		return wrapError(doing, err)
	}
	defer rows.Close() // its error is that of the last row
	for rows.Next() {
		if err := see(rows.Scan); err != nil {
			return wrapError(doing, err)
		}
	}
	return wrapError(doing, rows.Err())
}

// wrapError adds to an error what was being done; nil stays nil.
func wrapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
