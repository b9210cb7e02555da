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

// KeepExtension writes e in place of the one of that name.
func (db *DB) KeepExtension(ctx context.Context, e *Extension) error {
	_, _, err := db.change(ctx, `INSERT INTO extensions (name, listing, manifest, installed, decider) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET listing = excluded.listing, manifest = excluded.manifest,
			installed = excluded.installed, decider = excluded.decider`,
		e.Name, e.Listing, e.Manifest, micros(e.Installed), e.Decider)
	if err != nil {
		return fmt.Errorf("keep extension %s: %w", e.Name, err)
	}
	return nil
}

// DropExtension forgets that an extension is installed; one that is not is no error.
// What it has kept stays, unless it is to be purged.
func (db *DB) DropExtension(ctx context.Context, name string, purge bool) error {
	ctx = context.WithoutCancel(ctx)
	statements := []string{`DELETE FROM extensions WHERE name = ?`}
	if purge {
		statements = append(statements, `DELETE FROM extension_values WHERE extension = ?`, `DELETE FROM extension_memory WHERE extension = ?`)
	}
	err := db.together(ctx, func(tx *sql.Tx) error {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("erase extension %s: %w", name, err)
	}
	db.erased(ctx)
	return nil
}

// CountMemory returns how many records an extension has written down.
func (db *DB) CountMemory(ctx context.Context, extension string) (n int, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT count(*) FROM extension_memory WHERE extension = ?`, extension).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read the memory of extension %s: %w", extension, err)
	}
	return n, nil
}

// Extensions returns every extension that is kept, by name.
func (db *DB) Extensions(ctx context.Context) ([]Extension, error) {
	var all []Extension
	err := db.each(ctx, `SELECT name, listing, manifest, installed, decider FROM extensions ORDER BY name`, func(scan func(...any) error) error {
		var e Extension
		var installed int64
		err := scan(&e.Name, &e.Listing, &e.Manifest, &installed, &e.Decider)
		e.Installed = fromMicros(installed)
		all = append(all, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read extensions: %w", err)
	}
	return all, nil
}

// ExtensionValues returns what was set in an extension's own configuration.
func (db *DB) ExtensionValues(ctx context.Context, extension string) (map[string]string, error) {
	values := map[string]string{}
	err := db.each(ctx, `SELECT key, value FROM extension_values WHERE extension = ?`, func(scan func(...any) error) error {
		var key, value string
		err := scan(&key, &value)
		values[key] = value
		return err
	}, extension)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of extension %s: %w", extension, err)
	}
	return values, nil
}

// SetExtensionValue sets one value. One key more than most is gate.ErrTooLarge.
func (db *DB) SetExtensionValue(ctx context.Context, extension, key, value string, most int) error {
	ctx = context.WithoutCancel(ctx)
	err := db.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO extension_values (extension, key, value) VALUES (?, ?, ?)
			ON CONFLICT (extension, key) DO UPDATE SET value = excluded.value`, extension, key, value)
		if err != nil {
			return err
		}
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM extension_values WHERE extension = ?`, extension).Scan(&n); err != nil {
			return err
		}
		if n > most {
			return fmt.Errorf("%w: at most %d values are kept", gate.ErrTooLarge, most)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("configure extension %s: %w", extension, err)
	}
	return nil
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
		return fmt.Errorf("write the memory of extension %s: %w", extension, err)
	}
	ctx = context.WithoutCancel(ctx)
	size := len(m.Content) + len(tags) + len(m.Meta)
	err = db.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO extension_memory (extension, written, content, tags, meta, size) VALUES (?, ?, ?, ?, ?, ?)`,
			extension, m.Written.UnixMilli(), m.Content, string(tags), string(m.Meta), size)
		if err != nil {
			return err
		}
		for {
			var n int
			var bytes, oldest int64
			err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(size), 0), coalesce(min(n), 0) FROM extension_memory WHERE extension = ?`, extension).Scan(&n, &bytes, &oldest)
			if err != nil || n <= bounds.Records && bytes <= bounds.Bytes {
				return err
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM extension_memory WHERE n = ?`, oldest); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("write the memory of extension %s: %w", extension, err)
	}
	return nil
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
	err := db.each(ctx, `SELECT written, content, tags, meta FROM extension_memory
		WHERE extension = ? AND written BETWEEN ? AND ? ORDER BY n DESC`, func(scan func(...any) error) error {
		var m Memory
		var written int64
		var tags, meta []byte
		if err := scan(&written, &m.Content, &tags, &meta); err != nil {
			return err
		}
		if err := json.Unmarshal(tags, &m.Tags); err != nil {
			return fmt.Errorf("tags: %w", err)
		}
		m.Written = time.UnixMilli(written).UTC()
		if len(meta) > 0 {
			m.Meta = meta
		}
		if !see(&m) {
			return errEnough
		}
		return nil
	}, extension, from, to)
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read the memory of extension %s: %w", extension, err)
	}
	return nil
}
