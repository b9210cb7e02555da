package store

import (
	"context"
	"fmt"
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

// Presence returns what is kept; the zero value before there was anything.
func (db *DB) Presence(ctx context.Context) (Presence, error) {
	var p Presence
	err := db.each(ctx, `SELECT enrolled, enroller, salt, passes, memory, threads, verifier, sealed, step,
		failures, lock, boot, deadline, recovered, recoverer FROM presence`, func(scan func(...any) error) error {
		var enrolled, recovered int64
		err := scan(&enrolled, &p.Enroller, &p.Salt, &p.Passes, &p.Memory, &p.Threads, &p.Verifier, &p.Sealed, &p.Step,
			&p.Failures, &p.Lock, &p.Boot, &p.Deadline, &recovered, &p.Recoverer)
		p.Enrolled, p.Recovered = fromMicros(enrolled), fromMicros(recovered)
		return err
	})
	if err != nil {
		return Presence{}, fmt.Errorf("read presence: %w", err)
	}
	return p, nil
}

// PutPresence keeps p in place of what was kept before. What it holds no more is
// erased from the file.
func (db *DB) PutPresence(ctx context.Context, p *Presence) error {
	_, _, err := db.change(ctx, `INSERT OR REPLACE INTO presence (one, enrolled, enroller, salt, passes, memory, threads, verifier, sealed, step,
		failures, lock, boot, deadline, recovered, recoverer) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		micros(p.Enrolled), p.Enroller, p.Salt, p.Passes, p.Memory, p.Threads, p.Verifier, p.Sealed, p.Step,
		p.Failures, int64(p.Lock), p.Boot, int64(p.Deadline), micros(p.Recovered), p.Recoverer)
	if err != nil {
		return fmt.Errorf("keep presence: %w", err)
	}
	db.erased(context.WithoutCancel(ctx))
	return nil
}
