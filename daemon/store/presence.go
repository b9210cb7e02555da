package store

import (
	"context"
	"time"
)

// Presence is the stored part of the secret that proves a person's presence, and the
// attempts against it. The zero value is the state before anybody has enrolled.
type Presence struct {
	Enrolled time.Time // UTC, microseconds; zero if there is no secret
	Enroller string    // who enrolled, as the kernel showed it

	Salt     []byte
	Passes   uint32 // of Argon2id
	Memory   uint32 // KiB
	Threads  uint8
	Verifier []byte
	Sealed   []byte // the key of codes, encrypted; nil if there are none
	Step     int64  // of the last accepted code

	Failures uint32        // wrong proofs since the last valid one
	Lock     time.Duration // length of the last lock; 0 if there is none
	Boot     string        // until when the lock lasts, as in Question
	Deadline time.Duration

	Recovered time.Time // when a secret was last removed without giving it; zero: never
	Recoverer string
}

var presences = newTable("presence", func(p *Presence) []column {
	one := 1 // there is one row
	return []column{
		{"one", &one}, {"enrolled", stamp(&p.Enrolled)}, {"enroller", &p.Enroller}, {"salt", &p.Salt},
		{"passes", &p.Passes}, {"memory", &p.Memory}, {"threads", &p.Threads}, {"verifier", &p.Verifier},
		{"sealed", &p.Sealed}, {"step", &p.Step}, {"failures", &p.Failures}, {"lock", &p.Lock}, {"boot", &p.Boot},
		{"deadline", &p.Deadline}, {"recovered", stamp(&p.Recovered)}, {"recoverer", &p.Recoverer},
	}
})

// Presence returns the stored value; the zero value if there is none.
func (db *DB) Presence(ctx context.Context) (p Presence, err error) {
	err = presences.each(ctx, db, "read presence", func(kept Presence) { p = kept }, "")
	return p, err
}

// PutPresence stores p and replaces the previous value, which is erased from the file.
func (db *DB) PutPresence(ctx context.Context, p *Presence) error {
	return db.erase(ctx, "save presence", presences.replace(p))
}
