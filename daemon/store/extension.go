package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Extension is an installed extension, which a person has accepted.
type Extension struct {
	Name      string
	Listing   []byte    // content of its folder when it was accepted
	Manifest  []byte    // the manifest in the folder
	Installed time.Time // UTC, microseconds
	Decider   string    // who accepted it
}

var extensions = newTable("extensions", func(e *Extension) []column {
	return []column{
		{"name", &e.Name}, {"listing", &e.Listing}, {"manifest", &e.Manifest}, {"installed", stamp(&e.Installed)},
		{"decider", &e.Decider},
	}
})

// KeepExtension stores e and replaces an extension with the same name.
func (db *DB) KeepExtension(ctx context.Context, e *Extension) error {
	return db.exec(ctx, "save extension "+e.Name, extensions.replace(e))
}

// DropExtension removes an installed extension; it is no error if it is not installed.
// The extension's own data is kept, unless purge is set.
func (db *DB) DropExtension(ctx context.Context, name string, purge bool) error {
	all := []statement{write(`DELETE FROM extensions WHERE name = ?`, name)}
	if purge {
		all = append(all, write(`DELETE FROM extension_values WHERE extension = ?`, name), write(`DELETE FROM extension_memory WHERE extension = ?`, name))
	}
	return db.erase(ctx, "delete extension "+name, all...)
}

// CountMemory returns the number of records in an extension's memory.
func (db *DB) CountMemory(ctx context.Context, extension string) (n int, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT count(*) FROM extension_memory WHERE extension = ?`, extension).Scan(&n)
	return n, wrapError("read the memory of extension "+extension, err)
}

// Extensions returns all extensions, sorted by name.
func (db *DB) Extensions(ctx context.Context) ([]Extension, error) {
	return extensions.all(ctx, db, "read extensions", "ORDER BY name")
}

// ExtensionValues returns the extension's own configuration.
func (db *DB) ExtensionValues(ctx context.Context, extension string) (map[string]string, error) {
	values := map[string]string{}
	err := db.each(ctx, "read the configuration of extension "+extension, func(scan func(...any) error) error {
		var key, value string
		err := scan(&key, &value)
		values[key] = value
		return err
	}, `SELECT key, value FROM extension_values WHERE extension = ?`, extension)
	return values, err
}

// SetExtensionValue sets one value. It fails with gate.ErrTooLarge if there would be more
// than most keys.
func (db *DB) SetExtensionValue(ctx context.Context, extension, key, value string, most int) error {
	ctx = context.WithoutCancel(ctx)
	return wrapError("configure extension "+extension, db.inTransaction(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO extension_values (extension, key, value) VALUES (?, ?, ?)`, extension, key, value)
		if err != nil {
			return err
		}
		var n int
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM extension_values WHERE extension = ?`, extension).Scan(&n)
		if err == nil && n > most {
			err = fmt.Errorf("%w: at most %d values are stored", gate.ErrTooLarge, most)
		}
		return err
	}))
}

// Memory is one record in an extension's memory.
type Memory struct {
	Written time.Time // UTC, milliseconds
	Content string
	Tags    []string
	Meta    []byte // raw JSON, or nil
}

// MemoryBounds limits the memory of one extension. The oldest records are dropped first.
type MemoryBounds struct {
	Records int
	Bytes   int64
}

// AppendMemory adds a record and drops the extension's oldest ones until its memory is
// within bounds. The record alone must be within bounds.
func (db *DB) AppendMemory(ctx context.Context, extension string, m *Memory, bounds MemoryBounds) error {
	tags, err := json.Marshal(m.Tags)
	if err != nil {
		return wrapError("write the memory of extension "+extension, err)
	}
	ctx = context.WithoutCancel(ctx)
	return wrapError("write the memory of extension "+extension, db.inTransaction(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO extension_memory (extension, written, content, tags, meta, size) VALUES (?, ?, ?, ?, ?, ?)`,
			extension, m.Written.UnixMilli(), m.Content, string(tags), string(m.Meta), len(m.Content)+len(tags)+len(m.Meta))
		for err == nil {
			var n int
			var bytes, oldest int64
			err = tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(size), 0), coalesce(min(n), 0) FROM extension_memory WHERE extension = ?`, extension).Scan(&n, &bytes, &oldest)
			if err != nil || n <= bounds.Records && bytes <= bounds.Bytes {
				break
			}
			_, err = tx.ExecContext(ctx, `DELETE FROM extension_memory WHERE n = ?`, oldest)
		}
		return err
	}))
}

var errEnough = errors.New("enough")

// EachMemory calls see for an extension's records from since to until, both inclusive,
// newest first, until see returns false. A zero time is no bound.
func (db *DB) EachMemory(ctx context.Context, extension string, since, until time.Time, see func(*Memory) bool) error {
	from, to := int64(0), int64(1)<<62
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	if !until.IsZero() {
		to = until.UnixMilli()
	}
	err := db.each(ctx, "read the memory of extension "+extension, func(scan func(...any) error) error {
		var m Memory
		var written int64
		if err := scan(&written, &m.Content, jsonText(&m.Tags), text(&m.Meta)); err != nil {
			return err
		}
		m.Written = time.UnixMilli(written).UTC()
		if !see(&m) {
			return errEnough
		}
		return nil
	}, `SELECT written, content, tags, meta FROM extension_memory
		WHERE extension = ? AND written BETWEEN ? AND ? ORDER BY n DESC`, extension, from, to)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
