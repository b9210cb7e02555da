package slack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// card is one question: as the daemon knows it, and as Slack shows it. The app's
// mutex guards it.
type card struct {
	message
	flow *pb.PolicyWorkflow // nil: it does not ask with this app any more
	q    *pb.Approval       // as the daemon told last; nil before it did
	gone bool               // the daemon does not know it any more

	dirty  bool // it may be another message by now
	unsure bool // it may have been posted without our hearing of it
	plain  bool // Slack did not take its values
	tries  int  // how often Slack refused to change its message
}

// newCard makes the card of an open question that w asks.
func newCard(q *pb.Approval, w *pb.PolicyWorkflow) *card {
	return &card{flow: w, q: q, message: message{
		ID: q.GetId(), Subject: hex.EncodeToString(q.GetSubject()), Workflow: w.GetName(), Asked: w.GetSlack().GetChannel(),
	}}
}

// keyOf is what the card of q is known by, and its buttons name.
func keyOf(q *pb.Approval) string { return q.GetId() + " " + hex.EncodeToString(q.GetSubject()) }

func (c *card) key() string { return c.ID + " " + c.Subject }

func isOpen(q *pb.Approval) bool { return q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN }

func (c *card) open() bool { return !c.gone && isOpen(c.q) }

// presence reports whether a yes needs proof that a person is there, which Slack
// can't give.
func (c *card) presence() bool {
	return c.flow.GetRequire() == levelPresence || c.q.GetLevel() == levelPresence
}

const levelPresence = "presence"

// approvable reports whether a yes may come from Slack. One to values that Slack did
// not take, or that could not be read, may not.
func (c *card) approvable() bool {
	return takesYes(c.flow) && !c.presence() && !c.plain && c.q.GetArgumentsBytes() == 0
}

// settled reports that nothing more will become of it.
func (c *card) settled(now time.Time) bool {
	switch {
	case c.gone:
		return true
	case c.q == nil || c.open():
		return false
	}
	return c.q.GetGood() == nil || c.q.GetSpent() || now.After(c.q.GetGood().AsTime())
}

// older reports whether q is from before what the card knows: what is read and what
// is watched may overtake each other.
func (c *card) older(q *pb.Approval) bool {
	if c.q == nil || c.open() {
		return false
	}
	return q.GetDecided() == nil || q.GetDecided().AsTime().Before(c.q.GetDecided().AsTime()) || c.q.GetSpent() && !q.GetSpent()
}

// follow takes up what becomes of questions until ctx ends.
func (a *app) follow(ctx context.Context) error {
	var known []*pb.Approval
	for _, m := range a.memory.kept {
		subject, _ := hex.DecodeString(m.Subject) // it was written by us
		known = append(known, &pb.Approval{Id: m.ID, Subject: subject})
	}
	for e := range inbox.Watch(ctx, a.o.Gate, known...) {
		if e.Kind == inbox.Lost {
			a.o.Say("the daemon is away, and is looked for: %s", hinted(e.Err))
		}
		for tries := 0; e.Question != nil; tries++ {
			err := a.told(ctx, e.Question)
			if err != nil && tries == 0 && ctx.Err() == nil {
				a.o.Say("%s: %s (it is tried again)", display.Name(e.Question.GetId()), hinted(err))
			}
			if err == nil || sleep(ctx, time.Second) != nil {
				break
			}
		}
	}
	return nil
}

// told takes up how a question stands. An error means that the daemon could not be
// asked whether it is for Slack.
func (a *app) told(ctx context.Context, q *pb.Approval) error {
	a.mu.Lock()
	c := a.cards[keyOf(q)]
	a.mu.Unlock()
	if c == nil {
		if !isOpen(q) {
			return nil
		}
		flow, ok, err := a.flow(ctx, q.GetWorkflow())
		if err != nil || !ok {
			return err
		}
		c = newCard(q, flow)
	}
	if err := a.fill(ctx, c, q); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.cards[c.key()]; now != nil {
		c = now // somebody was faster
	}
	switch {
	case q.GetState() == pb.ApprovalState_APPROVAL_STATE_UNSPECIFIED:
		c.gone = true
	case c.older(q):
		return nil
	default:
		c.q, c.gone = q, false
	}
	c.dirty, c.tries = true, 0
	a.cards[c.key()] = c
	a.lane(c.Asked).rouse()
	return nil
}

// fill reads the values of q, which came without them since they are long, unless c
// has them: those of an open question do not change. An error means that the daemon is
// away; what can't be read otherwise is said, and takes no yes.
func (a *app) fill(ctx context.Context, c *card, q *pb.Approval) error {
	if q.GetArgumentsBytes() == 0 {
		return nil
	}
	a.mu.Lock()
	from, known := c.q, c.open() && c.q.GetArgumentsBytes() == 0
	a.mu.Unlock()
	if !known {
		var err error
		switch from, err = a.o.Gate.GetApproval(ctx, q.GetId()); {
		case errors.Is(err, client.ErrNotRunning), ctx.Err() != nil:
			return err
		case err != nil:
			a.o.Say("%s: its values can't be read, so it takes no yes from Slack: %s", display.Name(q.GetId()), hinted(err))
			return nil
		case !isOpen(from) || !bytes.Equal(from.GetSubject(), q.GetSubject()):
			return nil // it has ended, which is told next
		}
	}
	q.Arguments, q.ArgumentsBytes = from.GetArguments(), 0
	return nil
}

// flow is the workflow of that name by the configuration in force, if it asks with
// this Slack app.
func (a *app) flow(ctx context.Context, name string) (w *pb.PolicyWorkflow, ok bool, err error) {
	flows, err := workflows(ctx, a.o.Gate)
	w, ok = flows[name]
	if ok && !slices.Contains(a.all, tokensOf(w)) {
		a.o.Say("workflow %s now names other tokens: start `tgctl slack` again to ask with them", display.Name(name))
	}
	return w, ok && tokensOf(w) == a.names, err
}

// recall makes cards of the messages that an earlier process has left, oldest first.
func (a *app) recall(flows map[string]*pb.PolicyWorkflow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.memory.kept {
		c := &card{message: m, unsure: m.TS == ""}
		if w := flows[m.Workflow]; tokensOf(w) == a.names {
			c.flow = w
		}
		for _, old := range a.cards {
			if old.ID == c.ID { // from before the daemon lost its memory
				old.gone, old.dirty = true, true
			}
		}
		a.cards[c.key()] = c
		a.lane(c.Asked)
	}
}

// messages are what there is to remember, oldest first. The caller holds the mutex.
func (a *app) messages() []message {
	var all []message
	for _, c := range a.cards {
		if c.TS != "" || c.unsure {
			all = append(all, c.message)
		}
	}
	slices.SortFunc(all, func(x, y message) int { return cmp.Or(cmp.Compare(x.TS, y.TS), cmp.Compare(x.ID, y.ID)) })
	return all
}
