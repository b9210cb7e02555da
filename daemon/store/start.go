package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// StartKey names a way of starting a server of a project.
type StartKey struct {
	Project string // absolute path of its folder
	Server  string
	Digest  []byte // SHA-256 over all that a person agrees to
}

// Start is a way of starting a server of a project that a person has agreed to, or
// is to look at.
type Start struct {
	StartKey
	Shown    []byte    // JSON, of whoever keeps it: what the person sees
	Noticed  time.Time // UTC, microseconds, as all times here
	Accepted time.Time // zero: nobody has agreed
	Decider  string    // who has
}

// KeepStart writes a start in place of the one of the same name and forgets those
// in gone: all of it, or nothing.
func (db *DB) KeepStart(ctx context.Context, s *Start, gone []StartKey) error {
	err := db.together(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		for _, k := range gone {
			if _, err := tx.ExecContext(ctx, dropStart, k.Project, k.Server, k.Digest); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO starts (project, server, digest, shown, noticed, accepted, decider)
			VALUES (?, ?, ?, ?, ?, ?, ?)`,
			s.Project, s.Server, s.Digest, string(s.Shown), micros(s.Noticed), micros(s.Accepted), s.Decider)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep what may be started: %w", err)
	}
	return nil
}

const dropStart = `DELETE FROM starts WHERE project = ? AND server = ? AND digest = ?`

// DropStart forgets a start, if it is kept.
func (db *DB) DropStart(ctx context.Context, k StartKey) error {
	if _, _, err := db.change(ctx, dropStart, k.Project, k.Server, k.Digest); err != nil {
		return fmt.Errorf("forget what may be started: %w", err)
	}
	return nil
}

// Starts returns every start that is kept.
func (db *DB) Starts(ctx context.Context) ([]Start, error) {
	var all []Start
	err := db.each(ctx, `SELECT project, server, digest, shown, noticed, accepted, decider FROM starts`, func(scan func(...any) error) error {
		var s Start
		var noticed, accepted int64
		err := scan(&s.Project, &s.Server, &s.Digest, &s.Shown, &noticed, &accepted, &s.Decider)
		s.Noticed, s.Accepted = fromMicros(noticed), fromMicros(accepted)
		all = append(all, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what may be started: %w", err)
	}
	return all, nil
}
