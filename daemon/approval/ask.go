package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Ask stores a new question on disk, or joins an existing one: that of the same call,
// even if it has ended; one at which an equal call was parked and that was answered
// since; or one that an equal call is asking now. gate.ErrFull means that too many calls
// are waiting, gate.ErrBurst that too many questions came in a short time.
func (q *Queue) Ask(ctx context.Context, asked *gate.Question) (gate.Held, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, errStopping
	}
	q.expireDue()
	a, err := q.find(ctx, call{asked.Call.Attachment, asked.Call.Seq})
	if err != nil {
		return nil, err
	}
	if a != nil {
		if a.e.q.Subject != asked.Subject || !covers(a.e.q.Facts, gate.NotInTheCall(asked.Facts)) {
			return nil, fmt.Errorf("the call or its rule has changed since the question %s was asked; repeat the call: %w", a.e.q.ID, gate.ErrChanged)
		}
		a.claimed, a.parkDelay = true, parkAfter(asked.Call.Patience)
		return q.hold(a), nil
	}
	a = newAsker(asked.Call, q.o.Now())
	if e := equal(q.ready, asked); e != nil && e.first() == nil { // otherwise a waiting call is about to take it
		if err := q.takeAnswer(ctx, e, a); err != nil {
			return nil, err
		}
		return q.hold(a), nil
	}
	if err := q.checkLimits(asked.Call); err != nil {
		return nil, err
	}
	if err := q.checkColleagues(asked.Ruling.Surfaces); err != nil {
		return nil, err
	}
	if e := equal(q.open, asked); e != nil {
		a.e = e
		if err := q.db.PutAsker(ctx, a.kept()); err != nil {
			return nil, err
		}
		q.join(e, a)
		q.notifyWatchers(e)
		return q.hold(a), nil
	}
	if err := q.file(ctx, asked, a); err != nil {
		return nil, err
	}
	return q.hold(a), nil
}

// file stores a new question with a as its first asker.
func (q *Queue) file(ctx context.Context, asked *gate.Question, a *asker) error {
	now := q.o.Now()
	if err := q.checkBurst(asked.Call.Server, now); err != nil {
		return err
	}
	e := &entry{q: describe(asked, now), done: make(chan struct{}), size: len(asked.Call.Line)}
	timeout := cmp.Or(asked.Ruling.Timeout, defaultTimeout)
	e.due, e.q.Expires = now.Add(timeout), e.q.Created.Add(timeout)
	e.q.Boot, e.q.Deadline = q.deadlineAfter(timeout)
	if err := q.db.AddQuestion(ctx, &e.q); err != nil {
		return err
	}
	e.shorten()
	q.askColleagues(ctx, e, asked.Digest)
	q.join(e, a)
	q.add(e)
	q.notifyWatchers(e)
	if err := q.writeEnds(); err != nil {
		q.o.Logger.Error("save the end of a question", "component", "approval", "err", err)
	}
	return nil
}

// add adds a question to the queue.
func (q *Queue) add(e *entry) {
	q.open[e.q.ID] = e
	q.wakeExpiry()
}

// wakeExpiry makes expire recompute the next deadline.
func (q *Queue) wakeExpiry() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// join makes a an asker of e.
func (q *Queue) join(e *entry, a *asker) {
	a.e = e
	e.asks = append(e.asks, a)
	q.calls[a.call] = a
}

// equal returns the oldest question in set that is about a call equal to the one in asked
// and showed all of its facts.
func equal(set map[string]*entry, asked *gate.Question) *entry {
	var oldest *entry
	for _, e := range set {
		if alike(&e.q, asked) && (oldest == nil || byNumber(e.q, oldest.q) < 0) {
			oldest = e
		}
	}
	return oldest
}

