package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
)

var _ supervise.Fleet = (*Runs)(nil)

// List implements supervise.Fleet.
func (r *Runs) List() []supervise.Info {
	r.mu.Lock()
	running := slices.Clone(r.running)
	r.mu.Unlock()
	all := make([]supervise.Info, len(running))
	for i, one := range running {
		all[i] = supervise.Info{
			Kind: supervise.KindAgent, Name: one.request.Name, ID: one.id, Command: one.command,
			Status: one.process.Status(), Began: one.began, Clients: 1,
		}
	}
	slices.SortStableFunc(all, func(a, b supervise.Info) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Tail implements supervise.Fleet.
func (r *Runs) Tail(kind, name, id string) (*supervise.Tail, bool) {
	if one := r.find(kind, name, id); one != nil {
		return one.process.Tail(), true
	}
	return nil, false
}

// Restart implements supervise.Fleet. A run can't be restarted, so it always fails.
func (r *Runs) Restart(_ context.Context, kind, name, id string) (bool, error) {
	one := r.find(kind, name, id)
	if one == nil {
		return false, nil
	}
	return true, fmt.Errorf("restart %s of agent %s: a run can't be restarted; start another with `tgctl run`: %w", one.id, name, gate.ErrInvalid)
}

func (r *Runs) find(kind, name, id string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.running {
		if kind == supervise.KindAgent && one.request.Name == name && (id == "" || id == one.id) {
			return one
		}
	}
	return nil
}
