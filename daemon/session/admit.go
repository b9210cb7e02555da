package session

import (
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// settle finds out where a shim that has come belongs. r.mu is held.
func (r *Registry) settle(h *Hello, seen *agent) *Joined {
	shim, lasts, claims := r.member(*h)
	if shim.Patience == 0 && shim.Agent != "" && r.patience != nil {
		shim.Patience = r.patience(shim.Agent)
	}
	j := &Joined{shim: shim, build: h.Build, peer: h.Peer, parent: h.Parent, since: time.Now(), agent: seen, lasts: lasts, claims: claims}
	j.whole = r.agentOf(h, j)
	return j
}

// admit lists a shim among those that are here. r.mu is held.
func (r *Registry) admit(j *Joined, earlier map[uint64]record.Record) {
	r.belong(j)
	r.serve(j)
	j.Attachment = r.gate.Attach(r.ctx, j.shim, earlier)
	r.joined[j.shim.Attachment] = j
}

// bind gives a shim its stream, whose number it returns, and why it should leave, empty
// when it need not. r.mu is held.
func (r *Registry) bind(j *Joined, to Stream) (stream int, asked string) {
	j.stream++
	j.attached, j.leave = true, to.Leave
	j.Attachment.Bind(to.Verdict)
	j.Attachment.DeliverTo(to.Deliver)
	r.tell(j, false)
	r.changed.Broadcast()
	return j.stream, j.asked
}

func (r *Registry) recordAttach(ctx context.Context, j *Joined, verdict string) {
	err := r.recorder.Record(ctx, &record.Record{
		Kind: record.KindAttach, Attachment: j.shim.Attachment, Session: j.shim.Session, Agent: j.shim.Agent,
		Server: j.shim.Server, Launch: j.shim.Launch, Verdict: verdict, Profile: string(j.Attachment.Profile()), Reason: fmt.Sprintf("%q", j.shim.Command),
	}, nil, nil)
	if err != nil {
		r.log.Error("record the attachment", "server_id", j.shim.Server, "err", err)
	}
}
