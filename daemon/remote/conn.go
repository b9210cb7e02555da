package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/uri"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	maxOpen          = 256     // requests
	maxErrorText     = 1 << 10 // bytes of an error for the agent
	orderTimeout     = 10 * time.Second
	handshakeTimeout = time.Minute
	leaveTimeout     = 5 * time.Second // for the request that ends a session
)

// Conn is the connection of one client with one server, until it is left.
type Conn struct {
	server  Server
	address address
	client  Client
	http    http.RoundTripper
	log     *slog.Logger
	ctx     context.Context // ends with the connection
	cancel  context.CancelCauseFunc
	large   chan struct{}   // has an element for each large message that is being received
	work    chan func()     // to the goroutine that is idle, if one is
	isIdle  atomic.Bool     // one is, or will be at once
	sending <-chan struct{} // closed when the last request of the client has been sent; only Write uses it

	mu          sync.Mutex // guards the fields below
	wait        sync.WaitGroup
	left        bool
	open        map[string]*request // without an answer, by id
	session     *session            // the current one
	renewing    chan struct{}       // closed when the handshake has been repeated; nil if it is not under way
	initialize  []byte              // the agent's request; nil until it is answered
	agreed      string              // what the server answered to it, for comparison
	initialized []byte              // the agent's notification; nil until it is sent
	version     string              // of the last modern request
	mirrors     map[string][]mirror // by tool
	asked       int                 // requests of the connection's own
	dropped     int                 // lines of the server that were dropped
	answered    bool                // the server has answered a request
	failure     error               // of the last request; nil if it was answered
}

// session is a session of the legacy era. Requests of the modern era have one without an id.
type session struct {
	ctx    context.Context // of its streams
	cancel context.CancelFunc

	// The mutex of the connection guards the fields below.
	id, version string
	endpoint    *url.URL      // of 2024-11-05; nil for Streamable HTTP
	isProven    bool          // it has accepted more than the handshake
	took        time.Duration // how long the slower part of the handshake took
}

// request is a request that is open.
type request struct {
	line    []byte
	e       wire.Envelope
	id      []byte
	key     string
	session *session
	ctx     context.Context
	cancel  context.CancelCauseFunc
	sent    func()            // called when the request has been written, or never will be
	answer  func(line []byte) // takes the answer; nil if the client does
	torn    bool              // its stream has broken and is being resumed; guarded by the connection
}

// Open returns a connection with the server. Nothing is sent before the client's first line. It must be
// left. It closes the server's Authorizer, unless Open fails.
func (n *Network) Open(s Server, client Client) (*Conn, error) {
	parsed, err := uri.ParseServer(s.Address)
	address := address{parsed}
	if err == nil {
		err = checkHeaders(s.Headers)
	}
	if err == nil && address.Socket != "" && s.Policy == PublicOnly {
		err = errors.New("a project's file may not name a socket; if you want that, write the server into a file of your own")
	}
	if err != nil {
		return nil, fmt.Errorf("remote server %s: %w", s.ID, err)
	}
	t, release, err := n.acquire(&s, address)
	if err != nil {
		return nil, fmt.Errorf("remote server %s: %w", s.ID, err)
	}
	c := open(s, address, client, t, n.log)
	go func() { // Close waits for it
		defer release()
		<-c.ctx.Done()
		c.end()
		if s.Authorizer != nil {
			s.Authorizer.Close()
		}
	}()
	return c, nil
}

func open(s Server, a address, client Client, rt http.RoundTripper, log *slog.Logger) *Conn {
	headers := http.Header{}
	for name, values := range s.Headers {
		for _, value := range values {
			headers.Add(name, value)
		}
	}
	s.Headers = headers
	if a.User != nil && s.Headers.Get("Authorization") == "" {
		password, _ := a.User.Password()
		s.Headers.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.User.Username()+":"+password)))
	}
	sent := make(chan struct{})
	close(sent) // nothing has to be waited for yet
	c := &Conn{
		server: s, address: a, client: client, http: rt, log: log.With("server_id", s.ID),
		large: make(chan struct{}, maxLarge), work: make(chan func()), sending: sent,
		open: map[string]*request{}, mirrors: map[string][]mirror{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background()) // lives until the connection is left
	c.session = c.newSession()
	return c
}

func (c *Conn) newSession() *session {
	s := &session{}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	return s
}

// State reports whether the server has answered a request yet, and why the last one failed, nil if it did
// not. It may be called concurrently.
func (c *Conn) State() (answered bool, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered, c.failure
}

