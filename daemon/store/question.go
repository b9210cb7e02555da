package store

import (
	"context"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// State is the state of a question.
type State string

const (
	StateOpen      State = "open"
	StateApproved  State = "approved"
	StateRejected  State = "rejected"
	StateExpired   State = "expired"
	StateWithdrawn State = "withdrawn"
)

// Question is what a person is asked, and the outcome.
type Question struct {
	ID      string // such as A-17, set by AddQuestion; never reused
	State   State
	Created time.Time // UTC, microseconds, as all times here
	Expires time.Time
	// When the question expires on a clock that nobody can set: Deadline is how long the
	// machine will have been running since the boot with the id Boot. If Boot is empty,
	// there is no such clock.
	Boot     string
	Deadline time.Duration

	Attachment string
	Seq        uint64 // number of the call in tg-shim
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

	Params      []byte   // raw JSON to be shown; nil after the question has ended
	ParamsBytes int      // full length if Params has only its beginning; 0: Params is complete; not stored
	Subject     [32]byte // what an approval covers

	Reason   string
	Rule     string
	Workflow string
	Facts    []string
	Extent   gate.Extent
	Grain    *gate.Grain // nil: it is no call of the agent's shell
	Surfaces []string    // where an approval may come from; empty: anywhere
	Level    string      // what an approval has to prove, watch or presence; empty in questions from before there were levels

	// What a grant with the answer would be based on.
	Basis      gate.Basis
	Definition [32]byte          // of what is called; zero if none is known
	Members    map[string][]byte // SHA-256 over the raw bytes of each argument; under "" of all arguments, followed by that of the other params; nil after the question has ended

	Validity time.Duration // how long its answer waits for the repetition of a parked call
	Parked   bool          // a call was parked
	Good     time.Time     // until when the answer waits for such a call, on the clock of Boot and Deadline; zero: it does not wait
	Spent    bool          // a call has the answer, and no other will get it
	Waiting  int           // number of calls that wait for the answer; not stored
	Edited   bool          // it was approved with other arguments
	Edit     []byte        // these arguments in raw JSON; nil once a call has them
	Given    *Grant        // with the answer; not stored here

	Decided  time.Time // zero while the question is waiting
	Decider  string
	Surface  string
	Note     string
	Approver string // who answered, as the surface reported it

	// Of a question that colleagues may answer: what they sign, but for their verdict, and what
	// they are shown; the latter is nil after the question has ended.
	Statement, Shown []byte
	Proved           string // what the key of a colleague who answered proves: account or touch
	Device           string // the machine of the fleet that asks; empty: this one
}

const questionPrefix = "A-"

// ParseID returns the number in the id of a question; 0 if id is invalid.
func ParseID(id string) uint64 { return uint64(parseID(questionPrefix, id)) }

var questions = newTable("questions", func(q *Question) []column {
	return []column{
		{"n", id{questionPrefix, &q.ID}}, {"state", &q.State}, {"created", stamp(&q.Created)},
		{"expires", stamp(&q.Expires)}, {"boot", &q.Boot}, {"deadline", &q.Deadline}, {"attachment", &q.Attachment},
		{"seq", bits(&q.Seq)}, {"call", &q.Call}, {"session", &q.Session}, {"agent", &q.Agent}, {"project", &q.Project},
		{"server", &q.Server}, {"launch", &q.Launch}, {"direction", &q.Direction}, {"method", &q.Method}, {"tool", &q.Tool},
		{"profile", &q.Profile}, {"params", &q.Params}, {"subject", digests(&q.Subject)}, {"reason", &q.Reason},
		{"rule", &q.Rule}, {"workflow", &q.Workflow}, {"facts", jsonText(&q.Facts)}, {"surfaces", jsonText(&q.Surfaces)},
		{"decided", stamp(&q.Decided)}, {"decider", &q.Decider}, {"surface", &q.Surface}, {"note", &q.Note},
		{"validity", &q.Validity}, {"parked", &q.Parked}, {"good", stamp(&q.Good)}, {"spent", &q.Spent},
		{"definition", optionalDigests(&q.Definition)}, {"members", jsonText(&q.Members)}, {"edited", &q.Edited},
		{"edit", &q.Edit}, {"basis", optionalDigests(&q.Basis.Rule, &q.Basis.Workflow)}, {"approver", &q.Approver},
		{"level", &q.Level}, {"extent", jsonText(&q.Extent)}, {"grain", jsonText(&q.Grain)},
		{"statement", &q.Statement}, {"shown", &q.Shown}, {"proved", &q.Proved}, {"device", &q.Device},
	}
})

// AddQuestion stores a new question, whose call is its first asker, and sets its ID.
func (db *DB) AddQuestion(ctx context.Context, q *Question) error {
	added := *q
	added.ID = ""
	n, err := db.add(ctx, "file question", questions.insert(&added),
		write(`INSERT INTO askers (attachment, seq, question, since, state) VALUES (?, ?, last_insert_rowid(), ?, ?)`,
			q.Attachment, bits(&q.Seq), stamp(&q.Created), AskerWaits))
	if err != nil {
		return err
	}
	q.ID = formatID(questionPrefix, n)
	return nil
}

// PutStatement stores Statement and Shown of a waiting question.
func (db *DB) PutStatement(ctx context.Context, q *Question) error {
	return db.exec(ctx, "save what colleagues sign", write(`UPDATE questions SET statement = ?, shown = ? WHERE n = ? AND state = ?`,
		q.Statement, q.Shown, id{questionPrefix, &q.ID}, StateOpen))
}

const readingQuestions = "read questions"

// EachOpen calls f with each waiting question, oldest first. It does not collect them,
// since their calls together may be large.
func (db *DB) EachOpen(ctx context.Context, f func(Question)) error {
	return questions.each(ctx, db, readingQuestions, f, "WHERE state = 'open' ORDER BY n")
}

// ReadyQuestions returns the ended questions whose answer waits for a call, oldest first.
func (db *DB) ReadyQuestions(ctx context.Context) ([]Question, error) {
	return questions.all(ctx, db, readingQuestions, "WHERE state <> 'open' AND spent = 0 AND good > 0 ORDER BY n")
}

// EndedQuestions returns at most limit ended questions, newest first.
func (db *DB) EndedQuestions(ctx context.Context, limit int) ([]Question, error) {
	return questions.all(ctx, db, readingQuestions, "WHERE state <> 'open' ORDER BY n DESC LIMIT ?", limit)
}

// Question returns the question with the given ID, or ErrNotFound.
func (db *DB) Question(ctx context.Context, id string) (Question, error) {
	return questions.one(ctx, db, "question "+id, "WHERE n = ?", ParseID(id))
}

// PruneQuestions removes ended questions except the newest keep.
func (db *DB) PruneQuestions(ctx context.Context, keep int) error {
	return db.exec(ctx, "prune questions", write(`DELETE FROM questions WHERE state <> 'open' AND n <=
		(SELECT n FROM questions WHERE state <> 'open' ORDER BY n DESC LIMIT 1 OFFSET ?)`, keep))
}
