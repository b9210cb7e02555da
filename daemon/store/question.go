package store

import (
	"context"
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

const questionPrefix = "A-"

// ParseID returns the number in the id of a question, 0 for what is none.
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
		{"level", &q.Level},
	}
})

// AddQuestion files an open question, of which its call is the first asker, and
// gives it its ID.
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

const readingQuestions = "read questions"

// EachOpen calls f with each question that is open, oldest first, and holds none of
// them: together their calls may be long.
func (db *DB) EachOpen(ctx context.Context, f func(Question)) error {
	return questions.each(ctx, db, readingQuestions, f, "WHERE state = 'open' ORDER BY n")
}

// ReadyQuestions returns those that have ended and whose answer waits for a call,
// oldest first.
func (db *DB) ReadyQuestions(ctx context.Context) ([]Question, error) {
	return questions.all(ctx, db, readingQuestions, "WHERE state <> 'open' AND spent = 0 AND good > 0 ORDER BY n")
}

// EndedQuestions returns the newest questions that have ended, newest first, at
// most limit.
func (db *DB) EndedQuestions(ctx context.Context, limit int) ([]Question, error) {
	return questions.all(ctx, db, readingQuestions, "WHERE state <> 'open' ORDER BY n DESC LIMIT ?", limit)
}

// Question returns the question with the given ID, or ErrNotFound.
func (db *DB) Question(ctx context.Context, id string) (Question, error) {
	return questions.one(ctx, db, "question "+id, "WHERE n = ?", ParseID(id))
}

// PruneQuestions removes ended questions but for the newest keep.
func (db *DB) PruneQuestions(ctx context.Context, keep int) error {
	return db.exec(ctx, "prune questions", write(`DELETE FROM questions WHERE state <> 'open' AND n <=
		(SELECT n FROM questions WHERE state <> 'open' ORDER BY n DESC LIMIT 1 OFFSET ?)`, keep))
}
