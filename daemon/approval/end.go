package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// endQuestion ends a waiting question: first in the audit log, then on disk, then for the waiting
// calls. If it can't be recorded, end returns an error and the call is denied.
func (q *Queue) endQuestion(ctx context.Context, e *entry, state store.State) error {
	ctx = context.WithoutCancel(ctx) // a canceled context must not interrupt this
	now := q.o.Now()
	e.q.State, e.q.Decided = state, now.UTC().Truncate(resolution)
	unrecorded := q.o.Recorder.Record(ctx, endRecord(&e.q), nil, nil)
	if unrecorded != nil {
		q.o.Logger.Error("record the end of a question", "component", "approval", "approval", e.q.ID, "err", unrecorded)
		if state == store.StateApproved {
			e.q.State, e.q.Note = store.StateRejected, "the answer could not be recorded"
			e.q.Edited, e.q.Edit = false, nil
		}
		unrecorded = fmt.Errorf("the call is denied: %w", unrecorded)
	}
	e.q.Params, e.q.ParamsBytes, e.q.Members = nil, 0, nil
	if q.o.Redact != nil { // names are untrusted too
		e.q.Tool, e.q.Reason, e.q.Rule = q.o.Redact(e.q.Tool), q.o.Redact(e.q.Reason), q.o.Redact(e.q.Rule)
	}
	e.q.Shown = nil
	told := q.assignAnswer(e)
	q.unwritten = append(q.unwritten, ended{e.q, told})
	if err := q.writeEnds(); err != nil {
		q.o.Logger.Error("save the end of a question", "component", "approval", "approval", e.q.ID, "err", err)
	}
	delete(q.open, e.q.ID)
	if e.q.Good.IsZero() {
		for _, a := range e.asks {
			q.forgetCall(a.call)
		}
	} else {
		q.ready[e.q.ID] = e
		q.wakeExpiry()
	}
	close(e.done)
	q.notifyWatchers(e)
	return unrecorded
}

// assignAnswer returns the calls that get the answer of e now, and sets how long the answer
// waits. A denial is for every waiting call. An approval is for the call that has waited
// longest, which takes it when it is about to be forwarded, so that a denial can still
// overrule it. An answer that no call takes now waits for a repetition, or for a call
// that a tg-shim of a previous daemon submits again.
func (q *Queue) assignAnswer(e *entry) []store.Asker {
	var told []store.Asker
	if e.q.Device != "" { // the machine that asks has it
		e.q.Spent = true
		return nil
	}
	switch e.q.State {
	case store.StateApproved:
	case store.StateRejected:
		for _, a := range e.asks {
			if a.state == store.AskerWaits && a.claimed {
				a.state = store.AskerTold
				told = append(told, *a.kept())
			}
		}
	default:
		return nil
	}
	e.q.Spent = len(told) > 0
	if e.q.Spent {
		return told
	}
	validity := cmp.Or(e.q.Validity, defaultValidity)
	e.q.Boot, e.q.Deadline = q.deadlineAfter(validity)
	e.due, e.q.Good = q.o.Now().Add(validity), e.q.Decided.Add(validity)
	return nil
}

// writeEnds writes the ends of questions to disk. What can't be written now is retried
// with the next end. If the daemon dies before that, the question is waiting again; if it
// is answered again, the audit log contains both answers.
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

// endRecord returns the audit record of the end of a question.
func endRecord(q *Question) *record.Record {
	level := gate.Level("")
	switch q.State {
	case store.StateApproved:
		level = levelOf(q.Level)
	case store.StateRejected: // a denial needs no proof
		level = gate.LevelWatch
	}
	reason := q.Note
	if q.Edited { // the record of the call has both versions; the digest identifies this one
		if reason != "" {
			reason += "; "
		}
		reason += fmt.Sprintf("with changed arguments, SHA-256 %x", sha256.Sum256(q.Edit))
	}
	r := recordOf(q, record.KindDecision)
	if q.Device != "" { // no call of this machine: what is counted and compared here must not meet it
		about := fmt.Sprintf("for %s, of the machine %s: %s %s on %s", q.Agent, q.Device, q.Method, q.Tool, q.Server)
		if reason != "" {
			about += "; " + reason
		}
		reason = about
		r = &record.Record{Kind: record.KindDecision, Approval: q.ID, Profile: q.Profile}
	}
	r.Verdict, r.Gate, r.Rule, r.Reason = string(q.State), "ask", q.Rule, reason
	r.Decider, r.Surface, r.Approver, r.Level = q.Decider, q.Surface, q.Approver, cmp.Or(q.Proved, string(level))
	r.LatencyUS = q.Decided.Sub(q.Created).Microseconds()
	return r
}

