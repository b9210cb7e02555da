package store

import (
	"context"
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

var protections = newTable("protections", func(p *Protection) []column {
	return []column{
		{"id", &p.ID}, {"agent", &p.Agent}, {"since", stamp(&p.Since)}, {"ending", &p.Ending},
		{"text", blob(&p.Text)},
	}
})

// PutProtection keeps p, in place of what was kept under its ID. A text may hold
// what a file held; the one before does not stay behind.
func (db *DB) PutProtection(ctx context.Context, p *Protection) error {
	return db.erase(ctx, "keep protection "+p.ID, protections.replace(p))
}

// DeleteProtection erases a protection; one that is not there is no error.
func (db *DB) DeleteProtection(ctx context.Context, id string) error {
	return db.erase(ctx, "erase protection "+id, write(`DELETE FROM protections WHERE id = ?`, id))
}

// Protections returns all protections, oldest first.
func (db *DB) Protections(ctx context.Context) ([]Protection, error) {
	return protections.all(ctx, db, "read protections", "ORDER BY since, id")
}
