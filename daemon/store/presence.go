package store

import (
	"context"
	"time"
)

// Presence is the secret with which a person proves to be there, as far as it is
// kept, and what was tried against it. The zero value is what there is before
// anybody has enrolled.
type Presence struct {
	Enrolled time.Time // UTC, microseconds; zero when there is no secret
	Enroller string    // who did, as the kernel saw them

	Salt     []byte
	Passes   uint32 // of Argon2id
	Memory   uint32 // KiB
	Threads  uint8
	Verifier []byte
	Sealed   []byte // the key of codes, encrypted; nil when there are none
	Step     int64  // of the last code that counted

	Failures uint32        // wrong proofs since the last right one
	Lock     time.Duration // the lock that was set last; 0 when none is
	Boot     string        // until when it lasts, as in Question
	Deadline time.Duration

	Recovered time.Time // when a secret was removed by who did not give it; zero: never
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

// Presence returns what is kept; the zero value before there was anything.
func (db *DB) Presence(ctx context.Context) (p Presence, err error) {
	err = presences.each(ctx, db, "read presence", func(kept Presence) { p = kept }, "")
	return p, err
}

// PutPresence keeps p in place of what was kept before. What it holds no more is
// erased from the file.
func (db *DB) PutPresence(ctx context.Context, p *Presence) error {
	return db.erase(ctx, "keep presence", presences.replace(p))
}
