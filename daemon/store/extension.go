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

// Extension is a program of the user's that a person has agreed to run.
type Extension struct {
	Name      string
	Listing   []byte    // what its folder held then
	Manifest  []byte    // the manifest in it
	Installed time.Time // UTC, microseconds
	Decider   string    // who agreed
}

var extensions = newTable("extensions", func(e *Extension) []column {
	return []column{
		{"name", &e.Name}, {"listing", &e.Listing}, {"manifest", &e.Manifest}, {"installed", stamp(&e.Installed)},
		{"decider", &e.Decider},
	}
})

// KeepExtension writes e in place of the one of that name.
func (db *DB) KeepExtension(ctx context.Context, e *Extension) error {
	return db.exec(ctx, "keep extension "+e.Name, extensions.replace(e))
}

// DropExtension forgets that an extension is installed; one that is not is no error.
// What it has kept stays, unless it is to be purged.
func (db *DB) DropExtension(ctx context.Context, name string, purge bool) error {
	all := []statement{write(`DELETE FROM extensions WHERE name = ?`, name)}
	if purge {
		all = append(all, write(`DELETE FROM extension_values WHERE extension = ?`, name), write(`DELETE FROM extension_memory WHERE extension = ?`, name))
	}
	return db.erase(ctx, "erase extension "+name, all...)
}

// CountMemory returns how many records an extension has written down.
func (db *DB) CountMemory(ctx context.Context, extension string) (n int, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT count(*) FROM extension_memory WHERE extension = ?`, extension).Scan(&n)
	return n, while("read the memory of extension "+extension, err)
}

// Extensions returns every extension that is kept, by name.
func (db *DB) Extensions(ctx context.Context) ([]Extension, error) {
	return extensions.all(ctx, db, "read extensions", "ORDER BY name")
}

// ExtensionValues returns what was set in an extension's own configuration.
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

// SetExtensionValue sets one value. One key more than most is gate.ErrTooLarge.
func (db *DB) SetExtensionValue(ctx context.Context, extension, key, value string, most int) error {
	ctx = context.WithoutCancel(ctx)
	return while("configure extension "+extension, db.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO extension_values (extension, key, value) VALUES (?, ?, ?)`, extension, key, value)
		if err != nil {
			return err
		}
		var n int
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM extension_values WHERE extension = ?`, extension).Scan(&n)
		if err == nil && n > most {
			err = fmt.Errorf("%w: at most %d values are kept", gate.ErrTooLarge, most)
		}
		return err
	}))
}

// Memory is something that an extension has written down.
type Memory struct {
	Written time.Time // UTC, milliseconds
	Content string
	Tags    []string
	Meta    []byte // raw JSON, or nil
}

// MemoryBounds is how much is kept for one extension. The oldest goes first.
type MemoryBounds struct {
	Records int
	Bytes   int64
}

// AppendMemory keeps a record and drops the oldest of the extension until what is
// kept is within bounds, which the record alone must be.
func (db *DB) AppendMemory(ctx context.Context, extension string, m *Memory, bounds MemoryBounds) error {
	tags, err := json.Marshal(m.Tags)
	if err != nil {
		return while("write the memory of extension "+extension, err)
	}
	ctx = context.WithoutCancel(ctx)
	return while("write the memory of extension "+extension, db.together(ctx, func(tx *sql.Tx) error {
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

// EachMemory calls see for what an extension wrote down from since to until, both
// included, the newest first, until see returns false. A zero time is no bound.
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
