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
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// card is one question: its state in the daemon and its message on Slack. The app's mutex
// guards it.
type card struct {
	message
	flow *pb.PolicyWorkflow // nil: its workflow no longer asks with this app
	q    *pb.Approval       // latest state from the daemon; nil before the first
	gone bool               // the daemon no longer knows it

	dirty  bool // the message may have to be updated
	unsure bool // it may have been posted although no reply arrived
	plain  bool // shown without its values: Slack did not accept them
	tries  int  // how often Slack refused to update its message
}

// newCard returns a card for the question q of the workflow w.
func newCard(q *pb.Approval, w *pb.PolicyWorkflow) *card {
	return &card{flow: w, q: q, message: message{
		ID: q.GetId(), Subject: hex.EncodeToString(q.GetSubject()), Workflow: w.GetName(), Asked: w.GetSlack().GetChannel(),
	}}
}

// keyOf returns the key of q's card. The card's buttons carry it as their value.
func keyOf(q *pb.Approval) string { return q.GetId() + " " + hex.EncodeToString(q.GetSubject()) }

func (c *card) key() string { return c.ID + " " + c.Subject }

func isOpen(q *pb.Approval) bool { return q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN }

func (c *card) open() bool { return !c.gone && isOpen(c.q) }

// presence reports whether an approval needs proof of presence, which Slack cannot give.
func (c *card) presence() bool {
	return c.flow.GetRequire() == levelPresence || c.q.GetLevel() == levelPresence
}

const levelPresence = "presence"

// approvable reports whether the question may be approved on Slack. It may not if its values
// could not be read or Slack did not accept them, nor if it asks for a login.
func (c *card) approvable() bool {
	return acceptsApproval(c.flow) && approval.LoginCommand(c.q) == "" && !c.presence() && !c.plain && c.q.GetArgumentsBytes() == 0
}

// settled reports whether the question will not change any more.
func (c *card) settled(now time.Time) bool {
	switch {
	case c.gone:
		return true
	case c.q == nil || c.open():
		return false
	}
	return c.q.GetGood() == nil || c.q.GetSpent() || now.After(c.q.GetGood().AsTime())
}

// older reports whether q is older than the state in the card. Reading and watching run
// concurrently, so states can arrive out of order.
func (c *card) older(q *pb.Approval) bool {
	if c.q == nil || c.open() {
		return false
	}
	return q.GetDecided() == nil || q.GetDecided().AsTime().Before(c.q.GetDecided().AsTime()) || c.q.GetSpent() && !q.GetSpent()
}

// watchQuestions updates the cards from the daemon's questions until ctx ends.
func (a *app) watchQuestions(ctx context.Context) error {
	var known []*pb.Approval
	for _, m := range a.memory.kept {
		subject, _ := hex.DecodeString(m.Subject) // written by this program
		known = append(known, &pb.Approval{Id: m.ID, Subject: subject})
	}
	for e := range inbox.Watch(ctx, a.o.Gate, known...) {
		if e.Kind == inbox.Lost {
			a.o.Say("not connected to the daemon; reconnecting: %s", errorWithHint(e.Err))
		}
		for tries := 0; e.Question != nil; tries++ {
			err := a.updateCard(ctx, e.Question)
			if err != nil && tries == 0 && ctx.Err() == nil {
				a.o.Say("%s: %s (retrying)", display.Name(e.Question.GetId()), errorWithHint(err))
			}
			if err == nil || sleep(ctx, time.Second) != nil {
				break
			}
		}
	}
	return nil
}

// updateCard updates the card of q, or creates it. An error means that the daemon could not be asked
// whether q goes to Slack.
func (a *app) updateCard(ctx context.Context, q *pb.Approval) error {
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
		c = now // another goroutine was faster
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
	a.lane(c.Asked).wakeUp()
	return nil
}

// fill reads the values of q if they were too long to be sent with it. If c has the values
// already, they are copied: those of an open question do not change. An error means that the
// daemon is away. After any other failure q stays without values and cannot be approved on
// Slack.
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
			a.o.Say("%s: cannot read its values, so it cannot be approved on Slack: %s", display.Name(q.GetId()), errorWithHint(err))
			return nil
		case !isOpen(from) || !bytes.Equal(from.GetSubject(), q.GetSubject()):
			return nil // it has ended; the watch reports that next
		}
	}
	q.Arguments, q.ArgumentsBytes = from.GetArguments(), 0
	return nil
}

// flow returns the named workflow of the configuration in force. ok is whether it asks with
// this app.
func (a *app) flow(ctx context.Context, name string) (w *pb.PolicyWorkflow, ok bool, err error) {
	flows, err := workflows(ctx, a.o.Gate)
	w, ok = flows[name]
	if ok && !slices.Contains(a.all, tokensOf(w)) {
		a.o.Say("workflow %s now names other tokens: restart `tgctl slack` to use them", display.Name(name))
	}
	return w, ok && tokensOf(w) == a.names, err
}

// recall creates cards for the messages that an earlier process recorded, oldest first.
func (a *app) recall(flows map[string]*pb.PolicyWorkflow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.memory.kept {
		c := &card{message: m, unsure: m.TS == ""}
		if w := flows[m.Workflow]; tokensOf(w) == a.names {
			c.flow = w
		}
		for _, old := range a.cards {
			if old.ID == c.ID { // left from before the daemon lost its state
				old.gone, old.dirty = true, true
			}
		}
		a.cards[c.key()] = c
		a.lane(c.Asked)
	}
}

// messages returns the messages to remember, oldest first. a.mu must be held.
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
