// Package inbox keeps a model of the questions that wait for a person, for a program
// that shows them: a terminal, a desktop, a chat.
//
// [Watch] reports each question that is open, each change, and each end, also of a
// question that ended while there was no connection to the daemon. It looks for a
// daemon that has gone until it is back. [Decide] answers a question, and [Workflows]
// says where an answer counts.
//
// What a surface keeps of a question is its own matter: an inbox remembers no more
// than which questions may still change. A question is known by its id and its
// subject together; an id comes again with another subject only if the daemon has lost
// its memory.
package inbox

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Timeout is how long the daemon may take to answer a call, unless the caller's
// context ends before.
const Timeout = 15 * time.Second

const (
	// How long after the daemon has gone it is looked for, at first and at most.
	retryFirst = 100 * time.Millisecond
	retryLast  = 2 * time.Second

	// A new connection names every open question. One that it has not named after
	// unnamedFirst is read, and again every unnamedNext, until it is named or has ended.
	unnamedFirst = time.Second
	unnamedNext  = 10 * time.Second

	// afterGood is how long after an approval was good for a repeated call the
	// question is read once more.
	afterGood = time.Second
)

// Daemon is what of the daemon an inbox uses. A *client.Client is one.
type Daemon interface {
	Status(ctx context.Context) (*pb.StatusResponse, error)
	PolicySet(ctx context.Context) (*pb.PolicySet, error)
	GetApproval(ctx context.Context, id string) (*pb.Approval, error)
	WatchApprovals(ctx context.Context) iter.Seq2[*pb.ApprovalEvent, error]
	Decide(ctx context.Context, d *pb.Decision) (*pb.Decided, error)
}

// Kind says what an event is about.
type Kind int

const (
	// Connected reports that the daemon is there. Every open question follows, also
	// those that were reported before.
	Connected Kind = iota + 1
	// Lost reports that the daemon has gone, once until it is back. It keeps its
	// questions.
	Lost
	// Open reports a question that is open: a new one, or one that has changed or is
	// named again.
	Open
	// Ended reports a question that has ended, and again when its end changes: an
	// approval that is good for a repeated call can be used, revoked or expire. One
	// that the daemon does not know any more has an id, a subject, and no state.
	Ended
)

// Event is a change of the model.
type Event struct {
	Kind     Kind
	Question *pb.Approval // of Open and Ended; of long arguments the beginnings, as in lists
	Err      error        // of Lost: why there is no connection
}

// Watch yields events until ctx ends or the loop is left. The questions known, of
// which only the id and the subject matter, were open when the caller knew of them
// last: the end of each is reported too.
func Watch(ctx context.Context, d Daemon, known ...*pb.Approval) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		w := &watcher{daemon: d, held: map[string]*held{}, yield: yield}
		for _, q := range known {
			w.held[q.GetId()] = &held{subject: q.GetSubject()}
		}
		ctx, cancel := context.WithCancel(ctx)
		events := make(chan Event)
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		work.Go(func() { follow(ctx, d, events) })
		for more := true; more; {
			var due <-chan time.Time
			if id, at := w.next(); id != "" && w.last == Connected {
				due = time.After(time.Until(at))
			}
			select {
			case e := <-events:
				more = w.apply(e)
			case <-due:
				more = w.readDue(ctx)
			case <-ctx.Done():
				return
			}
		}
	}
}

// Decide answers a question. It returns how the question stands then, with
// [client.ErrDecided] too: that it had ended before, and how, if the daemon can say.
// Other errors are those of [client.Client.Decide].
func Decide(ctx context.Context, d Daemon, answer *pb.Decision) (*pb.Decided, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	done, err := d.Decide(ctx, answer)
	if errors.Is(err, client.ErrDecided) {
		if q, readErr := d.GetApproval(ctx, answer.GetId()); readErr == nil {
			return &pb.Decided{Approval: q}, err
		}
	}
	return done, err
}

