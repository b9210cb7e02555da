package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Restore recovers the sessions of a previous daemon. When it returns, all attachments are
// registered, so that no process below an agent can decide anything. Kept data is not trusted:
// a session that differs from the state database ends, with a record.
func (b *Registry) Restore(ctx context.Context) error {
	kept, strays, err := b.Keep.Take(ctx)
	if err != nil {
		b.Logger.Error("take over descriptors of the previous daemon", "err", err)
	}
	for _, s := range strays {
		b.Logger.Warn("a kept descriptor belongs to no session and was closed", "name", s.Name, "end", s.End.String(), "reason", s.Why)
	}
	held, err := b.Store.Held(ctx)
	if err != nil {
		return errors.Join(err, closeKept(kept))
	}
	known := map[string]*about{}
	for _, h := range held {
		a := new(about)
		if err := json.Unmarshal(h.About, a); err != nil {
			return errors.Join(fmt.Errorf("read attachments: %w", err), closeKept(kept))
		}
		known[h.Name] = a
	}
	for i := range kept {
		b.restore(ctx, &kept[i], known[kept[i].Name])
		delete(known, kept[i].Name)
	}
	for name, a := range known { // its descriptors were lost with the daemon that held them
		err = errors.Join(err, b.Store.DeleteHeld(ctx, name))
		b.Sessions.Lost(ctx, a.Saved, "its descriptors were lost with a previous daemon")
		b.endLeftBehind(a)
	}
	return err
}

// restore recovers one session. what is nil if the session is unknown.
func (b *Registry) restore(ctx context.Context, k *keep.Session, what *about) {
	if what == nil {
		b.Logger.Warn("the kept descriptors of an unknown session were closed", "name", k.Name)
		closeAll(k.Files...)
		if err := errors.Join(b.Keep.Drop(ctx, k.Name), k.Mapping.Close()); err != nil {
			b.Logger.Error("drop kept descriptors", "name", k.Name, "err", err)
		}
		return
	}
	a := b.newAttachment(what.Shim.Attachment, what.Shim.Server, what.Peer)
	a.name, a.about, a.mapping, a.kept = k.Name, *what, k.Mapping, true
	a.turn.Lock()
	defer a.turn.Unlock()
	b.mu.Lock()
	b.all[a.id] = a
	b.mu.Unlock()
	shim, err := proc.Open(a.peer)
	if err == nil {
		defer b.wait.Go(func() { a.watchShim(shim) })
	}
	if err := a.restore(ctx, k, err); err != nil {
		b.Logger.Error("a session of the previous daemon was ended", "server_id", a.server, "err", err)
		if a.joined == nil && !a.finished {
			b.Sessions.Lost(ctx, what.Saved, err.Error())
		}
		a.end(ctx, "lost", err.Error())
		b.endLeftBehind(what)
	}
}

// endLeftBehind ends the server of a tg-shim that ended while no daemon was running. A live
// tg-shim does that itself. In another boot the server's numbers may be those of anything else.
func (b *Registry) endLeftBehind(what *about) {
	if boot, _ := store.Boot(); what.Boot == boot && !what.Peer.Alive() {
		b.wait.Go(func() { b.Sessions.EndGroup(b.ctx, what.Server) })
	}
}

// restore recovers the session. lost is why its tg-shim can't be watched, or nil.
func (a *attachment) restore(ctx context.Context, k *keep.Session, lost error) (err error) {
	if a.files, err = takeFiles(k.Files); err != nil {
		closeAll(k.Files...)
		return err
	}
	if lost != nil {
		return lost
	}
	if a.name != nameOf(a.id) {
		return fmt.Errorf("%w: it has the name of another session", mapping.ErrCorrupt)
	}
	if err := a.about.findCommand(); err != nil {
		return err
	}
	if a.joined, err = a.registry.Sessions.Rejoin(ctx, a.about.Saved, a.drain); err != nil {
		return err
	}
	if !a.about.Begun {
		return nil // tg-shim has yet to report whether the server was started
	}
	var server relay.Server
	switch {
	case a.about.InMemory:
		server = a.inMemory()
	case a.about.Reason != "":
		server = a.refusal()
	case a.files.ServerOutput == nil:
		return fmt.Errorf("%w: the server's output is missing", mapping.ErrCorrupt)
	default:
		server = a.pipes(a.about.Server)
	}
	return a.run(server, a.registry.Earlier(a.id))
}

func closeKept(all []keep.Session) (err error) {
	for _, k := range all {
		closeAll(k.Files...)
		err = errors.Join(err, k.Mapping.Close())
	}
	return err
}
