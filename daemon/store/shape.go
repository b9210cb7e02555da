package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Listing is what a server, as it was launched, has listed of its tools.
type Listing struct {
	Server string
	Launch string    // hex SHA-256 over the resolved command and its arguments
	Listed time.Time // last; UTC, microseconds
	Tools  []Shape
}

// Shape is what one tool takes.
type Shape struct {
	Tool  string
	Takes []byte // of internal/shape; nil when Fault says why there is none
	Fault string
}

// KeepListing keeps l, in place of what was kept of its server and launch.
func (db *DB) KeepListing(ctx context.Context, l *Listing) error {
	ctx = context.WithoutCancel(ctx)
	err := db.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM listings WHERE server = ? AND launch = ?`, l.Server, l.Launch)
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, `INSERT INTO listings (server, launch, listed) VALUES (?, ?, ?)`, l.Server, l.Launch, micros(l.Listed)); err != nil {
			return err
		}
		for _, t := range l.Tools {
			_, err := tx.ExecContext(ctx, `INSERT INTO shapes (server, launch, tool, takes, fault) VALUES (?, ?, ?, ?, ?)`,
				l.Server, l.Launch, t.Tool, t.Takes, t.Fault)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep the tools of %q: %w", l.Server, err)
	}
	return nil
}

// DropListing forgets what a server has listed; nothing kept is no error.
func (db *DB) DropListing(ctx context.Context, server, launch string) error {
	if _, _, err := db.change(ctx, `DELETE FROM listings WHERE server = ? AND launch = ?`, server, launch); err != nil {
		return fmt.Errorf("forget the tools of %q: %w", server, err)
	}
	return nil
}

// Listings returns what all servers have listed, the last one first.
func (db *DB) Listings(ctx context.Context) ([]Listing, error) {
	var all []Listing
	places := map[[2]string]int{}
	err := db.each(ctx, `SELECT server, launch, listed FROM listings ORDER BY listed DESC, server, launch`, func(scan func(...any) error) error {
		var l Listing
		var listed int64
		err := scan(&l.Server, &l.Launch, &listed)
		l.Listed = fromMicros(listed)
		places[[2]string{l.Server, l.Launch}] = len(all)
		all = append(all, l)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the tools of servers: %w", err)
	}
	err = db.each(ctx, `SELECT server, launch, tool, takes, fault FROM shapes ORDER BY tool`, func(scan func(...any) error) error {
		var server, launch string
		var t Shape
		if err := scan(&server, &launch, &t.Tool, &t.Takes, &t.Fault); err != nil {
			return err
		}
		if i, ok := places[[2]string{server, launch}]; ok {
			all[i].Tools = append(all[i].Tools, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tools of servers: %w", err)
	}
	return all, nil
}

// KeepStanding keeps the digest of the policy set that is in force.
func (db *DB) KeepStanding(ctx context.Context, digest string) error {
	if _, _, err := db.change(ctx, `INSERT OR REPLACE INTO standing (one, digest) VALUES (1, ?)`, digest); err != nil {
		return fmt.Errorf("keep which set is in force: %w", err)
	}
	return nil
}

// Standing returns the digest of the policy set that was in force last, empty
// when none was.
func (db *DB) Standing(ctx context.Context) (string, error) {
	var digest string
	err := db.sql.QueryRowContext(ctx, `SELECT digest FROM standing`).Scan(&digest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read which set was in force: %w", err)
	}
	return digest, nil
}