// Workflows returns the workflows in force, by name: who is asked, where, and from which
// surfaces an approval counts.
func Workflows(ctx context.Context, d Daemon) (map[string]*pb.PolicyWorkflow, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	set, err := d.PolicySet(ctx)
	all := map[string]*pb.PolicyWorkflow{}
	for _, w := range set.GetDetail().GetWorkflows() {
		all[w.GetName()] = w
	}
	return all, err
}

// follow sends what the daemon says of questions until ctx ends.
func follow(ctx context.Context, d Daemon, events chan<- Event) {
	send := func(e Event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	pause := retryFirst
	for ctx.Err() == nil {
		_, err := d.Status(ctx)
		if began := time.Now(); err == nil {
			send(Event{Kind: Connected})
			err = stream(ctx, d, send)
			if time.Since(began) > retryLast { // not one that ends whatever is tried
				pause = retryFirst
			}
		}
		send(Event{Kind: Lost, Err: err})
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, retryLast)
	}
}

// stream sends what the daemon says of questions over one connection, and returns why
// it ended.
func stream(ctx context.Context, d Daemon, send func(Event)) error {
	for event, err := range d.WatchApprovals(ctx) {
		if err != nil {
			return err
		}
		send(Event{Question: event.GetApproval()})
	}
	return errors.New("the daemon has ended the connection")
}

// watcher is the model of one loop over Watch. It is used by one goroutine.
type watcher struct {
	daemon Daemon
	yield  func(Event) bool
	last   Kind             // what was reported of the connection last; 0 for nothing
	held   map[string]*held // questions that may still change, by id
}

// held is what is remembered of a question.
type held struct {
	subject []byte
	due     time.Time // when it is read; zero for never
}

// apply takes an event of follow, and reports whether the caller wants more.
func (w *watcher) apply(e Event) bool {
	switch {
	case e.Question != nil:
		return w.put(e.Question, time.Time{})
	case e.Kind == Lost && w.last == Lost:
		return true
	case e.Kind == Connected:
		for _, h := range w.held {
			h.due = time.Now().Add(unnamedFirst)
		}
	}
	w.last = e.Kind
	return w.yield(e)
}

// put reports how a question stands. If it is open it is read when due.
func (w *watcher) put(q *pb.Approval, due time.Time) bool {
	id := q.GetId()
	if h := w.held[id]; h != nil && !bytes.Equal(h.subject, q.GetSubject()) && !w.forget(id) {
		return false
	}
	if q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN {
		w.held[id] = &held{bytes.Clone(q.GetSubject()), due}
		return w.yield(Event{Kind: Open, Question: q})
	}
	delete(w.held, id)
	if good := q.GetGood().AsTime(); q.GetGood() != nil && !q.GetSpent() && time.Now().Before(good) {
		w.held[id] = &held{bytes.Clone(q.GetSubject()), good.Add(afterGood)}
	}
	return w.yield(Event{Kind: Ended, Question: q})
}

// forget reports that the daemon does not know a question any more.
func (w *watcher) forget(id string) bool {
	subject := w.held[id].subject
	delete(w.held, id)
	return w.yield(Event{Kind: Ended, Question: &pb.Approval{Id: id, Subject: subject}})
}

// next returns the question that is to be read first, and when; no id for none.
func (w *watcher) next() (id string, due time.Time) {
	for other, h := range w.held {
		if !h.due.IsZero() && (id == "" || h.due.Before(due)) {
			id, due = other, h.due
		}
	}
	return id, due
}

// readDue reads the question that is due first.
func (w *watcher) readDue(ctx context.Context) bool {
	id, _ := w.next()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	q, err := w.daemon.GetApproval(ctx, id)
	switch again := time.Now().Add(unnamedNext); {
	case errors.Is(err, client.ErrNotFound):
		return w.forget(id)
	case err != nil:
		w.held[id].due = again
		return true
	default:
		return w.put(q, again)
	}
}
