package store

import (
	"context"
	"fmt"
)

// Held is an attachment whose descriptors the daemon holds.
type Held struct {
	Name  string // under which its descriptors are kept
	About []byte // who has attached, in JSON; its owner knows how to read it
}

// PutHeld keeps h, in place of what was kept under its name.
func (db *DB) PutHeld(ctx context.Context, h *Held) error {
	_, _, err := db.change(ctx, `INSERT OR REPLACE INTO held (name, about) VALUES (?, ?)`, h.Name, string(h.About))
	if err != nil {
		return fmt.Errorf("keep who has attached: %w", err)
	}
	return nil
}

// DeleteHeld forgets what was kept under a name; it is no error if nothing was.
func (db *DB) DeleteHeld(ctx context.Context, name string) error {
	if _, _, err := db.change(ctx, `DELETE FROM held WHERE name = ?`, name); err != nil {
		return fmt.Errorf("forget who has attached: %w", err)
	}
	return nil
}

// Held returns all attachments that were kept.
func (db *DB) Held(ctx context.Context) ([]Held, error) {
	var all []Held
	err := db.each(ctx, `SELECT name, about FROM held ORDER BY name`, func(scan func(...any) error) error {
		var h Held
		if err := scan(&h.Name, &h.About); err != nil {
			return err
		}
		all = append(all, h)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read who has attached: %w", err)
	}
	return all, nil
}
