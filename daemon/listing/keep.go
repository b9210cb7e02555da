package listing

import (
	"context"

	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// rouse wakes the goroutine. b.mu is held.
func (b *Book) rouse() {
	select {
	case b.wake <- struct{}{}:
	default: // it is awake
	}
}

// run tells of what is new and writes it down, until close.
func (b *Book) run() {
	defer close(b.done)
	for range b.wake {
		for b.step() {
		}
		b.mu.RLock()
		closing := b.closing
		b.mu.RUnlock()
		if closing {
			return
		}
	}
}

// step does what there is to do, and reports whether there was anything.
func (b *Book) step() bool {
	b.mu.Lock()
	fresh := b.fresh
	b.fresh = nil
	var write []store.Listing
	var drop []launchKey
	for key := range b.dirty {
		if g := b.launches[key]; g == nil {
			drop = append(drop, key)
		} else {
			g.kept = g.listed
			write = append(write, g.written(key))
		}
	}
	clear(b.dirty)
	b.mu.Unlock()

	ctx := context.Background() // what is begun is written
	for i := range write {
		b.failed(b.store.KeepListing(ctx, &write[i]))
	}
	for _, key := range drop {
		b.failed(b.store.DropListing(ctx, key.server, key.launch))
	}
	if len(fresh) > 0 {
		b.news(fresh)
	}
	return len(fresh)+len(write)+len(drop) > 0
}

// failed logs that something could not be kept. It is known until the daemon
// ends, and the next one learns it from the next list.
func (b *Book) failed(err error) {
	if err != nil {
		b.log.Warn("keep what servers list", "err", err)
	}
}

// written is a launch as it is kept. b.mu is held.
func (g *launched) written(key launchKey) store.Listing {
	w := store.Listing{Server: key.server, Launch: key.launch, Listed: g.listed}
	for _, t := range g.tools {
		w.Tools = append(w.Tools, store.Shape{Tool: t.tool.Name, Takes: t.takes, Fault: t.tool.Fault})
	}
	return w
}

// Close writes down what is left, and returns when the goroutine has ended. What
// is listed afterwards is not learned.
func (b *Book) Close() {
	b.mu.Lock()
	b.closing = true
	b.rouse()
	b.mu.Unlock()
	<-b.done
}
