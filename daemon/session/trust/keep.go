package trust

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// Limits of what is kept, whatever projects contain. Beyond them the oldest starts are forgotten,
// and a person is asked again when they return.
const (
	maxWaiting  = 8    // waiting starts of one server of a project
	maxAccepted = 32   // accepted starts of one server of a project
	maxStarts   = 4096 // of all servers
)

// keep adds k, and removes what exceeds the limits. b.mu must be held.
func (b *Registry) keep(ctx context.Context, k *Kept) error {
	row, err := k.toStore()
	if err != nil {
		return err
	}
	gone := b.surplus(k)
	if err := b.db.KeepStart(ctx, row, gone); err != nil {
		return err
	}
	for _, old := range gone {
		delete(b.starts, key{old.Project, old.Server, [32]byte(old.Digest)})
	}
	b.starts[k.key()] = k
	return nil
}

// surplus returns the starts to remove when k is added. b.mu must be held.
func (b *Registry) surplus(k *Kept) []store.StartKey {
	var same, all, gone []*Kept
	for _, other := range b.starts {
		if other.key() == k.key() {
			continue
		}
		all = append(all, other)
		if other.replacedBy(k) {
			gone = append(gone, other)
		} else if other.Project == k.Project && other.Server == k.Server && other.Accepted.IsZero() == k.Accepted.IsZero() {
			same = append(same, other)
		}
	}
	room := maxAccepted
	if k.Accepted.IsZero() {
		room = maxWaiting
	}
	gone = append(gone, oldest(same, len(same)+1-room)...)
	if more := len(all) - len(gone) + 1 - maxStarts; more > 0 {
		all = slices.DeleteFunc(all, func(other *Kept) bool { return slices.Contains(gone, other) })
		gone = append(gone, oldest(all, more)...)
	}
	var keys []store.StartKey
	for _, other := range gone {
		keys = append(keys, store.StartKey{Project: other.Project, Server: other.Server, Digest: other.Digest[:]})
	}
	return keys
}

// replacedBy reports whether k is a waiting start, and now is the current start of the same command
// in the same file. Nobody needs to accept what is not there any more.
func (k *Kept) replacedBy(now *Kept) bool {
	return k.Accepted.IsZero() && k.Project == now.Project && k.Server == now.Server && k.From == now.From &&
		slices.Equal(k.Command, now.Command) && (k.Remote == nil) == (now.Remote == nil)
}

// oldest returns n starts of all: waiting ones first, then by age.
func oldest(all []*Kept, n int) []*Kept {
	if n <= 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *Kept) int {
		return cmp.Or(waitingFirst(a, b), a.Noticed.Compare(b.Noticed))
	})
	return slices.Clone(all[:min(n, len(all))])
}

func waitingFirst(a, b *Kept) int {
	switch {
	case a.Accepted.IsZero() == b.Accepted.IsZero():
		return 0
	case a.Accepted.IsZero():
		return -1
	}
	return 1
}

func (k *Kept) toStore() (*store.Start, error) {
	shown, err := json.Marshal(k.Start)
	if err != nil {
		return nil, err
	}
	return &store.Start{
		StartKey: store.StartKey{Project: k.Project, Server: k.Server, Digest: k.Digest[:]},
		Shown:    shown, Noticed: k.Noticed, Accepted: k.Accepted, Decider: k.Decider,
	}, nil
}

func fromStore(row *store.Start) (*Kept, error) {
	k := &Kept{Noticed: row.Noticed, Accepted: row.Accepted, Decider: row.Decider}
	if err := json.Unmarshal(row.Shown, &k.Start); err != nil {
		return nil, err
	}
	if k.Digest = k.digest(); string(k.Digest[:]) != string(row.Digest) || k.Project != row.Project || k.Server != row.Server {
		return nil, errors.New("what was shown is not what was accepted: the row was altered")
	}
	return k, nil
}
