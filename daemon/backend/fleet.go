package backend

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/thoughtgate/thoughtgated/daemon/supervise"
)

var _ supervise.Fleet = (*Pool)(nil)

// List implements supervise.Fleet. A server with clients that do not agree has
// several processes, told apart by their ids.
func (p *Pool) List() []supervise.Info {
	var list []supervise.Info
	for _, in := range p.all() {
		in.mu.Lock()
		info := supervise.Info{
			Kind: supervise.KindBackend, Name: in.spec.Server, ID: in.id,
			Command: slices.Clone(in.spec.Command), Began: in.began, Clients: len(in.members),
		}
		in.mu.Unlock()
		info.Status = in.proc.Status()
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b supervise.Info) int {
		na, _ := strconv.Atoi(a.ID)
		nb, _ := strconv.Atoi(b.ID)
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(na, nb))
	})
	return list
}

func (p *Pool) all() []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.instances)
}

// Tail implements supervise.Fleet.
func (p *Pool) Tail(kind, name, id string) (*supervise.Tail, bool) {
	if in := p.named(kind, name, id); in != nil {
		return in.proc.Tail(), true
	}
	return nil, false
}

// Restart implements supervise.Fleet. What the process had not answered is answered
// with an error; its clients stay.
func (p *Pool) Restart(ctx context.Context, kind, name, id string) (bool, error) {
	in := p.named(kind, name, id)
	if in == nil {
		return false, nil
	}
	return true, in.proc.Restart(ctx)
}

func (p *Pool) named(kind, name, id string) *instance {
	for _, in := range p.all() {
		if kind == supervise.KindBackend && in.spec.Server == name && (id == "" || in.id == id) {
			return in
		}
	}
	return nil
}