// recordOf returns the start of a record about a question.
func recordOf(q *Question, kind record.Kind) *record.Record {
	return &record.Record{
		Kind: kind, Attachment: q.Attachment, Call: q.Seq, ID: q.Call, Session: q.Session, Agent: q.Agent,
		Server: q.Server, Launch: q.Launch, Direction: q.Direction, Method: q.Method, Tool: q.Tool, Profile: q.Profile, Approval: q.ID,
	}
}

// Withdraw removes a call from its question. The question is withdrawn, unless another
// call is waiting for it or was parked.
func (q *Queue) Withdraw(attachment string, seq uint64) {
	const reason = "the agent cancelled the call"
	q.withdraw(reason, func(a *asker) bool { return a.call == call{attachment, seq} }, nobody)
}

// WithdrawQuestion withdraws a question, for that reason.
func (q *Queue) WithdrawQuestion(id, reason string) {
	q.withdraw(reason, func(a *asker) bool { return a.e.q.ID == id }, func(old *Question) bool { return old.ID == id && old.State == store.StateOpen })
}

// WithdrawAttachment removes the calls of an attachment that will not return; reason says
// why, such as "the agent has left". Its parked calls can be repeated by another
// attachment of the same session.
func (q *Queue) WithdrawAttachment(attachment, reason string) {
	q.withdraw(reason, func(a *asker) bool { return a.attachment == attachment },
		func(old *Question) bool { return old.Session == "" && old.Attachment == attachment })
}

// WithdrawSession ends all that depends on a session that has ended: its questions are
// withdrawn, and no answer waits any more.
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

// WithdrawUnclaimed withdraws every question of a previous daemon for which no call was
// submitted to this one. It must be called once every tg-shim has had the time to attach
// again.
func (q *Queue) WithdrawUnclaimed(reason string) {
	q.withdraw(reason, func(a *asker) bool { return !a.claimed }, nobody)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.ready {
		if !e.q.Parked && e.first() == nil { // its answer waited for a call that has not returned
			q.dropReadyAnswer(e)
		}
	}
}

func nobody(*Question) bool { return false }

// withdraw removes the calls for which left is true. It withdraws the questions that have
// no calls then, and those for which over is true, with their waiting answers. It also
// withdraws questions that had no calls before: the previous daemon may have been killed
// between removing the last call and ending the question.
func (q *Queue) withdraw(reason string, left func(*asker) bool, over func(*Question) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.withdrawLocked(reason, left, over)
	}
}

// withdrawLocked is like withdraw. q.mu must be held.
func (q *Queue) withdrawLocked(reason string, left func(*asker) bool, over func(*Question) bool) {
	for _, e := range q.ready {
		gone := false
		for _, a := range e.asks {
			if a.state == store.AskerWaits && left(a) { // it did not take the answer
				a.state, gone = store.AskerGone, true
			}
		}
		if over(&e.q) || gone && e.waiting() == 0 && !e.q.Parked {
			q.dropReadyAnswer(e)
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
				q.o.Logger.Error("save that a call was cancelled", "component", "approval", "approval", e.q.ID, "err", err)
			}
		}
		switch {
		case over(&e.q), e.waiting() == 0 && !e.q.Parked && (e.q.Device == "" || len(e.asks) > 0): // the calls of a previous daemon are those that have asks
			e.q.Note = reason
			// A withdrawn call is not executed, recorded or not; end has logged the
			// error.
			_ = q.endQuestion(context.Background(), e, store.StateWithdrawn)
		case changed:
			q.notifyWatchers(e)
		}
	}
}

// resolution is the resolution of times on disk.
const resolution = time.Microsecond

// expire ends each question at its deadline.
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

// expireDue ends questions and grants past their deadline, drops answers that have waited
// too long, and returns the time to the next deadline. The timer alone would be late
// after the machine has slept, so methods that look at questions call expireDue first.
// q.mu must be held.
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
			q.endGrant(context.Background(), v, "expired", "it has expired")
		})
	}
	for _, e := range q.ready {
		look(e.due, e.q.Boot, e.q.Deadline, func() { q.dropReadyAnswer(e) })
	}
	for _, e := range q.open {
		// An expired call is not executed, recorded or not; end has logged the error.
		look(e.due, e.q.Boot, e.q.Deadline, func() { _ = q.endQuestion(context.Background(), e, store.StateExpired) })
	}
	return next, any
}

// deadlineAfter returns the time after while, on the clock of how long the machine has been running.
func (q *Queue) deadlineAfter(while time.Duration) (boot string, deadline time.Duration) {
	boot, up := q.o.Boot()
	return boot, up + while
}

// remainingTime returns the remaining time of something from a previous daemon that began at since
// and was to last until until. The wall clock may have been set meanwhile, so left never
// returns more than the original duration. The clock that nobody can set is checked by
// [Queue.expireDue].
func (q *Queue) remainingTime(until, since time.Time) time.Duration {
	return min(until.Sub(q.o.Now()), until.Sub(since))
}
