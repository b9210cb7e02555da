package hook

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// maxUnseen is how many warnings are kept. All are on record.
const maxUnseen = 32

// folder returns where an agent has its transcripts. Only a protection can say that it is not
// below the user's home: its agent's environment is the agent's claim.
func (r *Registry) folder(c *agenthook.Contract, protection string) string {
	t := c.Transcript
	if t == nil {
		return ""
	}
	home := filepath.Join(r.Home, t.Home)
	if r.Variable != nil && protection != "" {
		if other := r.Variable(protection, t.Variable); filepath.IsAbs(other) {
			home = other
		}
	}
	return filepath.Join(home, t.Folder)
}

// conversationEnded compares the transcripts soon, since the agent may still be writing. If the
// agent ends meanwhile, they are compared then.
func (a *agent) conversationEnded() {
	if !a.settling.CompareAndSwap(false, true) {
		return
	}
	a.registry.wait.Go(func() {
		written := time.NewTimer(a.registry.settling)
		defer written.Stop()
		select {
		case <-written.C:
			a.settling.Store(false)
			a.compare()
		case <-a.life.Done():
		}
	})
}

// compare compares the agent's transcripts with what it has reported, unless the daemon is
// stopping, and records what was not reported.
func (a *agent) compare() {
	r := a.registry
	if r.ctx.Err() != nil {
		return
	}
	known, _ := r.Sessions.Known(a.joined.Shim.Attachment)
	calls, problem := a.ledger.compare(r.ctx, func(server string) bool {
		return server != agenthook.Server && slices.Contains(known.Servers, server)
	})
	if len(calls) > 0 {
		a.warn("unjudged", describe(calls, r.Redact))
	}
	if problem != "" && r.ctx.Err() == nil {
		a.warn("unknown", Unseen{Text: problem})
	}
}

// warn is [Registry.warn] about the agent.
func (a *agent) warn(verdict string, u Unseen) {
	u.Since = a.joined.Since
	a.registry.warn(&a.joined.Shim, a.joined.Attachment.Profile(), verdict, u)
}

// warn records a warning and keeps it for people.
func (r *Registry) warn(shim *gate.Shim, profile gate.Profile, verdict string, u Unseen) {
	u.At, u.Session, u.Agent, u.Project = time.Now(), shim.Session, shim.Agent, shim.Project
	r.Logger.Warn("an agent's transcript was compared with what its hooks reported", "session", u.Session, "agent", u.Agent, "result", u.Text)
	err := r.Recorder.Record(context.WithoutCancel(r.ctx), &record.Record{
		Kind: record.KindUnseen, Attachment: shim.Attachment, Session: shim.Session, Agent: u.Agent, Server: agenthook.Server,
		Verdict: verdict, Profile: string(profile), Reason: u.Text,
	}, nil, nil)
	if err != nil {
		r.Logger.Error("record calls that no hook reported", "session", u.Session, "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unseen = append(r.unseen, u); len(r.unseen) > maxUnseen {
		r.unseen = r.unseen[1:]
	}
}

// Unseen returns the latest warnings about what agents did past their hooks, oldest first.
func (r *Registry) Unseen() []Unseen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.unseen)
}
