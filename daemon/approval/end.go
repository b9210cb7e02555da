package approval

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// end ends an open question: first in the audit log, then on disk, then for
// those who wait. The error is of the first; then the answer is a refusal.
func (q *Queue) end(ctx context.Context, e *entry, state store.State) error {
	ctx = context.WithoutCancel(ctx) // an end is not left half-way because somebody has gone
	now := q.o.Now()
	e.q.State, e.q.Decided = state, now.UTC().Truncate(resolution)
	unrecorded := q.o.Recorder.Record(ctx, endRecord(&e.q), nil, nil)
	if unrecorded != nil {
		q.o.Logger.Error("record the end of a question", "component", "approval", "approval", e.q.ID, "err", unrecorded)
		if state == store.StateApproved {
			e.q.State, e.q.Note = store.StateRejected, "the answer could not be recorded"
			e.q.Edited, e.q.Edit = false, nil
		}
		unrecorded = fmt.Errorf("the call is refused: %w", unrecorded)
	}
	e.q.Params, e.q.ParamsBytes, e.q.Members = nil, 0, nil
	if q.o.Redact != nil { // a name, too, is the stranger's
		e.q.Tool, e.q.Reason, e.q.Rule = q.o.Redact(e.q.Tool), q.o.Redact(e.q.Reason), q.o.Redact(e.q.Rule)
	}
	told := q.hand(e)
	q.unwritten = append(q.unwritten, ended{e.q, told})
	if err := q.writeEnds(); err != nil {
		q.o.Logger.Error("keep the end of a question", "component", "approval", "approval", e.q.ID, "err", err)
	}
	delete(q.open, e.q.ID)
	if e.q.Good.IsZero() {
		for _, a := range e.asks {
			q.letGo(a.call)
		}
	} else {
		q.ready[e.q.ID] = e
		q.rouse()
	}
	close(e.done)
	q.tell(e)
	return unrecorded
}

// hand says who learns of the end of e, and what waits: a no is for every call that
// listens. A yes is for the one that has waited longest, which takes it when it is
// about to go on, so that a no can come before; and an answer that no call takes
// now waits for one, if a call was told to repeat itself, or an earlier daemon's
// shim may come back with its own.
func (q *Queue) hand(e *entry) []store.Asker {
	var told []store.Asker
	tell := func(a *asker) {
		a.state = store.AskerTold
		told = append(told, *a.kept())
	}
	switch e.q.State {
	case store.StateApproved:
	case store.StateRejected:
		for _, a := range e.asks {
			if a.state == store.AskerWaits && a.claimed {
				tell(a)
			}
		}
	default:
		return nil
	}
	e.q.Spent = len(told) > 0
	if e.q.Spent {
		return told
	}
	validity := e.q.Validity
	if validity <= 0 {
		validity = defaultValidity
	}
	e.q.Boot, e.q.Deadline = q.in(validity)
	e.due, e.q.Good = q.o.Now().Add(validity), e.q.Decided.Add(validity)
	return nil
}

// writeEnds brings to disk how questions ended. What can't be written now is
// tried again with the next; should the daemon die before, the question is open
// again, and whoever answers it once more finds both answers in the audit log.
func (q *Queue) writeEnds() error {
	for len(q.unwritten) > 0 {
		u := &q.unwritten[0]
		err := q.db.EndQuestion(context.Background(), &u.q, u.told...)
		if err != nil && !errors.Is(err, gate.ErrDecided) {
			return err
		}
		q.unwritten = q.unwritten[1:]
	}
	return nil
}

// endRecord is the audit record of the end of a question.
func endRecord(q *Question) *record.Record {
	level := gate.Level("")
	switch q.State {
	case store.StateApproved:
		level = levelOf(q.Level)
	case store.StateRejected: // a no needs no proof
		level = gate.LevelWatch
	}
	reason := q.Note
	if q.Edited { // to know them again by in the record of the call, which has both
		if reason != "" {
			reason += "; "
		}
		reason += fmt.Sprintf("with other arguments than were asked about, of SHA-256 %x", sha256.Sum256(q.Edit))
	}
	r := recordOf(q, record.KindDecision)
	r.Verdict, r.Gate, r.Rule, r.Reason = string(q.State), "ask", q.Rule, reason
	r.Decider, r.Surface, r.Approver, r.Level = q.Decider, q.Surface, q.Approver, string(level)
	r.LatencyUS = q.Decided.Sub(q.Created).Microseconds()
	return r
}

// recordOf begins a record about a question.
func recordOf(q *Question, kind record.Kind) *record.Record {
	return &record.Record{
		Kind: kind, Attachment: q.Attachment, Call: q.Seq, ID: q.Call, Session: q.Session, Agent: q.Agent,
		Server: q.Server, Launch: q.Launch, Direction: q.Direction, Method: q.Method, Tool: q.Tool, Profile: q.Profile, Approval: q.ID,
	}
}

// Withdraw notes that a call does not ask any more. Its question is withdrawn,
// unless another call asks it too, or was told to repeat itself.
func (q *Queue) Withdraw(attachment string, seq uint64) {
	const reason = "the agent took the call back"
	q.withdraw(reason, func(a *asker) bool { return a.call == call{attachment, seq} }, nobody)
}

