package approval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// A workflow may list the surface "colleague". Then people on other machines of the fleet may
// answer: what they sign lies with the question, and an answer counts only if it was signed for
// exactly that. Signatures are verified elsewhere (daemon/fleet).

// Colleagues are the people of the fleet who may answer questions of this machine.
type Colleagues interface {
	// Able returns why no colleague may answer: this machine is in no fleet, or the policy in
	// force names nobody.
	Able() error
	// Unreachable returns why no colleague can be reached at the moment; "" if they can be.
	Unreachable() string
	// Statement returns what a colleague signs, but for the verdict, and what they are shown.
	// digest is that of what is called.
	Statement(q *Question, digest [32]byte) (statement, shown []byte, err error)
}

// proved returns what a colleague's decision proves; "" for an answer on this machine.
func proved(s *gate.Signed) string {
	switch {
	case s == nil:
		return ""
	case s.Touched:
		return gate.ProvedTouch
	}
	return gate.ProvedAccount
}

// mayColleague and onlyColleague report whether a question may, or must, be answered by a
// colleague.
func mayColleague(surfaces []string) bool { return slices.Contains(surfaces, gate.SurfaceColleague) }

func onlyColleague(surfaces []string) bool {
	return len(surfaces) > 0 && !slices.ContainsFunc(surfaces, func(s string) bool { return s != gate.SurfaceColleague })
}

// OnlyColleagues reports whether an approval of q counts from a colleague alone.
func OnlyColleagues(q *Question) bool { return onlyColleague(q.Surfaces) }

// checkColleagues refuses a question that nobody could ever approve.
func (q *Queue) checkColleagues(surfaces []string) error {
	if !onlyColleague(surfaces) {
		return nil
	}
	if q.o.Colleagues == nil {
		return gate.ErrNoColleague
	}
	if err := q.o.Colleagues.Able(); err != nil {
		return fmt.Errorf("%w: %w", gate.ErrNoColleague, err)
	}
	return nil
}

// unreachable returns why nobody can approve asked at the moment; "" if somebody can.
func (q *Queue) unreachable(asked *Question) string {
	if q.o.Colleagues == nil || !onlyColleague(asked.Surfaces) {
		return ""
	}
	return q.o.Colleagues.Unreachable()
}

// askColleagues puts a new question to colleagues too, if its workflow says so. If that fails, it
// stays a question for this machine.
func (q *Queue) askColleagues(ctx context.Context, e *entry, digest [32]byte) {
	if !mayColleague(e.q.Surfaces) || q.o.Colleagues == nil || q.o.Colleagues.Able() != nil {
		return
	}
	statement, shown, err := q.o.Colleagues.Statement(&e.q, digest)
	if err == nil {
		asked := e.q
		asked.Statement, asked.Shown = statement, shown
		if err = q.db.PutStatement(ctx, &asked); err == nil {
			e.q.Statement, e.q.Shown = statement, shown
		}
	}
	if err != nil {
		q.o.Logger.Error("put a question to colleagues", "component", "approval", "approval", e.q.ID, "err", err)
	}
}

// StatementOf returns what colleagues sign of a question that can still be answered: it waits, or
// its approval does. Otherwise the error is that of [Queue.Decide].
func (q *Queue) StatementOf(ctx context.Context, id string) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expireDue()
	for _, e := range []*entry{q.open[id], q.ready[id]} {
		if e != nil && len(e.q.Statement) > 0 {
			return e.q.Statement, nil
		}
	}
	if q.open[id] != nil || q.ready[id] != nil {
		return nil, fmt.Errorf("decide %s: no colleague was asked: %w", id, gate.ErrForbidden)
	}
	_, err := q.tooLate(ctx, id)
	return nil, err
}

// DecideSigned answers a question by a colleague's decision, as Decide does. A decision on another
// statement than that of the question is gate.ErrChanged. A touched key counts as a proof of
// presence.
func (q *Queue) DecideSigned(ctx context.Context, s gate.Signed) (Question, error) {
	d := Decision{
		ID: s.ID, Approve: s.Approve, Note: s.Note, Surface: gate.SurfaceColleague, Approver: s.Approver,
		Decider: fmt.Sprintf("%s with the key %s", s.Approver, s.Key), level: gate.LevelWatch, signed: &s,
	}
	if q.o.Redact != nil {
		d.Note = q.o.Redact(d.Note)
	}
	if s.Touched {
		d.level = gate.LevelPresence
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range []*entry{q.open[s.ID], q.ready[s.ID]} {
		if e == nil {
			continue
		}
		if len(s.Statement) == 0 || !bytes.Equal(e.q.Statement, s.Statement) {
			return Question{}, fmt.Errorf("decide %s: %w", s.ID, gate.ErrChanged)
		}
		d.Subject = e.q.Subject[:]
	}
	return q.decide(ctx, d)
}

const (
	// foreignPerDevice and foreignTotal are the maximum of waiting questions of one other machine,
	// and of all; foreignBurst is how many of one may come within burstSpan.
	foreignPerDevice = 16
	foreignTotal     = 128
	foreignBurst     = 32
)

// AskForeign puts the question of another machine before the people of this one, as one of the
// queue, and returns how it ended. The caller has set what is shown, Subject, Expires and Device.
// If ctx ends first, the question is withdrawn.
func (q *Queue) AskForeign(ctx context.Context, asked Question) (Question, error) {
	e, err := q.fileForeign(ctx, asked)
	if err != nil {
		return Question{}, err
	}
	select {
	case <-e.done:
	case <-q.stop:
		return Question{}, errStopping
	case <-ctx.Done():
		q.WithdrawQuestion(e.q.ID, "the machine that asked no longer does")
		return Question{}, context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.q, nil
}

func (q *Queue) fileForeign(ctx context.Context, asked Question) (*entry, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, errStopping
	}
	q.expireDue()
	now := q.o.Now()
	if err := q.checkForeign(&asked); err != nil {
		return nil, err
	}
	asked.Created = now.UTC().Truncate(resolution)
	left := asked.Expires.Sub(now)
	if asked.Device == "" || left <= 0 {
		return nil, fmt.Errorf("ask for another machine: it has expired, or names no machine: %w", gate.ErrInvalid)
	}
	asked.Boot, asked.Deadline = q.deadlineAfter(left)
	e := &entry{q: asked, due: now.Add(left), done: make(chan struct{}), size: len(asked.Params)}
	if err := q.db.AddQuestion(ctx, &e.q); err != nil {
		return nil, err
	}
	e.shorten()
	q.add(e)
	q.notifyWatchers(e)
	return e, nil
}

// checkForeign refuses a question of another machine past the limits, and one that waits already.
func (q *Queue) checkForeign(asked *Question) error {
	all, ofDevice := 0, 0
	for _, e := range q.open {
		if e.q.Device == "" {
			continue
		}
		if all++; e.q.Device == asked.Device {
			ofDevice++
		}
		if e.q.Subject == asked.Subject {
			return fmt.Errorf("it waits already, as %s: %w", e.q.ID, gate.ErrDecided)
		}
	}
	if all >= foreignTotal || ofDevice >= foreignPerDevice {
		return fmt.Errorf("%w: %d of other machines, %d of them of %s", gate.ErrFull, all, ofDevice, asked.Device)
	}
	now := q.o.Now()
	return errors.Join(q.countBurst("\x00devices", 4*foreignBurst, now, "all other machines"), q.countBurst("\x00device "+asked.Device, foreignBurst, now, asked.Device))
}