// Leave ends the connection: open requests are abandoned, and the server is told that the session has
// ended. Leave does not wait for that.
func (c *Conn) Leave() { c.cancel(ErrLeft) }

// fail ends the connection and notifies the client.
func (c *Conn) fail(err error) {
	c.cancel(err)
	if context.Cause(c.ctx) != ErrLeft {
		c.client.Gone(err)
	}
}

// end waits for all goroutines of the connection, which was left or has failed, and ends the session.
func (c *Conn) end() {
	c.mu.Lock()
	c.left = true
	s := c.session
	c.mu.Unlock()
	c.wait.Wait()
	if s.id == "" || s.endpoint != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	resp, err := c.do(ctx, http.MethodDelete, c.address.URL, c.header(s, ""), nil, nil)
	if err != nil {
		c.log.Debug("end a session", "err", err)
		return
	}
	resp.Body.Close() // servers may refuse
}

// start runs f in a goroutine of the connection, unless that has been left.
func (c *Conn) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left || c.ctx.Err() != nil {
		return false
	}
	select {
	case c.work <- f:
	default:
		c.wait.Go(func() { c.run(f) })
	}
	return true
}

// run runs f, and what start hands over after that, unless another goroutine is idle already. The stack of
// a goroutine that serves again need not grow again.
func (c *Conn) run(f func()) {
	for f != nil {
		f()
		f = nil
		if c.isIdle.Swap(true) {
			return
		}
		select {
		case f = <-c.work:
		case <-c.ctx.Done():
		}
		c.isIdle.Store(false)
	}
}

// Write takes one line of the client without line end. Lines are sent in order: Write waits until the one
// before, if that is a request, has been sent. A notification or an answer has also been accepted by the
// server when Write returns, or at least has had time for that. An error means that the connection has been
// left or has failed, or that ctx has ended; what goes wrong with a request is its answer.
func (c *Conn) Write(ctx context.Context, line []byte) error {
	if err := c.inTurn(ctx, c.sending, handshakeTimeout); err != nil {
		return err
	}
	line = bytes.Clone(line)
	var e wire.Envelope
	if wire.Read(line, wire.FromAgent, &e) != nil {
		e = wire.Envelope{Kind: wire.Notification} // that the profile forwards what is no message is no reason to fail
	}
	s, err := c.current(ctx, e.Kind == wire.Request && e.Method == "initialize")
	if err != nil {
		return err
	}
	if c.cancels(line, &e) {
		return nil
	}
	sent := make(chan struct{})
	if e.Kind == wire.Request {
		r := c.newRequest(s, line, &e)
		r.sent = sync.OnceFunc(func() { close(sent) })
		c.sending = sent
		if !c.start(func() { c.exchange(r) }) {
			return context.Cause(c.ctx)
		}
		return nil
	}
	if !c.start(func() {
		defer close(sent)
		if err := c.notify(s.ctx, s, line, &e); err != nil && c.ctx.Err() == nil {
			c.log.Warn("send a message", "method", e.Method, "err", err)
		}
	}) {
		return context.Cause(c.ctx)
	}
	return c.inTurn(ctx, sent, orderTimeout)
}

// inTurn waits until what must not be overtaken has been sent, or has had time for that.
func (c *Conn) inTurn(ctx context.Context, sent <-chan struct{}, timeout time.Duration) error {
	select {
	case <-sent: // as a rule
		return nil
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-sent:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	return nil
}

// current returns the session for the next message. It waits while the handshake is repeated. A
// handshake begins a new session.
func (c *Conn) current(ctx context.Context, begins bool) (*session, error) {
	for {
		c.mu.Lock()
		s, renewing := c.session, c.renewing
		if renewing == nil && begins && (s.id != "" || s.endpoint != nil) {
			s.cancel()
			c.session = c.newSession()
			s = c.session
		}
		c.mu.Unlock()
		if renewing == nil {
			return s, nil
		}
		select {
		case <-renewing:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		}
	}
}

func (c *Conn) newRequest(s *session, line []byte, e *wire.Envelope) *request {
	r := &request{line: line, e: *e, id: e.ID.Of(line), key: e.Key(line), session: s, sent: func() {}}
	r.ctx, r.cancel = context.WithCancelCause(c.ctx)
	return r
}

// register adds r to the open requests.
func (c *Conn) register(r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open[r.key] != nil:
		return errTwice
	case len(c.open) >= maxOpen:
		return fmt.Errorf("more than %d requests are open", maxOpen)
	}
	if r.e.Modern {
		c.version, _ = wire.Unquote(r.e.Version, r.line)
	}
	c.open[r.key] = r
	return nil
}