// WithdrawAttachment notes that an attachment will not come back; reason says
// why, as "the agent has left". Calls of it that were parked can be repeated by
// another one of the same session.
func (q *Queue) WithdrawAttachment(attachment, reason string) {
	q.withdraw(reason, func(a *asker) bool { return a.attachment == attachment },
		func(old *Question) bool { return old.Session == "" && old.Attachment == attachment })
}

// WithdrawSession notes that a session is over: what was asked in it is withdrawn,
// and no answer waits any more.
func (q *Queue) WithdrawSession(session, reason string) {
	of := func(old *Question) bool { return session != "" && old.Session == session }
	q.withdraw(reason, func(a *asker) bool { return of(&a.e.q) }, of)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, v := range q.grants {
		if !q.closed && session != "" && v.g.Scope == InSession && v.g.Session == session {
			q.endGrant(context.Background(), v, "expired", reason)
		}
	}
}

// WithdrawUnclaimed withdraws every question that an earlier daemon left and that
// no call asks which was submitted to this one. It is for when shims have had the
// time to come back.
func (q *Queue) WithdrawUnclaimed(reason string) {
	q.withdraw(reason, func(a *asker) bool { return !a.claimed }, nobody)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.ready {
		if !e.q.Parked && e.first() == nil { // its answer waited for a call that has not come back
			q.unready(e)
		}
	}
}

func nobody(*Question) bool { return false }

// withdraw makes the calls that left ask no more. It ends the questions that none
// asks then, and those that over names, with the answers that wait for a
// repetition. One that none asked before is ended too: the daemon was killed when
// its last call had been taken back, and it had not.
func (q *Queue) withdraw(reason string, left func(*asker) bool, over func(*Question) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.withdrawLocked(reason, left, over)
	}
}

// withdrawLocked is withdraw for who holds q.mu.
func (q *Queue) withdrawLocked(reason string, left func(*asker) bool, over func(*Question) bool) {
	for _, e := range q.ready {
		gone := false
		for _, a := range e.asks {
			if a.state == store.AskerWaits && left(a) { // it did not take the answer
				a.state, gone = store.AskerGone, true
			}
		}
		if over(&e.q) || gone && e.waiting() == 0 && !e.q.Parked {
			q.unready(e)
		}
	}
	for _, shown := range q.listOpen() {
		e := q.open[shown.ID]
		changed := false
		for _, a := range e.asks {
			if a.state != store.AskerWaits || !left(a) {
				continue
			}
			a.state, changed = store.AskerGone, true
			if err := q.db.PutAsker(context.Background(), a.kept()); err != nil {
				q.o.Logger.Error("keep that a call was taken back", "component", "approval", "approval", e.q.ID, "err", err)
			}
		}
		switch {
		case over(&e.q), e.waiting() == 0 && !e.q.Parked:
			e.q.Note = reason
			// A withdrawn call is not executed, recorded or not; end has logged it.
			_ = q.end(context.Background(), e, store.StateWithdrawn)
		case changed:
			q.tell(e)
		}
	}
}

// resolution is how exactly times are kept on disk.
const resolution = time.Microsecond

// expire ends each question when its time is up.
func (q *Queue) expire() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-q.wake:
		case <-q.stop:
			return
		}
		q.mu.Lock()
		next, any := q.expireDue()
		q.mu.Unlock()
		timer.Stop()
		if any {
			timer.Reset(next)
		}
	}
}

// expireDue ends the questions whose time is up, and forgets the answers that have
// waited long enough, and returns after what time the next one's is. The timer alone would be late after the machine has slept, so
// that whoever looks at questions calls it first.
func (q *Queue) expireDue() (next time.Duration, any bool) {
	if q.closed || len(q.open)+len(q.ready)+len(q.grants) == 0 {
		return 0, false
	}
	now := q.o.Now()
	boot, up := q.o.Boot()
	look := func(due time.Time, of string, deadline time.Duration, over func()) {
		left := due.Sub(now)
		if boot != "" && of == boot {
			left = min(left, deadline-up)
		}
		switch {
		case left <= 0:
			over()
		case !any || left < next:
			next, any = left, true
		}
	}
	for _, v := range q.grants {
		look(v.due, v.g.Boot, v.g.Deadline, func() {
			q.endGrant(context.Background(), v, "expired", "its time is up")
		})
	}
	for _, e := range q.ready {
		look(e.due, e.q.Boot, e.q.Deadline, func() { q.unready(e) })
	}
	for _, e := range q.open {
		// An expired call is not executed, recorded or not; end has logged it.
		look(e.due, e.q.Boot, e.q.Deadline, func() { _ = q.end(context.Background(), e, store.StateExpired) })
	}
	return next, any
}

// in is the moment after a while, on the machine's own running time.
func (q *Queue) in(while time.Duration) (boot string, deadline time.Duration) {
	boot, up := q.o.Boot()
	return boot, up + while
}

// left is how long something of an earlier daemon lasts that began at since and
// was to last until until. The clock on the wall may have been set meanwhile: it
// never gives more time than that was in all. What the machine's own running time
// leaves of it is looked at by [Queue.expireDue] alone, each time.
func (q *Queue) left(until, since time.Time) time.Duration {
	return min(until.Sub(q.o.Now()), until.Sub(since))
}
