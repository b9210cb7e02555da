package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// AskerState is what became of a call that asks.
type AskerState string

const (
	AskerWaits  AskerState = "waits"  // for the answer
	AskerParked AskerState = "parked" // it was told to repeat itself
	AskerGone   AskerState = "gone"   // the agent took it back
	AskerTold   AskerState = "told"   // it has the answer, and a yes lets it through
)

// Asker is one call that a question is about. Equal calls share a question.
type Asker struct {
	Attachment string
	Seq        uint64 // the shim's number of the call
	Question   string // ID
	Since      time.Time
	State      AskerState
}

// PutAsker writes down a call that has joined a question, or what became of it.
func (db *DB) PutAsker(ctx context.Context, a *Asker) error {
	err := db.together(context.WithoutCancel(ctx), func(tx *sql.Tx) error { return putAsker(tx, a) })
	if err != nil {
		return fmt.Errorf("keep a call of question %s: %w", a.Question, err)
	}
	return nil
}

// ParkAsker writes down that a call was told to repeat itself.
func (db *DB) ParkAsker(ctx context.Context, a *Asker) error {
	parked := *a
	parked.State = AskerParked
	err := db.together(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		if _, err := tx.Exec("UPDATE questions SET parked = 1 WHERE n = ?", int64(ParseID(a.Question))); err != nil {
			return err
		}
		return putAsker(tx, &parked)
	})
	if err != nil {
		return fmt.Errorf("park a call of question %s: %w", a.Question, err)
	}
	return nil
}

// TakeAnswer gives the answer of a question that has ended to the call a, and to
// no other. An Edit is erased. ErrDecided means that another call has it.
func (db *DB) TakeAnswer(ctx context.Context, a *Asker) error {
	taker := *a
	taker.State = AskerTold
	err := db.together(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		result, err := tx.Exec("UPDATE questions SET spent = 1, edit = NULL WHERE n = ? AND spent = 0 AND state <> ?", int64(ParseID(a.Question)), StateOpen)
		if err := one(result, err); err != nil {
			return err
		}
		return putAsker(tx, &taker)
	})
	if err != nil {
		return fmt.Errorf("take the answer to question %s: %w", a.Question, err)
	}
	db.erased(context.WithoutCancel(ctx))
	return nil
}

// AskerOf returns what is known of a call, or ErrNotFound.
func (db *DB) AskerOf(ctx context.Context, attachment string, seq uint64) (Asker, error) {
	found, err := db.askers(ctx, "WHERE attachment = ? AND seq = ?", attachment, int64(seq))
	if err == nil && len(found) == 0 {
		err = gate.ErrNotFound
	}
	if err != nil {
		return Asker{}, fmt.Errorf("call %d of attachment %s: %w", seq, attachment, err)
	}
	return found[0], nil
}

// Askers returns the calls of a question, oldest first.
func (db *DB) Askers(ctx context.Context, question string) ([]Asker, error) {
	return db.askers(ctx, "WHERE question = ? ORDER BY since, attachment, seq", int64(ParseID(question)))
}

func (db *DB) askers(ctx context.Context, where string, args ...any) ([]Asker, error) {
	var all []Asker
	err := db.each(ctx, "SELECT attachment, seq, question, since, state FROM askers "+where, func(scan func(...any) error) error {
		var a Asker
		var seq, n, since int64
		err := scan(&a.Attachment, &seq, &n, &since, &a.State)
		a.Seq, a.Question, a.Since = uint64(seq), formatID(uint64(n)), fromMicros(since)
		all = append(all, a)
		return err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("read the calls of questions: %w", err)
	}
	return all, nil
}

func putAsker(tx *sql.Tx, a *Asker) error {
	_, err := tx.Exec("INSERT OR REPLACE INTO askers (attachment, seq, question, since, state) VALUES (?, ?, ?, ?, ?)",
		a.Attachment, int64(a.Seq), int64(ParseID(a.Question)), micros(a.Since), a.State)
	return err
}