var (
	errTwice    = errors.New("a request with this id is already open")
	errAnswered = errors.New("the request has been answered") // why its response is closed
	errCanceled = errors.New("the request has been cancelled")
)

// take removes r from the open requests and reports whether it was one. Who takes a request answers it.
func (c *Conn) take(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[r.key] != r {
		return false
	}
	delete(c.open, r.key)
	return true
}

func (c *Conn) isOpen(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[r.key] == r
}

// cancels reports whether the message cancels a modern request, and closes its response, which is how
// the server learns of it.
func (c *Conn) cancels(line []byte, e *wire.Envelope) bool {
	if e.Kind != wire.Notification || e.Method != "notifications/cancelled" {
		return false
	}
	key, err := wire.Key(e.RequestID.Of(line))
	c.mu.Lock()
	r, isModern := c.open[key], c.version != "" && c.initialize == nil
	c.mu.Unlock()
	if err != nil || r == nil || !r.e.Modern {
		return isModern // of a request that has been answered
	}
	if c.take(r) {
		r.cancel(errCanceled)
	}
	return true
}

// exchange sends a request of the client, and sees to it that it gets one answer.
func (c *Conn) exchange(r *request) {
	defer r.cancel(errAnswered)
	defer r.sent()
	err := c.register(r)
	switch {
	case errors.Is(err, errTwice): // an error would be read as the answer to the first one
		c.log.Warn("drop a request", "err", err)
		return
	case err != nil:
		c.deliver(mcp.RefuseUnread(r.id, mcp.CodeGate, err.Error()))
		return
	}
	if err := c.try(r); err != nil {
		c.answerError(r, err)
	}
}

// answerError answers r with an error, unless it has been answered or cancelled.
func (c *Conn) answerError(r *request, err error) {
	if !c.take(r) {
		return
	}
	r.cancel(errAnswered)
	if c.ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	c.failure = err
	c.mu.Unlock()
	c.log.Warn("a request failed", "method", r.e.Method, "err", err)
	if r.answer == nil {
		text := "The MCP server did not answer: " + err.Error()
		c.deliver(mcp.RefuseUnread(r.id, mcp.CodeServerExit, text[:min(len(text), maxErrorText)])) // it may quote the server
	}
}

func (c *Conn) deliver(line []byte) {
	if err := c.client.DeliverWait(c.ctx, line); err != nil {
		c.cancel(err)
	}
}

// notify sends a message that has no answer.
func (c *Conn) notify(ctx context.Context, s *session, line []byte, e *wire.Envelope) error {
	header := c.header(s, acceptBoth)
	c.mu.Lock()
	if c.initialize == nil && c.version != "" {
		header.Set(versionHeader, c.version)
		header.Set(methodHeader, e.Method)
	}
	endpoint := s.endpoint
	c.mu.Unlock()
	if endpoint == nil {
		endpoint = c.address.URL
	}
	began := time.Now()
	resp, err := c.post(ctx, endpoint, header, line, func() {})
	if err != nil {
		return err
	}
	defer c.drain(resp)
	if resp.StatusCode == http.StatusNotFound && header.Get(sessionHeader) != "" {
		c.renew(s)
		return nil
	}
	if resp.StatusCode >= 300 {
		return c.failed(http.MethodPost, endpoint, statusError(resp))
	}
	if e.Method == "notifications/initialized" {
		c.mu.Lock()
		c.initialized = line
		s.took = max(s.took, time.Since(began))
		c.mu.Unlock()
		c.listen(s)
	} else {
		c.mu.Lock()
		s.isProven = true
		c.mu.Unlock()
	}
	return nil
}

// prove notes that the server has accepted r, or answered it: on the stream of a session, an answer can
// overtake the response that accepts the request. The mutex of the connection is held.
func (r *request) prove() {
	if r.e.Method != "initialize" {
		r.session.isProven = true
	}
}

// begun notes the answer to an initialize request.
func (c *Conn) begun(s *session, request, answer []byte, e *wire.Envelope) {
	version, err := wire.Member(answer, e.Result, "protocolVersion")
	text, err2 := wire.Unquote(version, answer)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && err2 == nil && isVisible(text, maxVersionBytes) {
		s.version = text
	}
	c.initialize, c.agreed = request, agreement(answer, e)
}

// agreement returns what a server answered to initialize, as far as the client relies on it.
func agreement(answer []byte, e *wire.Envelope) string {
	return rawjson.Pick(e.Result.Of(answer), "protocolVersion", "capabilities")
}

