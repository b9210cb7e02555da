package session

import (
	"context"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// newJoined determines which agent and session a new shim belongs to. r.mu must be held.
func (r *Registry) newJoined(h *Hello, seen *agent) *Joined {
	shim, lasts, claims := r.member(*h)
	if shim.Patience == 0 && shim.Agent != "" && r.patience != nil {
		shim.Patience = r.patience(shim.Agent)
	}
	j := &Joined{agent: seen, Saved: Saved{
		Shim: shim, Build: h.Build, Peer: h.Peer, Parent: h.Parent, Lasts: lasts, Claims: claims, Since: time.Now(),
	}}
	j.Whole = r.agentOf(h, j)
	return j
}

// admit adds a shim to the attached ones. r.mu must be held.
func (r *Registry) admit(j *Joined, earlier map[uint64]record.Record, leave func(reason string)) {
	j.leave = leave
	r.belong(j)
	r.registerAgentOf(j)
	j.Attachment = r.gate.Attach(r.ctx, j.Shim, earlier)
	r.joined[j.Shim.Attachment] = j
	r.notifySession(j, false)
	r.changed.Broadcast()
}

// recordShim records that a shim attached or left. profile is the one in force; it may be empty.
func (r *Registry) recordShim(ctx context.Context, kind record.Kind, s *Saved, profile gate.Profile, verdict, reason string) {
	err := r.recorder.Record(ctx, &record.Record{
		Kind: kind, Attachment: s.Shim.Attachment, Session: s.Shim.Session, Agent: s.Shim.Agent,
		Server: s.Shim.Server, Launch: s.Shim.Launch, Verdict: verdict, Profile: string(profile), Reason: reason,
	}, nil, nil)
	if err != nil {
		r.log.Error("record the "+string(kind)+" of a tg-shim", "server_id", s.Shim.Server, "err", err)
	}
}

func (r *Registry) recordAttach(ctx context.Context, j *Joined, verdict string) {
	r.recordShim(ctx, record.KindAttach, &j.Saved, j.Attachment.Profile(), verdict, fmt.Sprintf("%q", j.Shim.Command))
}
