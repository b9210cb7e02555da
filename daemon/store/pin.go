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

// Launch is an MCP server as pins tell it from others: its id, and what is
// started under it.
type Launch struct {
	Server   string
	Launch   string // hex SHA-256 over the resolved command and its arguments
	Command  []string
	First    time.Time // it was first seen; UTC, microseconds, as all times here
	Seen     time.Time // it was last seen, to the hour or so
	Accepted bool      // false: a stranger under a known id
	Decider  string    // who accepted it; empty for the first of its id
}

// Definition is what a server says of a tool, prompt or template.
type Definition struct {
	Digest []byte // SHA-256 over Raw as it was offered
	Raw    []byte // nil when it was too large to be kept, and where it is not asked for
	About  []byte // JSON, of whoever keeps it
}

// Pin is what was accepted of one tool, prompt or template, and what is offered
// in its place. Of both only Digest and About are filled in by Pins.
type Pin struct {
	Server string
	Launch string
	Kind   string
	Name   string

	Accepted Definition // without Digest: none ever was
	Since    time.Time
	Decider  string // who accepted it; empty at first sight

	Offered Definition // without Digest: nothing waits
	Noticed time.Time
	Why     string // it waits
}

// View is what one attachment's server has shown.
type View struct {
	Attachment string
	Server     string
	Launch     string
	Offers     []byte // JSON, of whoever keeps it
}

// PinChange is what is kept together, or not at all. Each row replaces the one
// of the same name.
type PinChange struct {
	Launches []Launch
	Pins     []Pin
	Views    []View
}

// KeepPins writes a change. A Pin must name a Launch that is kept. Definitions
// that no pin names any more are erased.
func (db *DB) KeepPins(ctx context.Context, change PinChange) error {
	err := db.together(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		for i := range change.Launches {
			if err := keepLaunch(ctx, tx, &change.Launches[i]); err != nil {
				return err
			}
		}
		for i := range change.Pins {
			if err := keepPin(ctx, tx, &change.Pins[i]); err != nil {
				return err
			}
		}
		for _, v := range change.Views {
			_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO views (attachment, server, launch, offers) VALUES (?, ?, ?, ?)`,
				v.Attachment, v.Server, v.Launch, string(v.Offers))
			if err != nil {
				return err
			}
		}
		return dropDefinitions(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("keep pins: %w", err)
	}
	return nil
}

func keepLaunch(ctx context.Context, tx *sql.Tx, l *Launch) error {
	command, err := json.Marshal(l.Command)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO launches (server, launch, command, first, seen, accepted, decider)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (server, launch) DO UPDATE SET seen = excluded.seen, accepted = excluded.accepted, decider = excluded.decider`,
		l.Server, l.Launch, string(command), micros(l.First), micros(l.Seen), l.Accepted, l.Decider)
	return err
}

func keepPin(ctx context.Context, tx *sql.Tx, p *Pin) error {
	for _, d := range []Definition{p.Accepted, p.Offered} {
		if d.Digest == nil {
			continue
		}
		// What is known of a definition stays: a change may name it by its digest.
		_, err := tx.ExecContext(ctx, `INSERT INTO definitions (digest, raw, about) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			d.Digest, d.Raw, string(d.About))
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO pins (server, launch, kind, name, accepted, since, decider, offered, noticed, why)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		p.Server, p.Launch, p.Kind, p.Name, p.Accepted.Digest, micros(p.Since), p.Decider, p.Offered.Digest, micros(p.Noticed), p.Why)
	return err
}

func dropDefinitions(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM definitions WHERE
		NOT EXISTS (SELECT 1 FROM pins WHERE accepted = digest) AND NOT EXISTS (SELECT 1 FROM pins WHERE offered = digest)`)
	return err
}

// DropLaunch forgets a launch of a server with all of its pins.
func (db *DB) DropLaunch(ctx context.Context, server, launch string) error {
	err := db.together(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM launches WHERE server = ? AND launch = ?`, server, launch); err != nil {
			return err
		}
		return dropDefinitions(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("forget a launch of %q: %w", server, err)
	}
	return nil
}

// DropView forgets what the server of an attachment has shown.
func (db *DB) DropView(ctx context.Context, attachment string) error {
	if _, _, err := db.change(ctx, `DELETE FROM views WHERE attachment = ?`, attachment); err != nil {
		return fmt.Errorf("forget an attachment: %w", err)
	}
	return nil
}

// Launches returns every server and launch that is known.
func (db *DB) Launches(ctx context.Context) ([]Launch, error) {
	var all []Launch
	err := db.each(ctx, `SELECT server, launch, command, first, seen, accepted, decider FROM launches`, func(scan func(...any) error) error {
		var l Launch
		var command []byte
		var first, seen int64
		if err := scan(&l.Server, &l.Launch, &command, &first, &seen, &l.Accepted, &l.Decider); err != nil {
			return err
		}
		l.First, l.Seen = fromMicros(first), fromMicros(seen)
		err := json.Unmarshal(command, &l.Command)
		all = append(all, l)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read servers: %w", err)
	}
	return all, nil
}

// Pins returns every pin, without the definitions themselves.
func (db *DB) Pins(ctx context.Context) ([]Pin, error) {
	var all []Pin
	err := db.each(ctx, `SELECT server, launch, kind, name, accepted, since, decider, offered, noticed, why,
		(SELECT about FROM definitions WHERE digest = accepted), (SELECT about FROM definitions WHERE digest = offered) FROM pins`,
		func(scan func(...any) error) error {
			var p Pin
			var since, noticed int64
			err := scan(&p.Server, &p.Launch, &p.Kind, &p.Name, &p.Accepted.Digest, &since, &p.Decider, &p.Offered.Digest, &noticed, &p.Why,
				&p.Accepted.About, &p.Offered.About)
			p.Since, p.Noticed = fromMicros(since), fromMicros(noticed)
			all = append(all, p)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read pins: %w", err)
	}
	return all, nil
}

// Views returns what the servers of attachments have shown.
func (db *DB) Views(ctx context.Context) ([]View, error) {
	var all []View
	err := db.each(ctx, `SELECT attachment, server, launch, offers FROM views`, func(scan func(...any) error) error {
		var v View
		err := scan(&v.Attachment, &v.Server, &v.Launch, &v.Offers)
		all = append(all, v)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what servers have shown: %w", err)
	}
	return all, nil
}

// Definition returns the definition with that digest as it was offered, nil when
// it was too large to be kept. gate.ErrNotFound means that no pin names it.
func (db *DB) Definition(ctx context.Context, digest []byte) ([]byte, error) {
	var raw []byte
	err := db.sql.QueryRowContext(ctx, `SELECT raw FROM definitions WHERE digest = ?`, digest).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		err = gate.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("definition %x: %w", digest, err)
	}
	return raw, nil
}