// renew makes a new session for one that the server no longer knows, with the handshake of the agent.
// A session that never accepted anything is not renewed: the server would take and forget sessions
// forever.
func (c *Conn) renew(old *session) {
	c.mu.Lock()
	if c.session != old || c.ctx.Err() != nil {
		c.mu.Unlock()
		return // somebody else does
	}
	if !old.isProven || c.initialize == nil {
		c.mu.Unlock()
		c.fail(fmt.Errorf("remote server %s: the server forgets its sessions at once", c.server.ID))
		return
	}
	s, done := c.newSession(), make(chan struct{})
	c.session, c.renewing = s, done
	first := c.initialize
	var lost []*request
	for _, r := range c.open {
		if r.session == old && !r.e.Modern {
			lost = append(lost, r)
		}
	}
	c.mu.Unlock()
	old.cancel()
	for _, r := range lost {
		c.answerError(r, fmt.Errorf("remote server %s: the server has ended the session, and a new one begins; the request may have been executed", c.server.ID))
	}
	if err := c.shakeHands(s, first); err != nil {
		c.fail(err)
	}
	c.mu.Lock()
	c.renewing = nil
	c.mu.Unlock()
	close(done)
}

// Resume makes the handshake for a client that had one with a previous connection. The returned channel
// is closed when it is done; it stays open if the client is told that the server is gone.
func (c *Conn) Resume(initialize []byte) <-chan struct{} {
	made, first := make(chan struct{}), bytes.Clone(initialize)
	c.mu.Lock()
	s, done := c.session, make(chan struct{})
	c.renewing = done
	c.mu.Unlock()
	c.start(func() {
		err := c.shakeHands(s, first)
		c.mu.Lock()
		c.renewing = nil
		c.mu.Unlock()
		close(done)
		if err != nil {
			c.fail(err)
			return
		}
		close(made)
	})
	return made
}

// shakeHands repeats the handshake of the agent for the session s. The server must answer as before.
func (c *Conn) shakeHands(s *session, initialize []byte) error {
	timeout := handshakeTimeout + c.server.LoginTime
	ctx, cancel := context.WithTimeoutCause(s.ctx, timeout, fmt.Errorf("the handshake takes longer than %s", timeout))
	defer cancel()
	var e wire.Envelope
	if err := wire.Read(initialize, wire.FromAgent, &e); err != nil || e.Method != "initialize" {
		return fmt.Errorf("remote server %s: repeat the handshake: the earlier requests are unknown", c.server.ID)
	}
	answer, err := c.call(ctx, s, initialize, &e)
	if err != nil {
		return fmt.Errorf("repeat the handshake: %w", err)
	}
	var a wire.Envelope
	if err := wire.Read(answer, wire.FromServer, &a); err != nil || a.Kind != wire.Result {
		return fmt.Errorf("remote server %s: the server answers the repeated handshake with an error", c.server.ID)
	}
	c.mu.Lock()
	before, line := c.agreed, c.initialized
	c.mu.Unlock()
	if before != "" && agreement(answer, &a) != before {
		return fmt.Errorf("remote server %s: the server answers the repeated handshake differently", c.server.ID)
	}
	c.begun(s, initialize, answer, &a)
	if line == nil {
		line = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	if err := c.notify(ctx, s, line, &wire.Envelope{Kind: wire.Notification, Method: "notifications/initialized"}); err != nil {
		return fmt.Errorf("repeat the handshake: %w", err)
	}
	return nil
}

// call sends a request of the connection's own and returns its answer.
func (c *Conn) call(ctx context.Context, s *session, line []byte, e *wire.Envelope) ([]byte, error) {
	r := c.newRequest(s, line, e)
	defer r.cancel(errAnswered)
	answers := make(chan []byte, 1)
	r.answer = func(line []byte) { answers <- bytes.Clone(line) }
	if err := c.register(r); err != nil {
		return nil, fmt.Errorf("remote server %s: %w", c.server.ID, err)
	}
	defer c.take(r)
	stop := context.AfterFunc(ctx, func() { r.cancel(context.Cause(ctx)) })
	defer stop()
	if err := c.try(r); err != nil {
		return nil, err
	}
	select {
	case answer := <-answers:
		return answer, nil
	case <-r.ctx.Done():
		select {
		case answer := <-answers:
			return answer, nil
		default:
			return nil, fmt.Errorf("remote server %s: %w", c.server.ID, context.Cause(r.ctx))
		}
	}
}
