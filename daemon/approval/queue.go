// Package approval puts questions to people and waits for their answers.
//
// A question is on disk before anybody hears of it, so that it is still there
// when the daemon was restarted, and its call with it. It ends once: approved,
// rejected, expired or withdrawn. The end is in the audit log before the call
// that waits learns of it; an end that can't be recorded is a refusal.
//
// Equal calls share a question: those of one agent and session about one subject,
// which is to the byte what would run. A yes is for one of them. A call whose agent
// would not wait until somebody answers is parked: it is told to repeat itself, the
// question stays open, and the answer waits for the repetition.
//
// How long a question is open, and how long an answer waits, is measured on a clock
// that nobody can set.
package approval

import (
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

// Question is what a person is asked, as it is kept and shown.
type Question = store.Question

const (
	// defaultTimeout is how long a question is open that says nothing of it.
	defaultTimeout = 10 * time.Minute
	// defaultValidity is likewise how long an answer waits for a repetition.
	defaultValidity = 10 * time.Minute
	// remembered is how many ended questions are kept in memory, for calls that
	// are submitted again; older ones are looked up.
	remembered = 1024
	// kept is how many ended questions are kept on disk, and listed how many of
	// them List returns.
	kept   = 10_000
	listed = 200
)

// Options say how questions are kept.
type Options struct {
	PerServer int           // how many may be open for one server; 16 when zero
	Total     int           // how many may be open; 256 when zero
	Bytes     int64         // how much the calls that wait may hold together; 64 MiB when zero
	Recorder  gate.Recorder // where ends are written down
	Prover    Prover        // checks proofs of presence; nil: none can be given
	// Approves reports whether a user of that id answers what a workflow asks on a
	// surface that several people use. Nobody does when it is nil.
	Approves func(workflow, user string) bool
	Logger   *slog.Logger // discards when nil
	Now      func() time.Time
	// Boot returns the id of the machine's current boot and for how long it has
	// run, sleep included; an empty id when the platform can't tell. The
	// platform's own when nil.
	Boot func() (id string, up time.Duration)
	// Redact returns a text without the secrets that are recognised in it; nil for
	// none. It must not call back.
	Redact func(text string) string
}

// Queue holds the questions of one daemon. Its methods are safe for concurrent
// use. It is a gate.Approver.
type Queue struct {
	db    *store.DB
	o     Options
	stop  chan struct{} // closed by Close
	wake  chan struct{} // holds a token when a question was added
	ended sync.WaitGroup

	mu        sync.Mutex // guards what follows
	perServer int
	total     int
	bytes     int64
	open      map[string]*entry // by id
	ready     map[string]*entry // by id: ended ones whose answer waits for a call
	calls     map[call]*asker   // of open ones, and the last of those that have ended
	past      []call            // of calls those whose question has ended, oldest first
	unwritten []ended           // which the disk does not know yet
	filed     map[string]*burst // by server
	grants    map[string]*given // in force, by id
	uses      map[call]past     // what grants let through, as far as they remember it
	watchers  map[*watcher]struct{}
	closed    bool
}

// call names one call.
type call struct {
	attachment string
	seq        uint64
}

// entry is one question and the calls that ask it. Of long params it holds the
// beginnings, see shorten.
type entry struct {
	q    Question
	due  time.Time     // until when it is open, or its answer waits; with the monotonic clock
	done chan struct{} // closed when the question has ended
	asks []*asker      // oldest first
	size int           // bytes of the call, or of what is kept of it
	// SHA-256 over the params, which are whole only on disk: others can write there.
	params [sha256.Size]byte
}

// ended is a question that has ended, with the calls that have learned of it.
type ended struct {
	q    Question
	told []store.Asker
}

var errStopping = fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)

// New takes up the open questions that an earlier daemon left in db. Close must
// be called before db is closed.
func New(db *store.DB, o Options) (*Queue, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Boot == nil {
		o.Boot = store.Boot
	}
	q := &Queue{
		db: db, o: o, stop: make(chan struct{}), wake: make(chan struct{}, 1),
		open: map[string]*entry{}, ready: map[string]*entry{}, calls: map[call]*asker{}, filed: map[string]*burst{}, grants: map[string]*given{}, uses: map[call]past{},
		watchers: map[*watcher]struct{}{},
	}
	q.SetLimits(o.PerServer, o.Total, o.Bytes)
	ctx := context.Background() // what is done here is local and short
	if err := errors.Join(db.PruneQuestions(ctx, kept), db.PruneGrants(ctx, endedGrants)); err != nil {
		return nil, err
	}
	if err := q.takeUp(ctx); err != nil {
		return nil, err
	}
	q.ended.Go(q.expire)
	return q, nil
}

// takeUp reads what an earlier daemon left: open questions, and answers that wait.
func (q *Queue) takeUp(ctx context.Context) error {
	var open []*entry
	err := q.db.EachOpen(ctx, func(old Question) {
		e := &entry{q: old, due: q.o.Now().Add(q.left(old.Expires, old.Created)), done: make(chan struct{}), size: len(old.Params)}
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
		v := &given{g, q.o.Now().Add(q.left(g.Expires, g.Created))}
		q.grants[g.ID] = v
		if len(g.Beside) == 0 {
			q.endGrant(ctx, v, "void", "it was given under an earlier release and says nothing of what stands beside the arguments; give it anew")
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
	for i := range ready {
		old := &ready[i]
		e := &entry{q: *old, due: q.o.Now().Add(q.left(old.Good, old.Decided)), done: closed}
		q.ready[e.q.ID] = e
	}
	return nil
}

// SetLimits changes how many questions may be open for one server and in all, and how
// many bytes their calls may hold; zero stands for the default. Questions that are open
// stay so.
func (q *Queue) SetLimits(perServer, total int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.perServer, q.total, q.bytes = perServer, total, bytes
	if bytes <= 0 {
		q.bytes = 64 << 20
	}
	if perServer <= 0 {
		q.perServer = 16
	}
	if total <= 0 {
		q.total = 256
	}
}

// Close ends the queue. Questions stay open on disk for the next daemon, and
// whoever waits for one learns that this daemon is stopping.
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

// List returns the open questions, oldest first; with all, also the newest 200
// that have ended, newest first. Of long params they have the beginnings.
func (q *Queue) List(all bool) []Question {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	list := q.listOpen()
	if !all {
		return list
	}
	ended, err := q.db.EndedQuestions(context.Background(), listed)
	if err != nil {
		q.o.Logger.Error("list questions", "component", "approval", "err", err)
	}
	for _, u := range q.unwritten { // what the disk does not know yet it does not return: it is open there
		list = append(list, u.q)
	}
	list = append(list, ended...)
	slices.SortFunc(list, func(a, b Question) int { return byNumber(b, a) })
	return list
}

// Counts returns how many questions are open, and how many calls wait for the
// answers to them.
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

// Get returns a question with all of its params, or gate.ErrNotFound. gate.ErrChanged
// means that they are not those that were filed.
func (q *Queue) Get(ctx context.Context, id string) (Question, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	if e := q.open[id]; e != nil {
		return q.whole(ctx, e)
	}
	for _, u := range q.unwritten {
		if u.q.ID == id {
			return u.q, nil
		}
	}
	return q.db.Question(ctx, id)
}

// Asked returns the numbers of the calls of an attachment about which somebody is asked,
// or was not long ago.
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