// alike reports whether an answer to q also answers asked. The subject covers the server,
// how and where it was started, the definition of what is called, the method, every byte
// of the params, and the text of the rule and the workflow that ask. In addition the
// agent, session, workflow and level must be equal, every fact of asked must have been
// shown with q, and it must not destroy more. An attachment without a session shares with no other.
func alike(q *Question, asked *gate.Question) bool {
	c := asked.Call
	return q.Subject == asked.Subject && q.Agent == c.Agent && q.Session == c.Session && q.Workflow == asked.Ruling.Workflow && levelOf(q.Level) == levelOf(string(asked.Ruling.Level)) &&
		(c.Session != "" || q.Attachment == c.Attachment) && covers(q.Facts, gate.NotInTheCall(asked.Facts)) && !c.Extent.IsBeyond(q.Extent)
}

// covers reports whether all facts of a call were shown with a question. It compares
// names only: details may differ in their wording.
func covers(shown []string, facts []gate.Fact) bool {
	return !slices.ContainsFunc(facts, func(f gate.Fact) bool {
		return gate.IsWarning(f.Name) && !slices.ContainsFunc(shown, func(text string) bool { return factName(text) == f.Name })
	})
}

// factName returns the name of the fact in a text made by factText.
func factName(text string) string {
	if end := strings.IndexAny(text, ": "); end >= 0 {
		return text[:end]
	}
	return text
}

