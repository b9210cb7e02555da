package store

import (
	"context"
	"time"
)

// StartKey identifies a way of starting a server of a project.
type StartKey struct {
	Project string // absolute path of its folder
	Server  string
	Digest  []byte // SHA-256 over all that a person accepts
}

// Start is a way of starting a server of a project that a person has accepted or still
// has to review.
type Start struct {
	StartKey
	Shown    []byte    // JSON, in its owner's format: what the person sees
	Noticed  time.Time // UTC, microseconds, as all times here
	Accepted time.Time // zero: not accepted
	Decider  string    // who accepted it
}

var starts = newTable("starts", func(s *Start) []column {
	return []column{
		{"project", &s.Project}, {"server", &s.Server}, {"digest", &s.Digest}, {"shown", text(&s.Shown)},
		{"noticed", stamp(&s.Noticed)}, {"accepted", stamp(&s.Accepted)}, {"decider", &s.Decider},
	}
})

// KeepStart stores s, replaces the one with the same key, and removes those in gone,
// atomically.
func (db *DB) KeepStart(ctx context.Context, s *Start, gone []StartKey) error {
	var all []statement
	for _, k := range gone {
		all = append(all, k.drop())
	}
	return db.exec(ctx, "save accepted starts", append(all, starts.replace(s))...)
}

func (k StartKey) drop() statement {
	return write(`DELETE FROM starts WHERE project = ? AND server = ? AND digest = ?`, k.Project, k.Server, k.Digest)
}

// DropStart removes a start, if it is stored.
func (db *DB) DropStart(ctx context.Context, k StartKey) error {
	return db.exec(ctx, "delete an accepted start", k.drop())
}

// Starts returns all stored starts.
func (db *DB) Starts(ctx context.Context) ([]Start, error) {
	return starts.all(ctx, db, "read accepted starts", "")
}
