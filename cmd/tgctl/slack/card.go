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
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// card is one question: as the daemon knows it, and as Slack shows it. The app's
// mutex guards it.
type card struct {
	id, subject string // subject in hex
	flow        workflow
	q           *pb.Approval // as the daemon told last; nil before it did
	gone        bool         // the daemon does not know it any more

	channel, ts, thread string // of its message, as Slack names them; no ts before it is posted
	shown               string // digest of what was sent last
	dirty               bool   // it may be another message by now
	unsure              bool   // it may have been posted without our hearing of it
	plain               bool   // Slack did not take its values
	tries               int    // how often Slack refused to change its message
}

func (c *card) open() bool {
	return !c.gone && c.q != nil && c.q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN
}

// presence reports whether a yes needs proof that a person is there, which Slack
// can't give.
func (c *card) presence() bool { return c.flow.presence || c.q.GetLevel() == "presence" }

// approvable reports whether a yes may come from Slack. One to values that Slack did
// not take, or that could not be read, may not.
func (c *card) approvable() bool {
	return c.flow.approvable() && !c.presence() && !c.plain && c.q.GetArgumentsBytes() == 0
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

// follow watches the daemon's questions until ctx ends. When the daemon goes away it
// looks for it until it is back.
func (a *app) follow(ctx context.Context) error {
	const first, last = 100 * time.Millisecond, 5 * time.Second
	pause := first
	for {
		for event, err := range a.o.Gate.WatchApprovals(ctx) {
			if err == nil {
				err = a.told(ctx, event.GetApproval())
			}
			if err != nil { // what is open is told again when it is watched anew
				if ctx.Err() == nil && pause == first {
					a.o.Say("the daemon is away, and is looked for: %s", hinted(err))
				}
				break
			}
			pause = first
		}
		if sleep(ctx, pause) != nil {
			return nil
		}
		pause = min(2*pause, last)
	}
}

// reconcileEvery is how often questions are read of which no end was heard: what
// ended while nobody watched, or is gone with the daemon's memory.
const reconcileEvery = 10 * time.Second

// reconcile reads again what is shown as open, until ctx ends.
func (a *app) reconcile(ctx context.Context) error {
	for {
		for _, id := range a.unsettled() {
			q, err := a.o.Gate.GetApproval(ctx, id)
			switch {
			case err == nil:
				_ = a.told(ctx, q) // it is known, so nothing is asked of the daemon
			case errors.Is(err, client.ErrNotFound):
				a.lost(id)
			}
		}
		if sleep(ctx, reconcileEvery) != nil {
			return nil
		}
	}
}

// unsettled are the ids of questions of which more may become.
func (a *app) unsettled() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, c := range a.cards {
		if !c.settled(time.Now()) {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// told takes up how a question stands. An error means that the daemon could not be
// asked whether it is for Slack.
func (a *app) told(ctx context.Context, q *pb.Approval) error {
	subject := hex.EncodeToString(q.GetSubject())
	a.mu.Lock()
	c := a.cards[q.GetId()]
	a.mu.Unlock()
	if c != nil && c.subject != subject {
		a.lost(c.id) // an id of another time: the daemon has lost its memory
		c = nil
	}
	if c == nil {
		if q.GetState() != pb.ApprovalState_APPROVAL_STATE_OPEN {
			return nil
		}
		flow, ok, err := a.flow(ctx, q.GetWorkflow())
		if err != nil || !ok {
			return err
		}
		c = &card{id: q.GetId(), subject: subject, flow: flow}
	}
	if err := a.fill(ctx, c, q); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.cards[c.id]; now != nil && now.subject == subject {
		c = now // somebody was faster
	}
	if c.older(q) {
		return nil
	}
	a.cards[c.id] = c
	c.q, c.gone, c.dirty, c.tries = q, false, true, 0
	a.lane(c.flow.channel).rouse()
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
		case from.GetState() != pb.ApprovalState_APPROVAL_STATE_OPEN || !bytes.Equal(from.GetSubject(), q.GetSubject()):
			return nil // it has ended, which is told next
		}
	}
	q.Arguments, q.ArgumentsBytes = from.GetArguments(), 0
	return nil
}

// lost notes that the daemon does not know a question any more.
func (a *app) lost(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.cards[id]; c != nil {
		delete(a.cards, id)
		c.gone, c.dirty = true, true
		a.cards[id+" "+c.subject] = c // the id may come again
		a.lane(c.flow.channel).rouse()
	}
}

// flow is the workflow of that name by the configuration in force, if it asks with
// this Slack app.
func (a *app) flow(ctx context.Context, name string) (workflow, bool, error) {
	flows, err := workflows(ctx, a.o.Gate)
	if err != nil {
		return workflow{}, false, err
	}
	w, ok := flows[name]
	if ok && w.tokens != a.names && !slices.Contains(a.all, w.tokens) {
		a.o.Say("workflow %s now names other tokens: start `tgctl slack` again to ask with them", display.Name(name))
	}
	return w, ok && w.tokens == a.names, nil
}

// recall makes cards of the messages that an earlier process has left.
func (a *app) recall(flows map[string]workflow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.memory.kept {
		flow, ok := flows[m.Workflow]
		if !ok || flow.tokens != a.names {
			flow = workflow{name: m.Workflow}
		}
		flow.channel = m.Asked
		c := &card{
			id: m.ID, subject: m.Subject, flow: flow, channel: m.Channel, ts: m.TS, thread: m.Thread, shown: m.Shown, unsure: m.TS == "",
		}
		a.cards[c.id] = c
		a.lane(c.flow.channel)
	}
}

// messages are what there is to remember, oldest first. The caller holds the mutex.
func (a *app) messages() []message {
	var all []message
	for _, c := range a.cards {
		if c.ts != "" || c.unsure {
			all = append(all, message{c.id, c.subject, c.flow.name, c.flow.channel, c.channel, c.ts, c.thread, c.shown})
		}
	}
	slices.SortFunc(all, func(x, y message) int { return cmp.Or(cmp.Compare(x.TS, y.TS), cmp.Compare(x.ID, y.ID)) })
	return all
}
