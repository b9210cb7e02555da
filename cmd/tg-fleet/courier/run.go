package courier

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thoughtgate/thoughtgated/internal/secret"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A Courier connects a daemon to the engine, or to a web server and a collector. Its
// exported fields must be set before Run.
type Courier struct {
	IdentityPath string // has the identity, and gets it when it is renewed
	StatePath    string // gets the State
	CursorPath   string // gets what a collector has acknowledged
	Daemon       pb.FleetClient
	Key          *ApproverKey // of a user who answers questions of other devices; may be nil
	Log          *slog.Logger
	Every        time.Duration // how often a web server is asked; 0: every five minutes

	link      *Link // nil without an engine
	collector *Collector
	id        *Identity
	device    string
	answers   answers
	expired   chan struct{} // the engine takes the JWT no more

	mu       sync.Mutex
	state    State
	failures map[string]error // by name of the work
	saved    State            // what StatePath has
	sent     func() uint64
}

// State is what a running courier tells of itself.
type State struct {
	Running   bool      `json:"running"`
	Connected bool      `json:"connected"`
	Engine    string    `json:"engine,omitempty"`
	Since     time.Time `json:"since,omitzero"`       // of the connection, or of its loss; without an engine, of the last answer
	Sent      uint64    `json:"sent_seq"`             // the last record that the engine is known to hold
	Error     string    `json:"last_error,omitempty"` // all that does not work, "; " between
	Fork      string    `json:"fork,omitempty"`
}

const (
	renewEvery = time.Hour
	stateEvery = 2 * time.Second
	// retryFirst and retryMost are how long work that has failed waits.
	retryFirst, retryMost = time.Second, time.Minute
	// retrySoon is how long it waits that the daemon has ended, for the first mostSoon times.
	retrySoon, mostSoon = 50 * time.Millisecond, 10
)

// Run works until ctx ends.
func (c *Courier) Run(ctx context.Context) error {
	var err error
	if c.id, err = ReadIdentity(c.IdentityPath); err != nil {
		return err
	}
	if c.device, err = c.id.Device(); err != nil {
		return err
	}
	if c.id.Policy != "" {
		return c.withoutEngine(ctx)
	}
	c.expired = make(chan struct{}, 1)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.connect(ctx); err != nil {
		return err
	}
	defer c.link.Close()
	running.Go(func() { c.keepRenewed(ctx) })
	running.Go(func() { c.writeState(ctx) })
	defer c.answers.wait()
	c.link.Serve(ctx, func(session context.Context) { c.session(ctx, session) })
	return nil
}

// connect connects, and gets another JWT first if this one has expired.
func (c *Courier) connect(ctx context.Context) error {
	var again backoff
	for {
		err := c.renewIf(ctx, c.id, func(left time.Duration) bool { return left <= 0 })
		if err == nil {
			if c.link, err = c.id.Connect(nats.ReconnectErrHandler(c.notConnected)); err == nil {
				return nil
			}
		}
		c.failed("connect", err)
		c.saveState()
		if again.pause(ctx); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// notConnected is told why the connection could not be made again.
func (c *Courier) notConnected(_ *nats.Conn, err error) {
	c.failed("connect", err)
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
		select {
		case c.expired <- struct{}{}:
		default:
		}
	}
}

// keepRenewed gets another JWT long before this one expires, or once it has, if the machine
// was off for long.
func (c *Courier) keepRenewed(ctx context.Context) {
	id := *c.id // others read c.id meanwhile
	for ctx.Err() == nil {
		c.failed("renew the JWT", c.renewIf(ctx, &id, soon))
		token := id.JWT
		c.link.jwt.Store(&token)
		select {
		case <-ctx.Done():
		case <-c.expired:
		case <-time.After(renewEvery/2 + rand.N(renewEvery)):
		}
	}
}

// renewIf gets another JWT if the time that this one is still valid for is too short.
func (c *Courier) renewIf(ctx context.Context, id *Identity, short func(left time.Duration) bool) error {
	claims, err := id.claims()
	if err != nil || claims.Expires == 0 || !short(time.Until(time.Unix(claims.Expires, 0))) {
		return err
	}
	if err := id.renew(ctx); err != nil {
		return err
	}
	return id.Write(c.IdentityPath)
}

// session is the work on one connection. What outlives it has the context of the whole.
func (c *Courier) session(whole, ctx context.Context) {
	c.failed("connect", nil)
	c.connected(true)
	defer c.connected(false)
	var parts sync.WaitGroup
	defer parts.Wait()
	for name, part := range map[string]func(context.Context) error{
		"send records": c.upload, "get policies": c.policies, "report": c.report, "ask colleagues": c.ask,
	} {
		parts.Go(func() { c.keep(ctx, name, part) })
	}
	if c.Key != nil {
		parts.Go(func() {
			c.keep(ctx, "answer colleagues", func(ctx context.Context) error { return c.answer(whole, ctx) })
		})
	}
}

// keep runs a part of the work again whenever it has failed.
func (c *Courier) keep(ctx context.Context, name string, part func(context.Context) error) {
	var again backoff
	for ctx.Err() == nil {
		began := time.Now()
		err := part(ctx)
		if time.Since(began) > retryMost {
			again = backoff{}
		}
		again.after(ctx, err, func(err error) { c.failed(name, err) })
	}
}

// backoff says when work that has failed is begun again. When the work has gone on, its owner
// makes it zero.
type backoff struct {
	most time.Duration // the longest wait; 0: retryMost
	soon int
	wait time.Duration
}

// after waits after an error, which it tells to failed. If only the daemon has ended what it
// streams, as it does when the policy changes, the work goes on at once, and nobody is told.
func (b *backoff) after(ctx context.Context, err error, failed func(error)) {
	switch {
	case ctx.Err() != nil:
	case status.Code(err) == codes.Unavailable && b.soon < mostSoon:
		b.soon++
		pause(ctx, retrySoon)
	default:
		failed(err)
		b.pause(ctx)
	}
}

// pause waits, longer each time.
func (b *backoff) pause(ctx context.Context) {
	b.wait = min(max(retryFirst, 2*b.wait), cmp.Or(b.most, retryMost))
	pause(ctx, b.wait/2+rand.N(b.wait))
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// failed notes why something does not work, and with a nil error that it does again.
// Nothing is retried for ever in silence.
func (c *Courier) failed(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.Log.Warn(what, "error", err)
		if c.failures == nil {
			c.failures = map[string]error{}
		}
		c.failures[what] = err
	} else {
		delete(c.failures, what)
	}
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.failures)) {
		all = append(all, fmt.Sprintf("%s: %v", what, c.failures[what]))
	}
	c.state.Error = strings.Join(all, "; ")
	if errors.Is(err, ErrFork) {
		c.state.Fork = err.Error()
	}
}

