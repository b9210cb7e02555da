package store

import "context"

// EndQuestion writes down how an open question ended: its State, Decided,
// Decider, Surface, Note, Approver, Spent, Edited, and where an answer waits for a call, Good, Boot,
// Deadline and Edit. told are its calls that learn of it now. Params and Members are
// erased. ErrDecided means that it was not open.
func (db *DB) EndQuestion(ctx context.Context, q *Question, told ...Asker) error {
	edit := q.Edit
	if q.Spent { // the call has it
		edit = nil
	}
	return db.erase(ctx, "end question "+q.ID, withAskers(told,
		update(`UPDATE questions SET state = ?, decided = ?, decider = ?, surface = ?, note = ?, approver = ?, params = NULL,
			tool = ?, reason = ?, rule = ?, members = '', spent = ?, good = ?, boot = ?, deadline = ?, edited = ?, edit = ? WHERE n = ? AND state = ?`,
			q.State, stamp(&q.Decided), q.Decider, q.Surface, q.Note, q.Approver, q.Tool, q.Reason, q.Rule,
			q.Spent, stamp(&q.Good), q.Boot, q.Deadline, q.Edited, edit, id{questionPrefix, &q.ID}, StateOpen))...)
}

// OverruleQuestion writes down that a yes which no call has is a no: State,
// Decided, Decider, Surface, Note, Approver, Spent, Good, Boot and Deadline. told are its
// calls that learn of it now. The Edit is erased. ErrDecided means that it was no
// yes, or that a call has it.
func (db *DB) OverruleQuestion(ctx context.Context, q *Question, told ...Asker) error {
	return db.erase(ctx, "overrule question "+q.ID, withAskers(told,
		update(`UPDATE questions SET state = ?, decided = ?, decider = ?, surface = ?, note = ?, approver = ?, edited = 0, edit = NULL,
			spent = ?, good = ?, boot = ?, deadline = ? WHERE n = ? AND state = ? AND spent = 0`,
			q.State, stamp(&q.Decided), q.Decider, q.Surface, q.Note, q.Approver, q.Spent, stamp(&q.Good), q.Boot, q.Deadline,
			id{questionPrefix, &q.ID}, StateApproved))...)
}

// withAskers returns a statement, and those that keep what became of askers.
func withAskers(told []Asker, first statement) []statement {
	all := []statement{first}
	for i := range told {
		all = append(all, askers.replace(&told[i]))
	}
	return all
}
