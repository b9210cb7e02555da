package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// column is a column of a table, and a pointer to what it holds: a row is read into
// it and written from it.
type column struct {
	name  string
	value any
}

// table says how a T is kept as a row of a table.
type table[T any] struct {
	name    string
	columns func(*T) []column // always the same ones, in the same order
	names   string            // of the columns, as SQL has them
}

func newTable[T any](name string, columns func(*T) []column) *table[T] {
	var names []string
	for _, c := range columns(new(T)) {
		names = append(names, c.name)
	}
	return &table[T]{name, columns, strings.Join(names, ", ")}
}

// values returns pointers to what is in the columns.
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

// all returns the rows that the rest of a SELECT names. Its error says what was
// being done.
func (t *table[T]) all(ctx context.Context, db *DB, doing, rest string, args ...any) ([]T, error) {
	var rows []T
	if err := t.each(ctx, db, doing, func(row T) { rows = append(rows, row) }, rest, args...); err != nil {
		return nil, err
	}
	return rows, nil
}

// one returns the row that the rest of a SELECT names, or gate.ErrNotFound.
func (t *table[T]) one(ctx context.Context, db *DB, doing, rest string, args ...any) (row T, err error) {
	found := false
	err = t.each(ctx, db, doing, func(r T) { row, found = r, true }, rest, args...)
	if err == nil && !found {
		err = while(doing, gate.ErrNotFound)
	}
	return row, err
}

// each calls see with those rows, and holds none of them.
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

// statement is one that writes, with its arguments.
type statement struct {
	text string
	args []any
	must bool // change a row, or it fails with gate.ErrDecided
}

// write returns a statement that may change nothing.
func write(text string, args ...any) statement { return statement{text: text, args: args} }

// update returns a statement that fails with gate.ErrDecided when it changes nothing.
func update(text string, args ...any) statement { return statement{text, args, true} }

// or returns an insertion that does something else where it would fail.
func (s statement) or(conflict string) statement {
	s.text += " ON CONFLICT " + conflict
	return s
}

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// run runs the statement and returns the id of the row that it added, if it did.
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

// exec runs statements: all take effect or none. Its error says what was being done.
func (db *DB) exec(ctx context.Context, doing string, all ...statement) error {
	_, err := db.add(ctx, doing, all...)
	return err
}

// erase is exec for statements that erase something, which is then erased on disk too.
func (db *DB) erase(ctx context.Context, doing string, all ...statement) error {
	err := db.exec(ctx, doing, all...)
	if err == nil {
		// The write-ahead log holds pages as they were before, until it is emptied.
		db.mu.Lock()
		db.stale = true
		db.mu.Unlock()
		db.empty(context.WithoutCancel(ctx))
	}
	return err
}

// add is exec that returns the id of the row which the first statement added.
func (db *DB) add(ctx context.Context, doing string, all ...statement) (id int64, err error) {
	// Whether a statement took effect must be known: it is not left half-way
	// because a caller has gone.
	ctx = context.WithoutCancel(ctx)
	if len(all) == 1 {
		id, err = all[0].run(ctx, db.sql)
		return id, while(doing, err)
	}
	err = db.together(ctx, func(tx *sql.Tx) error {
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
	return id, while(doing, err)
}

// together runs do in one transaction: all of it is kept, or nothing.
func (db *DB) together(ctx context.Context, do func(*sql.Tx) error) error {
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

// each calls see for every row of a query, with what reads its columns.
func (db *DB) each(ctx context.Context, doing string, see func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := db.sql.QueryContext(ctx, query, args...)
	if err != nil {
		return while(doing, err)
	}
	defer rows.Close() // whose error is that of the last row
	for rows.Next() {
		if err := see(rows.Scan); err != nil {
			return while(doing, err)
		}
	}
	return while(doing, rows.Err())
}

// while says of an error what was being done; nil stays nil.
func while(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
