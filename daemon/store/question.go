package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// State is how far a question has come.
type State string

const (
	StateOpen      State = "open"
	StateApproved  State = "approved"
	StateRejected  State = "rejected"
	StateExpired   State = "expired"
	StateWithdrawn State = "withdrawn"
)

// Question is what a person is asked, and what came of it.
type Question struct {
	ID      string // as A-17, given by AddQuestion; a name, never used again
	State   State
	Created time.Time // UTC, microseconds, as all times here
	Expires time.Time
	// Until when the question is open on a clock that nobody can set: how long
	// the machine, since the boot of that id, had run by then. An empty Boot
	// means that there is no such clock.
	Boot     string
	Deadline time.Duration

	Attachment string
	Seq        uint64 // the shim's number of the call
	Call       string // correlation id
	Session    string
	Agent      string
	Project    string
	Server     string
	Launch     string
	Direction  string // as in the record
	Method     string
	Tool       string // tool or prompt name, or resource URI
	Profile    string

	Params      []byte   // raw JSON to be shown; nil when the question has ended
	ParamsBytes int      // how long they are when Params has only their beginnings; 0: it has them whole; not kept
	Subject     [32]byte // what a yes is good for

	Reason   string
	Rule     string
	Workflow string
	Facts    []string
	Surfaces []string // where a yes may come from; empty: anywhere
	Level    string   // what a yes has to show, watch or presence; empty in what was filed before there were levels

	// What a grant that is made of it would go by.
	Basis      gate.Basis
	Definition [32]byte          // of what is called; zero where none is known
	Members    map[string][]byte // SHA-256 over the raw bytes of each argument; under "" of all of them, and behind it of what stands beside them; nil when the question has ended

	Validity time.Duration // for how long its answer waits for a call that was parked
	Parked   bool          // a call was told to repeat itself
	Good     time.Time     // until when the answer waits for such a call, on the clock of Boot and Deadline; zero: for none
	Spent    bool          // a call has the answer, and no other will
	Waiting  int           // calls that wait for the answer; not kept
	Edited   bool          // it was approved with other arguments
	Edit     []byte        // raw JSON of them; nil once a call has them
	Given    *Grant        // with the answer; not kept here

	Decided  time.Time // zero while the question is open
	Decider  string
	Surface  string
	Note     string
	Approver string // who answered, as the surface said
}

// ParseID returns the number in the id of a question, 0 for what is none.
func ParseID(id string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, "A-"), 10, 63)
	if err != nil || formatID(n) != id {
		return 0
	}
	return n
}

func formatID(n uint64) string { return fmt.Sprintf("A-%d", n) }

const questionColumns = `state, created, expires, boot, deadline, attachment, seq, call, session, agent, project, server,
	launch, direction, method, tool, profile, params, subject, reason, rule, workflow, facts, surfaces, decided, decider, surface, note,
	validity, parked, good, spent, definition, members, edited, edit, basis, approver, level`

// AddQuestion files an open question, of which its call is the first asker, and
// gives it its ID.
func (db *DB) AddQuestion(ctx context.Context, q *Question) error {
	facts, surfaces, members, err := lists(q)
	if err != nil {
		return fmt.Errorf("file question: %w", err)
	}
	var n int64
	err = db.together(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		result, err := tx.Exec(`INSERT INTO questions (`+questionColumns+`) VALUES (?`+strings.Repeat(", ?", 38)+`)`,
			q.State, micros(q.Created), micros(q.Expires), q.Boot, int64(q.Deadline), q.Attachment, int64(q.Seq), q.Call,
			q.Session, q.Agent, q.Project, q.Server, q.Launch, q.Direction, q.Method, q.Tool, q.Profile, q.Params, q.Subject[:],
			q.Reason, q.Rule, q.Workflow, facts, surfaces, micros(q.Decided), q.Decider, q.Surface, q.Note,
			int64(q.Validity), q.Parked, micros(q.Good), q.Spent, digestOf(q.Definition), members, q.Edited, q.Edit, basisOf(q.Basis), q.Approver, q.Level)
		if err != nil {
			return err
		}
		if n, err = result.LastInsertId(); err != nil {
			return err
		}
		return putAsker(tx, &Asker{
			Attachment: q.Attachment, Seq: q.Seq, Question: formatID(uint64(n)), Since: q.Created, State: AskerWaits,
		})
	})
	if err != nil {
		return fmt.Errorf("file question: %w", err)
	}
	q.ID = formatID(uint64(n))
	return nil
}

// digestOf is how a digest is kept that may not be known.
func digestOf(digest [32]byte) []byte {
	if digest == [32]byte{} {
		return nil
	}
	return digest[:]
}

// basisOf is how a basis is kept: its two digests, one after the other.
func basisOf(b gate.Basis) []byte {
	if b == (gate.Basis{}) {
		return nil
	}
	return slices.Concat(b.Rule[:], b.Workflow[:])
}

