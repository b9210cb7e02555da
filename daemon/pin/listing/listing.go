// Package listing remembers which tools servers list, and their input schemas. Policies are checked
// against that, also after a restart.
//
// A server is identified by its id and by what was launched under it. Its lists are untrusted and
// may change at any time, so the amount kept is bounded. Lists arrive while calls wait, so slow
// work is done in a separate goroutine.
package listing

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// Limits of what is kept. Anything beyond them is treated as not listed.
const (
	maxTools    = 1024                // for each launch of a server
	maxName     = 256                 // of a tool's name, in bytes
	maxLaunched = 256 << 10           // bytes kept for each launch of a server
	maxBytes    = 4 << 20             // bytes kept in total; the oldest listings are dropped
	overhead    = 256                 // bytes counted for each launch and each tool besides its content
	keptFor     = 90 * 24 * time.Hour // after this a launch is forgotten
	keptAgain   = time.Hour           // how often the time of a list is stored
)

// Store keeps listings across restarts; see store.DB.
type Store interface {
	KeepListing(context.Context, *store.Listing) error
	DropListing(ctx context.Context, server, launch string) error
	Listings(context.Context) ([]store.Listing, error)
}

// Registry holds what servers have listed. It is safe for concurrent use.
type Registry struct {
	store Store
	log   *slog.Logger
	news  func([]*shape.Tool)

	work sync.WaitGroup // flush

	mu       sync.RWMutex // guards the fields below
	launches map[launchKey]*launched
	bytes    int // of all launches
	dirty    map[launchKey]bool
	fresh    []*shape.Tool // not passed to news yet
	flushing bool          // flush runs
	closing  bool
}

// launchKey identifies a launch of a server.
type launchKey struct{ server, launch string }

// launched is what is known about one launch.
type launched struct {
	tools  map[string]*listed
	bytes  int
	listed time.Time
	kept   time.Time // value of listed on disk
}

// listed is a tool, its encoded shape, and the digest of the schema that the shape was read from.
// The digest is zero if the tool was loaded from disk.
type listed struct {
	tool   *shape.Tool
	takes  []byte
	digest [sha256.Size]byte
}

// Open returns a Registry with the listings that a previous daemon kept in db. news is called with new
// and changed tools, from a goroutine. Close must be called.
func Open(db Store, log *slog.Logger, news func([]*shape.Tool)) (*Registry, error) {
	b := &Registry{store: db, log: log, news: news, launches: map[launchKey]*launched{}, dirty: map[launchKey]bool{}}
	ctx := context.Background() // local and fast
	all, err := db.Listings(ctx)
	if err != nil {
		return nil, err
	}
	for _, kept := range all { // newest first, so that the oldest are dropped
		if time.Since(kept.Listed) > keptFor || !b.take(&kept) {
			if err := db.DropListing(ctx, kept.Server, kept.Launch); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// take adds a stored launch. It returns false if the launch can't be used.
func (b *Registry) take(kept *store.Listing) bool {
	g := &launched{tools: map[string]*listed{}, bytes: overhead, listed: kept.Listed, kept: kept.Listed}
	for _, t := range kept.Tools {
		tool := &shape.Tool{Server: kept.Server, Launch: kept.Launch, Name: t.Tool, Fault: t.Fault}
		if t.Takes != nil {
			var err error
			if tool.Takes, err = shape.Decode(t.Takes); err != nil {
				return false // written by another version; the next list replaces it
			}
		}
		g.tools[t.Tool] = &listed{tool: tool, takes: t.Takes}
		g.bytes += g.tools[t.Tool].size()
	}
	if b.bytes+g.bytes > maxBytes {
		return false
	}
	b.bytes += g.bytes
	b.launches[launchKey{kept.Server, kept.Launch}] = g
	return true
}

// Tool implements shape.Tools.
func (b *Registry) Tool(server, launch, name string) *shape.Tool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if g := b.launches[launchKey{server, launch}]; g != nil {
		if t := g.tools[name]; t != nil {
			return t.tool
		}
	}
	return nil
}

// Listings implements shape.Tools.
func (b *Registry) Listings() []shape.Listing {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]shape.Listing, 0, len(b.launches))
	for key, g := range b.launches {
		one := shape.Listing{Server: key.server, Launch: key.launch, Listed: g.listed}
		for _, t := range g.tools {
			one.Tools = append(one.Tools, t.tool)
		}
		all = append(all, one)
	}
	return all
}

