package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// person answers what is held, by what the tool is called.
type person struct {
	*world
	client *client.Client

	mu  sync.Mutex
	yes map[string]bool // names of the calls that were let through, and not answered yet
}

// watch answers until ctx ends. The daemon goes and comes meanwhile.
func (p *person) watch(ctx context.Context) {
	for ctx.Err() == nil {
		for event, err := range p.client.WatchApprovals(ctx) {
			if err != nil {
				p.restored(ctx, err)
				break
			}
			if q := event.GetApproval(); q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN {
				p.decide(ctx, q)
			}
		}
	}
}

// restored waits a moment for the next daemon, and fails the run for any error but
// that none is there.
func (p *person) restored(ctx context.Context, err error) {
	if ctx.Err() == nil && !errors.Is(err, client.ErrNotRunning) {
		p.Errorf("the person watches: %v", err)
	}
	p.rest(moment)
}

func (p *person) decide(ctx context.Context, q *pb.Approval) {
	d := &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Surface: "script"}
	switch q.GetTool() {
	case toolHeldYes:
		name, err := nameOf(q.GetArguments())
		if err != nil {
			p.Errorf("what is shown of %s: %v", q.GetId(), err)
			return
		}
		d.Answer = pb.Answer_ANSWER_APPROVE
		p.mu.Lock()
		p.yes[name] = true
		p.mu.Unlock()
	case toolHeldNo:
		d.Answer = pb.Answer_ANSWER_DENY
	default:
		return
	}
	// Whom the daemon left in the middle is asked again by the next one. A call that
	// went away with its agent has no question any more.
	_, err := p.client.Decide(ctx, d)
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, client.ErrNotRunning), errors.Is(err, client.ErrDecided):
	default:
		p.Errorf("decide on %s: %v", q.GetId(), err)
	}
}

// nameOf is the name of a held call, from what a person is shown.
func nameOf(params []byte) (string, error) {
	var shown struct{ Arguments struct{ N string } }
	if err := json.Unmarshal(params, &shown); err != nil {
		return "", err
	}
	if shown.Arguments.N == "" {
		return "", fmt.Errorf("no name in %.300s", params)
	}
	return shown.Arguments.N, nil
}

// said reports whether the person has let a call through, and forgets it.
func (p *person) said(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer delete(p.yes, name)
	return p.yes[name]
}
