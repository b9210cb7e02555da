package store

import "context"

// Held is an attachment whose descriptors the daemon holds.
type Held struct {
	Name  string // under which its descriptors are kept
	About []byte // who has attached, in JSON; its owner defines the format
}

var held = newTable("held", func(h *Held) []column {
	return []column{
		{"name", &h.Name}, {"about", text(&h.About)},
	}
})

// PutHeld stores h and replaces an entry with the same name. It is not on stable storage: no
// descriptor outlives the system, and each server would wait for two syncs before it is started.
func (db *DB) PutHeld(ctx context.Context, h *Held) error {
	return db.execUnsynced(ctx, "save attachments", held.replace(h))
}

// DeleteHeld removes the entry with a name; it is no error if there is none. Like an entry, its
// removal is not on stable storage.
func (db *DB) DeleteHeld(ctx context.Context, name string) error {
	return db.execUnsynced(ctx, "delete attachments", write(`DELETE FROM held WHERE name = ?`, name))
}

// Held returns all stored attachments.
func (db *DB) Held(ctx context.Context) ([]Held, error) {
	return held.all(ctx, db, "read attachments", "ORDER BY name")
}
