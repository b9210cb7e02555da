package store

import (
	"context"
	"fmt"
	"time"
)

// AskerState is the state of a call that asks.
type AskerState string

const (
	AskerWaits  AskerState = "waits"  // for the answer
	AskerParked AskerState = "parked" // the agent was told to repeat the call
	AskerGone   AskerState = "gone"   // the agent canceled it
	AskerTold   AskerState = "told"   // it has the answer; if that is an approval, it is forwarded
)

// Asker is one call that a question is about. Equal calls share a question.
type Asker struct {
	Attachment string
	Seq        uint64 // number of the call in tg-shim
	Question   string // ID
	Since      time.Time
	State      AskerState
}

var askers = newTable("askers", func(a *Asker) []column {
	return []column{
		{"attachment", &a.Attachment}, {"seq", bits(&a.Seq)}, {"question", id{questionPrefix, &a.Question}},
		{"since", stamp(&a.Since)}, {"state", &a.State},
	}
})

// PutAsker stores a call that has joined a question, or its new state.
func (db *DB) PutAsker(ctx context.Context, a *Asker) error {
	return db.exec(ctx, "save a call of question "+a.Question, askers.replace(a))
}

// ParkAsker records that a call was parked.
func (db *DB) ParkAsker(ctx context.Context, a *Asker) error {
	parked := *a
	parked.State = AskerParked
	return db.exec(ctx, "park a call of question "+a.Question,
		write("UPDATE questions SET parked = 1 WHERE n = ?", id{questionPrefix, &a.Question}), askers.replace(&parked))
}

// TakeAnswer gives the answer of an ended question to the call a, and to no other. It
// erases an Edit. ErrDecided means that another call has the answer.
func (db *DB) TakeAnswer(ctx context.Context, a *Asker) error {
	taker := *a
	taker.State = AskerTold
	return db.erase(ctx, "take the answer to question "+a.Question,
		update("UPDATE questions SET spent = 1, edit = NULL WHERE n = ? AND spent = 0 AND state <> ?", id{questionPrefix, &a.Question}, StateOpen),
		askers.replace(&taker))
}

// AskerOf returns a call, or ErrNotFound.
func (db *DB) AskerOf(ctx context.Context, attachment string, seq uint64) (Asker, error) {
	return askers.one(ctx, db, fmt.Sprintf("call %d of attachment %s", seq, attachment), "WHERE attachment = ? AND seq = ?", attachment, bits(&seq))
}

// Askers returns the calls of a question, oldest first.
func (db *DB) Askers(ctx context.Context, question string) ([]Asker, error) {
	return askers.all(ctx, db, "read the calls of questions", "WHERE question = ? ORDER BY since, attachment, seq", id{questionPrefix, &question})
}