// lists are the members of a question that are kept as JSON.
func lists(q *Question) (facts, surfaces, members string, err error) {
	f, err := json.Marshal(q.Facts)
	if err != nil {
		return "", "", "", err
	}
	s, err := json.Marshal(q.Surfaces)
	if err != nil || q.Members == nil {
		return string(f), string(s), "", err
	}
	m, err := json.Marshal(q.Members)
	return string(f), string(s), string(m), err
}

// EachOpen calls f with each question that is open, oldest first, and holds none of
// them: together their calls may be long.
func (db *DB) EachOpen(ctx context.Context, f func(Question)) error {
	return db.eachQuestion(ctx, f, "WHERE state = 'open' ORDER BY n")
}

// ReadyQuestions returns those that have ended and whose answer waits for a call,
// oldest first.
func (db *DB) ReadyQuestions(ctx context.Context) ([]Question, error) {
	return db.questions(ctx, "WHERE state <> 'open' AND spent = 0 AND good > 0 ORDER BY n")
}

// EndedQuestions returns the newest questions that have ended, newest first, at
// most limit.
func (db *DB) EndedQuestions(ctx context.Context, limit int) ([]Question, error) {
	return db.questions(ctx, "WHERE state <> 'open' ORDER BY n DESC LIMIT ?", limit)
}

// Question returns the question with the given ID, or ErrNotFound.
func (db *DB) Question(ctx context.Context, id string) (Question, error) {
	return db.question(ctx, id, "WHERE n = ?", int64(ParseID(id)))
}

// PruneQuestions removes ended questions but for the newest keep.
func (db *DB) PruneQuestions(ctx context.Context, keep int) error {
	_, _, err := db.change(ctx, `DELETE FROM questions WHERE state <> 'open' AND n <=
		(SELECT n FROM questions WHERE state <> 'open' ORDER BY n DESC LIMIT 1 OFFSET ?)`, keep)
	if err != nil {
		return fmt.Errorf("prune questions: %w", err)
	}
	return nil
}

func (db *DB) question(ctx context.Context, name, where string, args ...any) (Question, error) {
	found, err := db.questions(ctx, where, args...)
	if err == nil && len(found) == 0 {
		err = gate.ErrNotFound
	}
	if err != nil {
		return Question{}, fmt.Errorf("question %s: %w", name, err)
	}
	return found[0], nil
}

func (db *DB) questions(ctx context.Context, where string, args ...any) ([]Question, error) {
	var all []Question
	err := db.eachQuestion(ctx, func(q Question) { all = append(all, q) }, where, args...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (db *DB) eachQuestion(ctx context.Context, f func(Question), where string, args ...any) error {
	err := db.each(ctx, `SELECT n, `+questionColumns+` FROM questions `+where, func(scan func(...any) error) error {
		q, err := scanQuestion(scan)
		if err == nil {
			f(q)
		}
		return err
	}, args...)
	if err != nil {
		return fmt.Errorf("read questions: %w", err)
	}
	return nil
}

func scanQuestion(scan func(...any) error) (Question, error) {
	var q Question
	var n, created, expires, deadline, seq, decided, good int64
	var subject, facts, surfaces, definition, members, basis []byte
	err := scan(&n, &q.State, &created, &expires, &q.Boot, &deadline, &q.Attachment, &seq, &q.Call, &q.Session,
		&q.Agent, &q.Project, &q.Server, &q.Launch, &q.Direction, &q.Method, &q.Tool, &q.Profile, &q.Params, &subject,
		&q.Reason, &q.Rule, &q.Workflow, &facts, &surfaces, &decided, &q.Decider, &q.Surface, &q.Note,
		&q.Validity, &q.Parked, &good, &q.Spent, &definition, &members, &q.Edited, &q.Edit, &basis, &q.Approver, &q.Level)
	if err != nil {
		return q, err
	}
	q.ID, q.Seq, q.Deadline = formatID(uint64(n)), uint64(seq), time.Duration(deadline)
	q.Created, q.Expires, q.Decided = fromMicros(created), fromMicros(expires), fromMicros(decided)
	q.Good = fromMicros(good)
	copy(q.Definition[:], definition)
	copy(q.Basis.Workflow[:], basis[copy(q.Basis.Rule[:], basis):])
	if copy(q.Subject[:], subject) != len(q.Subject) {
		return q, fmt.Errorf("%s: the subject is cut: %w", q.ID, gate.ErrInvalid)
	}
	if err := json.Unmarshal(facts, &q.Facts); err != nil {
		return q, fmt.Errorf("%s: facts: %w", q.ID, err)
	}
	if err := json.Unmarshal(surfaces, &q.Surfaces); err != nil {
		return q, fmt.Errorf("%s: surfaces: %w", q.ID, err)
	}
	if len(members) > 0 {
		if err := json.Unmarshal(members, &q.Members); err != nil {
			return q, fmt.Errorf("%s: members: %w", q.ID, err)
		}
	}
	return q, nil
}
