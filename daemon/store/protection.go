package store

import (
	"context"
	"time"
)

// Protection is a rewrite of an agent's files that lasts until it is restored.
type Protection struct {
	ID     string
	Agent  string    // agent type
	Since  time.Time // UTC, microseconds
	Ending bool      // it is being restored
	Text   []byte    // in the format of internal/agentconf
}

var protections = newTable("protections", func(p *Protection) []column {
	return []column{
		{"id", &p.ID}, {"agent", &p.Agent}, {"since", stamp(&p.Since)}, {"ending", &p.Ending},
		{"text", blob(&p.Text)},
	}
})

// PutProtection stores p and replaces one with the same ID. A text may contain what a
// file contained, so the previous text is erased.
func (db *DB) PutProtection(ctx context.Context, p *Protection) error {
	return db.erase(ctx, "save protection "+p.ID, protections.replace(p))
}

// DeleteProtection erases a protection; it is no error if there is none.
func (db *DB) DeleteProtection(ctx context.Context, id string) error {
	return db.erase(ctx, "delete protection "+id, write(`DELETE FROM protections WHERE id = ?`, id))
}

// Protections returns all protections, oldest first.
func (db *DB) Protections(ctx context.Context) ([]Protection, error) {
	return protections.all(ctx, db, "read protections", "ORDER BY since, id")
}