func (c *Courier) connected(yes bool) {
	c.mu.Lock()
	c.state.Connected, c.state.Since = yes, time.Now()
	if c.link != nil {
		c.state.Engine = c.link.ConnectedUrl()
	}
	c.mu.Unlock()
	c.saveState()
}

func (c *Courier) fork() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Fork
}

func (c *Courier) writeState(ctx context.Context) {
	for ctx.Err() == nil {
		c.saveState()
		pause(ctx, stateEvery)
	}
	c.mu.Lock()
	c.state.Running = false
	c.mu.Unlock()
}

func (c *Courier) saveState() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Running = true
	if c.sent != nil {
		c.state.Sent = c.sent()
	}
	if c.link != nil && !c.link.IsConnected() && c.state.Connected {
		c.state.Connected, c.state.Since = false, time.Now()
	}
	if c.state == c.saved {
		return
	}
	text, err := json.Marshal(c.state)
	if err == nil {
		err = secret.WriteFile(c.StatePath, append(text, '\n'))
	}
	if err != nil {
		c.Log.Warn("write the state of the courier", "error", err)
		return
	}
	c.saved = c.state
}

// states returns the state of the membership, and then each change of it.
func (c *Courier) states(ctx context.Context) iter.Seq2[*pb.FleetState, error] {
	return func(yield func(*pb.FleetState, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		watch, err := c.Daemon.Watch(ctx, &pb.WatchFleetRequest{})
		for err == nil {
			var state *pb.FleetState
			if state, err = watch.Recv(); err == nil && state.GetDevice() != c.device {
				err = errors.New("the daemon is not in the fleet of this courier")
			}
			if err == nil && !yield(state, nil) {
				return
			}
		}
		yield(nil, fmt.Errorf("ask the daemon for its state: %w", err))
	}
}

// current returns the state of the membership.
func (c *Courier) current(ctx context.Context) (*pb.FleetState, error) {
	for state, err := range c.states(ctx) {
		return state, err
	}
	return nil, io.ErrUnexpectedEOF
}

// upload sends the audit log, and another one once the daemon writes that.
func (c *Courier) upload(ctx context.Context) error {
	var (
		log     string
		running sync.WaitGroup
		stop    = func() {}
	)
	defer running.Wait()
	defer func() { stop() }()
	for state, err := range c.states(ctx) {
		if err != nil {
			return err
		}
		if state.GetLog() == log {
			continue
		}
		stop()
		running.Wait()
		log = state.GetLog()
		u := &Uploader{Device: c.device, Log: log, Collector: c.collector, Read: Records(c.Daemon), Failed: func(err error) { c.failed("send records", err) }}
		if c.link != nil {
			u.Conn = c.link.Conn
		}
		c.mu.Lock()
		c.sent, c.state.Fork = u.Sent, ""
		c.mu.Unlock()
		var session context.Context
		session, cancel := context.WithCancel(ctx)
		stop = cancel
		running.Go(func() { _ = u.Run(session) }) // it has said why it ends
	}
	return nil
}

// Records reads the audit log from the daemon.
func Records(daemon pb.FleetClient) ReadAudit {
	return func(ctx context.Context, log string, from uint64) iter.Seq2[*pb.FleetAuditRecord, error] {
		return func(yield func(*pb.FleetAuditRecord, error) bool) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			records, err := daemon.ReadAudit(ctx, &pb.FleetAuditRequest{Log: log, From: from})
			for err == nil {
				var r *pb.FleetAuditRecord
				if r, err = records.Recv(); err == nil && !yield(r, nil) {
					return
				}
			}
			if status.Code(err) == codes.OutOfRange {
				err = fmt.Errorf("%w: log %s: record %d, which this machine does not have", ErrFork, log, from)
			}
			yield(nil, err)
		}
	}
}
