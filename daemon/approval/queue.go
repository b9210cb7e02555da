// Package approval asks people whether held calls may be forwarded, and waits for their
// answers.
//
// A question is stored on disk before anybody sees it, so that it survives a restart of
// the daemon, as its call does. It ends once: approved, rejected, expired or withdrawn.
// The end is in the audit log before the waiting call gets it; an end that can't be
// recorded becomes a denial.
//
// Equal calls share a question: calls of the same agent and session with the same
// subject, which is byte for byte what would be executed. An approval is for one of them.
// A call whose agent would not wait until somebody answers is parked: the agent is told
// to repeat it, the question keeps waiting, and the answer waits for the repetition.
//
// How long a question waits, and how long an answer does, is measured on a clock that
// nobody can set.
package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Question is what a person is asked, as stored and shown.
type Question = store.Question

const (
	// defaultTimeout is how long a question waits if it does not specify that.
	defaultTimeout = 10 * time.Minute
	// defaultValidity is how long an answer waits for a repetition if the question does
	// not specify that.
	defaultValidity = 10 * time.Minute
	// maxCachedCalls is the number of ended questions kept in memory, for calls that are
	// submitted again. Older ones are read from disk.
	maxCachedCalls = 1024
	// maxStoredEnded is the number of ended questions kept on disk. listed is the number of them
	// that List returns.
	maxStoredEnded = 10_000
	maxListedEnded = 200
)

// Options configures a Queue.
type Options struct {
	PerServer int           // maximum of waiting calls for one server; 16 if zero
	Total     int           // maximum of waiting calls; 256 if zero
	Bytes     int64         // maximum total size of the waiting calls; 64 MiB if zero
	Recorder  gate.Recorder // records how questions end
	Prover    Prover        // checks proofs of presence; if nil, none can be given
	// Approves reports whether the user with that id answers the questions of a workflow
	// on a surface that several people use. If it is nil, nobody does.
	Approves func(workflow, user string) bool
	Logger   *slog.Logger // discards if nil
	Now      func() time.Time
	// Boot returns the id of the machine's current boot and how long it has been running,
	// including sleep; an empty id if the platform can't tell. store.Boot if nil.
	Boot func() (id string, up time.Duration)
	// Redact returns a text without the secrets recognized in it; nil for none. It must
	// not call the Queue.
	Redact func(text string) string
	// Colleagues are the people of the fleet whom questions may be put to. It must not call
	// the Queue.
	Colleagues Colleagues
}

// Queue holds the questions of one daemon. Its methods are safe for concurrent use. It is
// a gate.Approver.
type Queue struct {
	db    *store.DB
	o     Options
	stop  chan struct{} // closed by Close
	wake  chan struct{} // holds a token when a question was added
	ended sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	perServer int
	total     int
	bytes     int64
	open      map[string]*entry // waiting questions, by id
	ready     map[string]*entry // ended questions whose answer waits for a call, by id
	calls     map[call]*asker   // calls of waiting questions, and the last ones of ended questions
	past      []call            // calls whose question has ended, oldest first
	unwritten []ended           // ends that are not on disk yet
	filed     map[string]*burst // by server, and by "device" and the device for those of the fleet
	grants    map[string]*given // in force, by id
	uses      map[call]grantUse // calls that grants have approved, as far as the grants remember them
	watchers  map[*watcher]struct{}
	closed    bool
}

// call identifies one call.
type call struct {
	attachment string
	seq        uint64
}

// entry is one question and the calls that ask it. It holds only the beginning of long
// params, see shorten.
type entry struct {
	q    Question
	due  time.Time     // end of the time that the question or its answer waits; with the monotonic clock
	done chan struct{} // closed when the question has ended
	asks []*asker      // oldest first
	size int           // size in bytes of the call, or of its stored params
	// SHA-256 over the params. They are complete only on disk, where others can write.
	params [sha256.Size]byte
}

// ended is a question that has ended, with the calls that got its answer.
type ended struct {
	q    Question
	told []store.Asker
}

var errStopping = fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)

// New loads the waiting questions that a previous daemon left in db. Close must be called
// before db is closed.
func New(db *store.DB, o Options) (*Queue, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Boot == nil {
		o.Boot = store.Boot
	}
	q := &Queue{
		db: db, o: o, stop: make(chan struct{}), wake: make(chan struct{}, 1),
		open: map[string]*entry{}, ready: map[string]*entry{}, calls: map[call]*asker{}, filed: map[string]*burst{}, grants: map[string]*given{}, uses: map[call]grantUse{},
		watchers: map[*watcher]struct{}{},
	}
	q.SetLimits(o.PerServer, o.Total, o.Bytes)
	ctx := context.Background() // the work here is local and short
	if err := errors.Join(db.PruneQuestions(ctx, maxStoredEnded), db.PruneGrants(ctx, endedGrants)); err != nil {
		return nil, err
	}
	if err := q.loadState(ctx); err != nil {
		return nil, err
	}
	q.ended.Go(q.expire)
	return q, nil
}

