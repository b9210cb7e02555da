package courier

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
)

const (
	pingInterval = 30 * time.Second

	// When a server ends, all devices of a fleet notice at once. They come back spread over
	// firstSpread. Whoever finds nobody then waits for againLeast to twice of that, and
	// longer each further time.
	firstSpread = 30 * time.Second
	againLeast  = 15 * time.Second
	againMost   = time.Minute
)

// A Link is a connection to the engine, which is made again whenever it is lost.
type Link struct {
	*nats.Conn
	Device string // the public key of the device

	jwt     atomic.Pointer[string] // with which the connection is made again
	state   atomic.Uint64          // grows with each connection and each loss of one; odd while there is one
	changed chan struct{}          // receives after each change of state; a value that nobody has taken is enough
}

// Connect connects to the engine.
func (id *Identity) Connect(options ...nats.Option) (*Link, error) {
	claims, err := id.claims()
	if err != nil {
		return nil, err
	}
	key, err := nkeys.FromSeed([]byte(id.Seed))
	if err != nil {
		return nil, err
	}
	config, err := id.tls(id.Engine...)
	if err != nil {
		return nil, err
	}
	l := &Link{Device: claims.Subject, changed: make(chan struct{}, 1)}
	token := id.JWT
	l.jwt.Store(&token)
	var again spread
	up := func(*nats.Conn) {
		again.tries.Store(0)
		l.change(1)
	}
	options = append([]nats.Option{
		nats.Name("tg-fleet"),
		nats.UserJWT(func() (string, error) { return *l.jwt.Load(), nil }, key.Sign),
		nats.Secure(config), nats.CustomInboxPrefix(streams.Inbox(l.Device)),
		nats.Timeout(streams.DialTimeout), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(2),
		// What was not sent is sent again by whoever has asked for it, never from a buffer.
		nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.IgnoreDiscoveredServers(),
		nats.ReconnectToServer(again.next),
		nats.ConnectHandler(up), nats.ReconnectHandler(up),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { l.change(0) }), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)
	if l.Conn, err = nats.Connect(strings.Join(id.Engine, ","), options...); err != nil {
		return nil, fmt.Errorf("connect to the engine: %w", err)
	}
	return l, nil
}

// tls returns the configuration of TLS for servers at these addresses.
func (id *Identity) tls(addresses ...string) (*tls.Config, error) {
	ca, err := hex.DecodeString(id.CA)
	if err != nil {
		return nil, fmt.Errorf("the digest of the engine's authority: %w", err)
	}
	return engine.Pinned(ca, addresses...), nil
}

// spread says when a lost connection is tried again.
type spread struct{ tries atomic.Int64 } // since the connection was lost

// next tries all servers one after the other, beginning with any, and then waits for a
// random while.
func (s *spread) next(servers []nats.Server, _ nats.ServerInfo) (*nats.Server, time.Duration) {
	n := int(s.tries.Add(1)) - 1
	server := &servers[n%len(servers)]
	switch passes := n / len(servers); {
	case n == 0:
		return &servers[rand.N(len(servers))], rand.N(firstSpread)
	case n%len(servers) != 0:
		return server, 0
	default:
		least := min(againLeast<<min(passes-1, 8), againMost)
		return server, least + rand.N(least)
	}
}

// change notes that the connection was made (1), or lost (0). The library calls it in turn.
func (l *Link) change(made uint64) {
	l.state.Store((l.state.Load()/2+1)*2 + made)
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Made waits until a connection was made after the one that it returned before, 0 for any,
// and there still is one. It returns false if ctx ends.
func (l *Link) Made(ctx context.Context, before uint64) (uint64, bool) {
	for {
		if now := l.state.Load(); now > before && now%2 == 1 {
			return now, true
		}
		select {
		case <-ctx.Done():
			return 0, false
		case <-l.changed:
		}
	}
}

// Serve runs work while there is a connection, and anew with each: what a server held
// before may be gone, if another one answers now.
func (l *Link) Serve(ctx context.Context, work func(context.Context)) {
	made, ok := l.Made(ctx, 0)
	for ok {
		l.session(ctx, made, work)
		made, ok = l.Made(ctx, made)
	}
}

// session runs work until the connection is lost, or ctx ends.
func (l *Link) session(ctx context.Context, made uint64, work func(context.Context)) {
	var running sync.WaitGroup
	defer running.Wait()
	session, stop := context.WithCancel(ctx)
	defer stop()
	running.Go(func() { work(session) })
	for l.state.Load() == made {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		}
	}
}