// find returns the call if it has asked before, otherwise nil. If its question ended long
// ago, or under a previous daemon, find reads it from disk.
func (q *Queue) find(ctx context.Context, c call) (*asker, error) {
	if a := q.calls[c]; a != nil {
		return a, nil
	}
	known, err := q.db.AskerOf(ctx, c.attachment, c.seq)
	if errors.Is(err, gate.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a := &asker{call: c, since: known.Since, state: known.State}
	if e := q.ready[known.Question]; e != nil {
		q.join(e, a)
		return a, nil
	}
	old, err := q.db.Question(ctx, known.Question)
	if err != nil {
		return nil, err
	}
	a.e = &entry{q: old, done: make(chan struct{}), asks: []*asker{a}}
	close(a.e.done)
	return a, nil
}

// checkLimits refuses a call past the limits. Every waiting call takes a place, and so does a
// question that has only parked calls; each place counts the bytes of the call.
func (q *Queue) checkLimits(c *gate.Call) error {
	server, ofServer, all, held := c.Server, 0, 0, int64(0)
	for _, e := range q.open {
		if e.q.Device != "" { // which have limits of their own, so that nobody's questions keep others away
			continue
		}
		places := max(1, e.waiting())
		all += places
		held += int64(places) * int64(e.size)
		if e.q.Server == server {
			ofServer += places
		}
	}
	switch {
	case all >= q.total:
		return fmt.Errorf("%w: %d for all servers", gate.ErrFull, all)
	case held > 0 && held+int64(len(c.Line)) > q.bytes:
		return fmt.Errorf("%w: they hold %d bytes", gate.ErrFull, held)
	case ofServer >= q.perServer:
		return fmt.Errorf("%w: %d for server %q", gate.ErrFull, ofServer, server)
	}
	return nil
}

const (
	// burstSpan and burstFactor bound how many questions are created for a server:
	// burstFactor times its limit of waiting calls within burstSpan. Without this,
	// someone could wear a person out with questions that are canceled and asked again.
	burstSpan   = time.Minute
	burstFactor = 4
	// mostBursts is the number of counted servers from which inactive ones are removed.
	mostBursts = 1024
)

// burst is the number of questions created for a server since a time.
type burst struct {
	since time.Time
	n     int
}

// checkBurst refuses a question if too many were created for the server recently.
func (q *Queue) checkBurst(server string, now time.Time) error {
	return q.countBurst(server, burstFactor*q.perServer, now, fmt.Sprintf("server %q", server))
}

// countBurst refuses a question if most were counted under that key recently.
func (q *Queue) countBurst(key string, most int, now time.Time, of string) error {
	b := q.filed[key]
	if b == nil || now.Sub(b.since) >= burstSpan {
		if len(q.filed) >= mostBursts {
			for name, old := range q.filed {
				if now.Sub(old.since) >= burstSpan {
					delete(q.filed, name)
				}
			}
		}
		b = &burst{since: now}
		q.filed[key] = b
	}
	if b.n >= most {
		return fmt.Errorf("%w: %d within %v for %s", gate.ErrBurst, b.n, burstSpan, of)
	}
	b.n++
	return nil
}

// kept returns a as stored on disk.
func (a *asker) kept() *store.Asker {
	return &store.Asker{
		Attachment: a.attachment, Seq: a.seq, Question: a.e.q.ID, Since: a.since.UTC().Truncate(resolution), State: a.state,
	}
}

// asker is one call that a question is about. The queue's mutex guards it.
type asker struct {
	call
	e         *entry
	since     time.Time        // when it arrived
	parkDelay time.Duration    // how long it waits before it is parked
	state     store.AskerState // waits, parked, gone or told
	claimed   bool             // it was submitted to this daemon
}

const (
	// unknownPatience is the assumed timeout of an agent whose timeout is unknown.
	unknownPatience = time.Minute
	// parkMargin is the maximum time between parking a call and its agent's timeout.
	parkMargin = 5 * time.Second
)

// parkAfter returns how long a call may wait if its agent gives up after patience: four
// fifths of it, or all but parkMargin if that is longer. If patience is 0,
// unknownPatience is assumed.
func parkAfter(patience time.Duration) time.Duration {
	if patience <= 0 {
		patience = unknownPatience
	}
	return max(patience/5*4, patience-parkMargin)
}

func newAsker(c *gate.Call, now time.Time) *asker {
	since := c.Received
	if since.IsZero() || since.After(now) {
		since = now
	}
	return &asker{
		call: call{c.Attachment, c.Seq}, since: since, parkDelay: parkAfter(c.Patience), state: store.AskerWaits, claimed: true,
	}
}

// waiting returns the number of calls that wait for the answer.
func (e *entry) waiting() int {
	n := 0
	for _, a := range e.asks {
		if a.state == store.AskerWaits {
			n++
		}
	}
	return n
}

// shown returns the question as people see it.
func (e *entry) shown() Question {
	q := e.q
	q.Waiting = e.waiting()
	if q.Device != "" && q.State == store.StateOpen {
		q.Waiting = 1 // the machine that asks withdraws a call that no longer does
	}
	return q
}

// first returns the oldest call that waits for the answer and was submitted to this
// daemon; nil if there is none.
func (e *entry) first() *asker {
	i := slices.IndexFunc(e.asks, func(a *asker) bool { return a.state == store.AskerWaits && a.claimed })
	if i < 0 {
		return nil
	}
	return e.asks[i]
}

// takeAnswer assigns the waiting answer of e to a alone. The answer is marked as spent on disk
// before a gets it.
func (q *Queue) takeAnswer(ctx context.Context, e *entry, a *asker) error {
	if q.closed {
		return errStopping
	}
	if err := q.writeEnds(); err != nil { // the answer must be on disk first
		return err
	}
	if a.e != e {
		q.join(e, a)
	}
	if err := q.db.TakeAnswer(ctx, a.kept()); err != nil {
		return err
	}
	a.state, e.q.Spent = store.AskerTold, true
	q.dropReadyAnswer(e)
	q.notifyWatchers(e)
	return nil
}

// dropReadyAnswer removes e from the questions whose answer waits.
func (q *Queue) dropReadyAnswer(e *entry) {
	delete(q.ready, e.q.ID)
	for _, a := range e.asks {
		q.forgetCall(a.call)
	}
}

// forgetCall adds c to the calls that may be forgotten, and forgets the oldest if there are
// too many.
func (q *Queue) forgetCall(c call) {
	q.past = append(q.past, c)
	if len(q.past) > maxCachedCalls {
		delete(q.calls, q.past[0])
		q.past = q.past[1:]
	}
}

// answer returns the answer for a, whose question has ended or which is parked.
func (q *Queue) answer(ctx context.Context, a *asker) (gate.Answer, error) {
	e := a.e
	switch {
	case a.state == store.AskerParked:
		return gate.Answer{ID: e.q.ID, State: gate.StateParked, Note: q.unreachable(&e.q)}, nil
	case a == e.first() && e.q.State == store.StateApproved && q.ready[e.q.ID] == e:
		if err := q.takeAnswer(ctx, e, a); err != nil {
			return gate.Answer{}, err
		}
	case a.state != store.AskerTold && e.q.State == store.StateApproved && !e.q.Spent && q.ready[e.q.ID] == nil:
		return gate.Answer{ID: e.q.ID, State: gate.StateLapsed, Decider: e.q.Decider}, nil
	case a.state != store.AskerTold && e.q.State == store.StateApproved:
		return gate.Answer{ID: e.q.ID, State: gate.StateSpent, Decider: e.q.Decider}, nil
	case e.q.Edited && e.q.Edit == nil: // erased when a previous daemon gave it to a call
		return gate.Answer{}, fmt.Errorf("the arguments approved with %s are no longer stored", e.q.ID)
	}
	answer := gate.Answer{
		ID: e.q.ID, Approved: e.q.State == store.StateApproved, State: string(e.q.State), Note: e.q.Note, Decider: e.q.Decider,
		Edit: e.q.Edit,
	}
	if answer.Approved {
		answer.Level, answer.Extent = levelOf(e.q.Level), e.q.Extent
	}
	return answer, nil
}

// park parks a, unless its question has ended meanwhile.
func (q *Queue) park(ctx context.Context, a *asker) (gate.Answer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	if a.e.q.State == store.StateOpen && a.state == store.AskerWaits && !q.closed {
		if err := q.db.ParkAsker(ctx, a.kept()); err != nil {
			return gate.Answer{}, err
		}
		a.state, a.e.q.Parked = store.AskerParked, true
		q.notifyWatchers(a.e)
	}
	if q.closed {
		return gate.Answer{}, errStopping
	}
	return q.answer(ctx, a)
}

// held is a question from the view of one waiting call.
type held struct {
	q    *Queue
	a    *asker
	over <-chan struct{} // closed when there is an answer
	left time.Duration   // time until the call is parked, when it asked
}

// hold returns a's question for the gate to wait for.
func (q *Queue) hold(a *asker) *held {
	h := &held{q: q, a: a, over: a.e.done, left: min(a.parkDelay, max(0, a.parkDelay-q.o.Now().Sub(a.since)))}
	if a.state == store.AskerParked {
		h.over = closed
	}
	if q.unreachable(&a.e.q) != "" {
		h.left = 0 // its agent learns at once that nobody can answer now
	}
	return h
}

// ID returns the id of the question.
func (h *held) ID() string { return h.a.e.q.ID }

// Wait returns the answer, even if ctx has ended, or that the call is parked because its
// agent would not wait longer. If ctx ends first, Wait returns its cause. If the cause is
// gate.ErrWithdrawn, the call stops asking; otherwise the question is not changed.
func (h *held) Wait(ctx context.Context) (gate.Answer, error) {
	select {
	case <-h.over:
		return h.answer(ctx)
	default:
	}
	patience := time.NewTimer(h.left)
	defer patience.Stop()
	select {
	case <-h.over:
		return h.answer(ctx)
	case <-h.q.stop:
		return gate.Answer{}, errStopping
	case <-patience.C:
		return h.q.park(context.WithoutCancel(ctx), h.a)
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if errors.Is(cause, gate.ErrWithdrawn) {
			h.q.Withdraw(h.a.attachment, h.a.seq)
		}
		return gate.Answer{}, cause
	}
}

func (h *held) answer(ctx context.Context) (gate.Answer, error) {
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	return h.q.answer(context.WithoutCancel(ctx), h.a)
}

// closed is a channel that is always closed.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
