package store

import (
	"context"
	"fmt"
	"time"
)

// Protection is a rewrite of an agent's files that lasts until it is undone.
type Protection struct {
	ID     string
	Agent  string    // agent type
	Since  time.Time // UTC, microseconds
	Ending bool      // it is being undone
	Text   []byte    // internal/agentconf's own record of it
}

// PutProtection keeps p, in place of what was kept under its ID. A text may hold
// what a file held; the one before does not stay behind.
func (db *DB) PutProtection(ctx context.Context, p *Protection) error {
	_, _, err := db.change(ctx, `INSERT OR REPLACE INTO protections (id, agent, since, ending, text) VALUES (?, ?, ?, ?, ?)`,
		p.ID, p.Agent, micros(p.Since), p.Ending, append([]byte{}, p.Text...))
	if err != nil {
		return fmt.Errorf("keep protection %s: %w", p.ID, err)
	}
	db.erased(context.WithoutCancel(ctx))
	return nil
}

// DeleteProtection erases a protection; one that is not there is no error.
func (db *DB) DeleteProtection(ctx context.Context, id string) error {
	if _, _, err := db.change(ctx, `DELETE FROM protections WHERE id = ?`, id); err != nil {
		return fmt.Errorf("erase protection %s: %w", id, err)
	}
	db.erased(context.WithoutCancel(ctx))
	return nil
}

// Protections returns all protections, oldest first.
func (db *DB) Protections(ctx context.Context) ([]Protection, error) {
	var all []Protection
	err := db.each(ctx, `SELECT id, agent, since, ending, text FROM protections ORDER BY since, id`, func(scan func(...any) error) error {
		var p Protection
		var since int64
		if err := scan(&p.ID, &p.Agent, &since, &p.Ending, &p.Text); err != nil {
			return err
		}
		p.Since = fromMicros(since)
		all = append(all, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read protections: %w", err)
	}
	return all, nil
}