// loadState loads what a previous daemon left: waiting questions, waiting answers, and
// grants.
func (q *Queue) loadState(ctx context.Context) error {
	var open []*entry
	err := q.db.EachOpen(ctx, func(old Question) {
		e := &entry{q: old, due: q.o.Now().Add(q.remainingTime(old.Expires, old.Created)), done: make(chan struct{}), size: len(old.Params)}
		e.shorten()
		open = append(open, e)
	})
	if err != nil {
		return err
	}
	ready, err := q.db.ReadyQuestions(ctx)
	if err != nil {
		return err
	}
	grants, err := q.db.Grants(ctx)
	if err != nil {
		return err
	}
	if err := q.recallUses(ctx, grants); err != nil {
		return err
	}
	for _, g := range grants {
		v := &given{g, q.o.Now().Add(q.remainingTime(g.Expires, g.Created))}
		q.grants[g.ID] = v
		if len(g.Beside) == 0 {
			q.endGrant(ctx, v, "void", "an earlier release gave it, without the params other than the arguments; give it again")
		}
	}
	for _, e := range open {
		asks, err := q.db.Askers(ctx, e.q.ID)
		if err != nil {
			return err
		}
		for _, a := range asks {
			q.join(e, &asker{call: call{a.Attachment, a.Seq}, since: a.Since, state: a.State})
		}
		q.add(e)
	}
	for _, old := range ready {
		q.ready[old.ID] = &entry{q: old, due: q.o.Now().Add(q.remainingTime(old.Good, old.Decided)), done: closed}
	}
	return nil
}

// SetLimits changes the maximum of waiting calls for one server and in total, and the
// maximum of their size in bytes; zero means the default. Questions that already wait are
// not affected.
func (q *Queue) SetLimits(perServer, total int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.perServer, q.total, q.bytes = cmp.Or(perServer, 16), cmp.Or(total, 256), cmp.Or(bytes, 64<<20)
}

// Close closes the queue. Questions remain on disk for the next daemon; callers that wait
// for one get an error that this daemon is stopping.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	close(q.stop)
	q.mu.Unlock()
	q.ended.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writeEnds()
}

// List returns the waiting questions, oldest first. With all it adds the 200 newest ended
// ones, and sorts newest first. Long params are shortened.
func (q *Queue) List(all bool) []Question {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	list := q.listOpen()
	if !all {
		return list
	}
	ended, err := q.db.EndedQuestions(context.Background(), maxListedEnded)
	if err != nil {
		q.o.Logger.Error("list questions", "component", "approval", "err", err)
	}
	for _, u := range q.unwritten { // on disk they are still open, so EndedQuestions does not return them
		list = append(list, u.q)
	}
	list = append(list, ended...)
	slices.SortFunc(list, func(a, b Question) int { return byNumber(b, a) })
	return list
}

// Counts returns the number of waiting questions, and of calls that wait for their
// answers.
func (q *Queue) Counts() (open, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	for _, e := range q.open {
		waiting += e.waiting()
	}
	return len(q.open), waiting
}

func (q *Queue) listOpen() []Question {
	var list []Question
	for _, e := range q.open {
		list = append(list, e.shown())
	}
	slices.SortFunc(list, byNumber)
	return list
}

// Get returns a question with complete params, or gate.ErrNotFound. gate.ErrChanged means
// that the params on disk are not those that were stored.
func (q *Queue) Get(ctx context.Context, id string) (Question, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	if e := q.open[id]; e != nil {
		return q.whole(ctx, e)
	}
	return q.endedQuestion(ctx, id)
}

// endedQuestion returns a question that is not waiting any more. q.mu must be held.
func (q *Queue) endedQuestion(ctx context.Context, id string) (Question, error) {
	for _, u := range q.unwritten {
		if u.q.ID == id {
			return u.q, nil
		}
	}
	return q.db.Question(ctx, id)
}

// Asked returns the numbers of the calls of an attachment whose question is waiting or
// ended recently.
func (q *Queue) Asked(attachment string) []uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var calls []uint64
	for c := range q.calls {
		if c.attachment == attachment {
			calls = append(calls, c.seq)
		}
	}
	return calls
}