// Listed learns the tools of one page of a list; c is its result. An unchanged schema costs only a
// hash.
func (b *Registry) Listed(c *gate.Call, tools []gate.Definition) {
	key := launchKey{c.Server, c.Launch}
	var changed []*listed
	for _, t := range tools {
		if len(t.Name) > maxName {
			continue
		}
		digest := sha256.Sum256(t.InputSchema)
		if b.unchanged(key, t.Name, digest) {
			continue
		}
		one := &listed{tool: &shape.Tool{Server: c.Server, Launch: c.Launch, Name: t.Name}, digest: digest}
		takes, err := shape.Read(t.InputSchema)
		if err != nil {
			one.tool.Fault = err.Error()
		} else {
			one.tool.Takes, one.takes = takes, takes.Encode()
		}
		changed = append(changed, one)
	}
	b.learn(key, changed)
}

func (b *Registry) unchanged(key launchKey, name string, digest [sha256.Size]byte) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	g := b.launches[key]
	return g != nil && g.tools[name] != nil && g.tools[name].digest == digest
}

// learn stores new and changed tools.
func (b *Registry) learn(key launchKey, changed []*listed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return
	}
	g := b.launches[key]
	if g == nil {
		g = &launched{tools: map[string]*listed{}, bytes: overhead}
		b.launches[key] = g
		b.bytes += overhead
	}
	g.listed = time.Now()
	dirty := g.listed.Sub(g.kept) > keptAgain
	for _, t := range changed {
		if b.put(g, t) {
			b.fresh = append(b.fresh, t.tool)
			dirty = true
		}
	}
	if dirty {
		b.dirty[key] = true
	}
	b.shrink(key)
	if !b.flushing {
		b.flushing = true
		b.work.Go(b.flush)
	}
}

// put adds a tool to its launch, and reports whether that changed anything. b.mu must be held.
func (b *Registry) put(g *launched, t *listed) bool {
	before, there := g.tools[t.tool.Name]
	switch {
	case !there && len(g.tools) >= maxTools:
		return false
	case there && string(before.takes) == string(t.takes) && before.tool.Fault == t.tool.Fault:
		before.digest = t.digest // it came from disk, or only its descriptions changed
		return false
	}
	if g.bytes+t.size()-before.size() > maxLaunched {
		t.tool.Takes, t.takes, t.tool.Fault = nil, nil, "the input schemas of the server are too large in total"
	}
	more := t.size() - before.size()
	g.tools[t.tool.Name] = t
	g.bytes += more
	b.bytes += more
	return true
}

// size returns the bytes counted for a tool; zero for nil.
func (t *listed) size() int {
	if t == nil {
		return 0
	}
	return overhead + len(t.takes) + len(t.tool.Name)
}

// shrink removes the oldest launches, except key, until the total is within the limit. b.mu must be
// held.
func (b *Registry) shrink(key launchKey) {
	for b.bytes > maxBytes {
		var oldest launchKey
		var at time.Time
		for other, g := range b.launches {
			if other != key && (at.IsZero() || g.listed.Before(at)) {
				oldest, at = other, g.listed
			}
		}
		if at.IsZero() {
			return
		}
		b.bytes -= b.launches[oldest].bytes
		delete(b.launches, oldest)
		b.dirty[oldest] = true
	}
}

// flush reports and stores changes until there are none.
func (b *Registry) flush() {
	for b.step() {
	}
}

// step does the work there is. If there is none, it reports false, and the next change starts flush
// again.
func (b *Registry) step() bool {
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
	more := len(fresh)+len(write)+len(drop) > 0
	b.flushing = more
	b.mu.Unlock()

	ctx := context.Background() // not cancelled: a started write is completed
	for i := range write {
		b.failed(b.store.KeepListing(ctx, &write[i]))
	}
	for _, key := range drop {
		b.failed(b.store.DropListing(ctx, key.server, key.launch))
	}
	if len(fresh) > 0 {
		b.news(fresh)
	}
	return more
}

// failed logs that a listing could not be stored. It remains known until the daemon ends; the next
// daemon learns it from the next list.
func (b *Registry) failed(err error) {
	if err != nil {
		b.log.Warn("save what servers list", "err", err)
	}
}

// written returns a launch in its stored form. b.mu must be held.
func (g *launched) written(key launchKey) store.Listing {
	w := store.Listing{Server: key.server, Launch: key.launch, Listed: g.listed}
	for _, t := range g.tools {
		w.Tools = append(w.Tools, store.Shape{Tool: t.tool.Name, Takes: t.takes, Fault: t.tool.Fault})
	}
	return w
}

// Close returns when what is pending was stored. Lists that arrive later are ignored.
func (b *Registry) Close() {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	b.work.Wait()
}
