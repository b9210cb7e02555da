package store

import "context"

// EndQuestion stores how a question ended: its State, Decided, Decider, Surface, Note,
// Approver, Level, Spent and Edited, and if an answer waits for a call, Good, Boot, Deadline and
// Edit. It also stores the redacted Tool, Reason and Rule, and erases Params and Members.
// told are its calls that now get the answer. ErrDecided means that the question had
// ended before.
func (db *DB) EndQuestion(ctx context.Context, q *Question, told ...Asker) error {
	edit := q.Edit
	if q.Spent { // the call has it
		edit = nil
	}
	return db.erase(ctx, "end question "+q.ID, withAskers(told,
		update(`UPDATE questions SET state = ?, decided = ?, decider = ?, surface = ?, note = ?, approver = ?, level = ?, proved = ?, params = NULL, shown = NULL,
			tool = ?, reason = ?, rule = ?, members = '', spent = ?, good = ?, boot = ?, deadline = ?, edited = ?, edit = ? WHERE n = ? AND state = ?`,
			q.State, stamp(&q.Decided), q.Decider, q.Surface, q.Note, q.Approver, q.Level, q.Proved, q.Tool, q.Reason, q.Rule,
			q.Spent, stamp(&q.Good), q.Boot, q.Deadline, q.Edited, edit, id{questionPrefix, &q.ID}, StateOpen))...)
}

// OverruleQuestion turns an approval that no call has taken into a denial. It stores
// State, Decided, Decider, Surface, Note, Approver, Proved, Spent, Good, Boot and Deadline. told
// are its calls that now get the answer. The Edit is erased. ErrDecided means that it was
// not approved, or that a call has the approval.
func (db *DB) OverruleQuestion(ctx context.Context, q *Question, told ...Asker) error {
	return db.erase(ctx, "overrule question "+q.ID, withAskers(told,
		update(`UPDATE questions SET state = ?, decided = ?, decider = ?, surface = ?, note = ?, approver = ?, proved = ?, edited = 0, edit = NULL,
			spent = ?, good = ?, boot = ?, deadline = ? WHERE n = ? AND state = ? AND spent = 0`,
			q.State, stamp(&q.Decided), q.Decider, q.Surface, q.Note, q.Approver, q.Proved, q.Spent, stamp(&q.Good), q.Boot, q.Deadline,
			id{questionPrefix, &q.ID}, StateApproved))...)
}

// withAskers returns first, followed by the statements that store told.
func withAskers(told []Asker, first statement) []statement {
	all := []statement{first}
	for i := range told {
		all = append(all, askers.replace(&told[i]))
	}
	return all
}
