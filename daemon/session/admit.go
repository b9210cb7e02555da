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
func (r *Registry) admit(j *Joined, earlier map[uint64]record.Record, leave func(reason string)) {
	j.leave = leave
	r.belong(j)
	r.serve(j)
	j.Attachment = r.gate.Attach(r.ctx, j.shim, earlier)
	r.joined[j.shim.Attachment] = j
	r.notifySession(j, false)
	r.changed.Broadcast()
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
