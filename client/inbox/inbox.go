// Package inbox keeps a model of the questions that wait for a person, for programs that show
// them: in a terminal, on a desktop, in a chat.
//
// [Watch] reports each waiting question, each change and each end, including the end of a
// question while there was no connection to the daemon. If the daemon ends, Watch waits for
// another. [Decide] answers a question, and [Workflows] returns which surfaces may answer.
//
// A surface keeps what it needs of a question itself: an inbox remembers only which questions
// may still change. The id and the subject together identify a question; an id returns with
// another subject only if the daemon has lost its state.
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

// Timeout is how long the daemon may take to answer a call, unless the caller's context ends
// earlier.
const Timeout = 15 * time.Second

const (
	// The first and the longest delay before the daemon is tried again.
	retryFirst = 100 * time.Millisecond
	retryLast  = 2 * time.Second

	// A new connection lists every waiting question. A question that it has not listed within
	// unnamedFirst is read, and again every unnamedNext, until it is listed or has ended.
	unnamedFirst = time.Second
	unnamedNext  = 10 * time.Second

	// rereadDelay is how long after an approval has expired for a repeated call the question is
	// read again.
	rereadDelay = time.Second
)

// Daemon is the part of the daemon's API that an inbox uses. A *client.Client implements it.
type Daemon interface {
	Status(ctx context.Context) (*pb.StatusResponse, error)
	PolicySet(ctx context.Context) (*pb.PolicySet, error)
	GetApproval(ctx context.Context, id string) (*pb.Approval, error)
	WatchApprovals(ctx context.Context) iter.Seq2[*pb.ApprovalEvent, error]
	Decide(ctx context.Context, d *pb.Decision) (*pb.Decided, error)
}

// Kind is the kind of an event.
type Kind int

const (
	// Connected reports a connection to the daemon. Every waiting question follows, including
	// those that were reported before.
	Connected Kind = iota + 1
	// Lost reports that the daemon cannot be reached, once until the next Connected. It keeps
	// its questions.
	Lost
	// Open reports a waiting question: one that is new, has changed, or is listed again.
	Open
	// Ended reports that a question has ended, and again when its end changes: an approval that
	// holds for a repeated call can be used, revoked or expire. A question that the daemon no
	// longer knows has an id, a subject and no state.
	Ended
)

// Event is a change of the model.
type Event struct {
	Kind     Kind
	Question *pb.Approval // for Open and Ended; long arguments are truncated, as in lists
	Err      error        // of Lost: why there is no connection
}

// Watch yields events until ctx ends or the loop is left. known are the questions that were
// waiting when the caller last watched; only their ids and subjects matter. The end of each of
// them is reported too.
func Watch(ctx context.Context, d Daemon, known ...*pb.Approval) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		w := &watcher{daemon: d, held: map[string]*trackedQuestion{}, yield: yield}
		for _, q := range known {
			w.held[q.GetId()] = &trackedQuestion{subject: q.GetSubject()}
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

// Decide answers a question and returns its resulting state. With [client.ErrDecided] it also
// returns, if the daemon can say, how the question had ended before. Other errors are those of
// [client.Client.Decide].
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

// Workflows returns the workflows in force by name: who is asked, where, and from which
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

// follow sends what the daemon reports about questions until ctx ends.
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
			if time.Since(began) > retryLast { // the connection held
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

// stream sends what the daemon reports about questions over one connection, and returns the
// error that ended it.
func stream(ctx context.Context, d Daemon, send func(Event)) error {
	for event, err := range d.WatchApprovals(ctx) {
		if err != nil {
			return err
		}
		send(Event{Question: event.GetApproval()})
	}
	return errors.New("the daemon closed the connection")
}

// watcher is the model of one Watch loop. It is used by one goroutine.
type watcher struct {
	daemon Daemon
	yield  func(Event) bool
	last   Kind                        // last reported state of the connection; 0 for none
	held   map[string]*trackedQuestion // questions that may still change, by id
}

// trackedQuestion is what is remembered of a question.
type trackedQuestion struct {
	subject []byte
	due     time.Time // when the question is read; zero for never
}

// apply handles an event of follow and reports whether the caller wants more.
func (w *watcher) apply(e Event) bool {
	switch {
	case e.Question != nil:
		return w.reportQuestion(e.Question, time.Time{})
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

// reportQuestion reports the state of a question. If it is waiting, it is read at due.
func (w *watcher) reportQuestion(q *pb.Approval, due time.Time) bool {
	id := q.GetId()
	if h := w.held[id]; h != nil && !bytes.Equal(h.subject, q.GetSubject()) && !w.forget(id) {
		return false
	}
	if q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN {
		w.held[id] = &trackedQuestion{bytes.Clone(q.GetSubject()), due}
		return w.yield(Event{Kind: Open, Question: q})
	}
	delete(w.held, id)
	if good := q.GetGood().AsTime(); q.GetGood() != nil && !q.GetSpent() && time.Now().Before(good) {
		w.held[id] = &trackedQuestion{bytes.Clone(q.GetSubject()), good.Add(rereadDelay)}
	}
	return w.yield(Event{Kind: Ended, Question: q})
}

// forget reports that the daemon no longer knows a question.
func (w *watcher) forget(id string) bool {
	subject := w.held[id].subject
	delete(w.held, id)
	return w.yield(Event{Kind: Ended, Question: &pb.Approval{Id: id, Subject: subject}})
}

// next returns the question that is due first, and when; an empty id if there is none.
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
		return w.reportQuestion(q, again)
	}
}
