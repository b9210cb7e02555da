package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// EndQuestion writes down how an open question ended: its State, Decided,
// Decider, Surface, Note, Approver, Spent, Edited, and where an answer waits for a call, Good, Boot,
// Deadline and Edit. told are its calls that learn of it now. Params and Members are
// erased. ErrDecided means that it was not open.
func (db *DB) EndQuestion(ctx context.Context, q *Question, told ...Asker) error {
	edit := q.Edit
	if q.Spent { // the call has it
		edit = nil
	}
	return db.end(ctx, "end", q, told, `UPDATE questions SET state = ?, decided = ?, decider = ?, surface = ?, note = ?, approver = ?, params = NULL,
		tool = ?, reason = ?, rule = ?, members = '', spent = ?, good = ?, boot = ?, deadline = ?, edited = ?, edit = ? WHERE n = ? AND state = ?`,
		q.State, micros(q.Decided), q.Decider, q.Surface, q.Note, q.Approver, q.Tool, q.Reason, q.Rule,
		q.Spent, micros(q.Good), q.Boot, int64(q.Deadline), q.Edited, edit,
		int64(ParseID(q.ID)), StateOpen)
}

// OverruleQuestion writes down that a yes which no call has is a no: State,
// Decided, Decider, Surface, Note, Approver, Spent, Good, Boot and Deadline. told are its
// calls that learn of it now. The Edit is erased. ErrDecided means that it was no
// yes, or that a call has it.
func (db *DB) OverruleQuestion(ctx context.Context, q *Question, told ...Asker) error {
	return db.end(ctx, "overrule", q, told, `UPDATE questions SET state = ?, decided = ?, decider = ?, surface = ?, note = ?, approver = ?, edited = 0, edit = NULL,
		spent = ?, good = ?, boot = ?, deadline = ? WHERE n = ? AND state = ? AND spent = 0`,
		q.State, micros(q.Decided), q.Decider, q.Surface, q.Note, q.Approver, q.Spent, micros(q.Good), q.Boot, int64(q.Deadline),
		int64(ParseID(q.ID)), StateApproved)
}

// end runs a statement that ends q, in one piece with what told learn of it, and has
// what it erases erased on disk too. verb is what that does to a question.
func (db *DB) end(ctx context.Context, verb string, q *Question, told []Asker, statement string, args ...any) error {
	ctx = context.WithoutCancel(ctx)
	err := db.together(ctx, func(tx *sql.Tx) error {
		result, err := tx.Exec(statement, args...)
		if err := one(result, err); err != nil {
			return err
		}
		for i := range told {
			if err := putAsker(tx, &told[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s question %s: %w", verb, q.ID, err)
	}
	db.erased(ctx)
	return nil
}

// one is the error of a statement that must have changed one row; ErrDecided
// when it changed none.
func one(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, gate.ErrDecided)
	}
	return nil
}
