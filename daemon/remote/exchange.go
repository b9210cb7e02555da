package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/remote/sse"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	maxResumes      = 8 // of a stream that says nothing
	maxPages        = 32
	endpointTimeout = 10 * time.Second

	// The next message waits for the stream of a session: listenTimeout, or listenSlower times as long as
	// the server took for the handshake, but never longer than listenMost.
	listenTimeout = 2 * time.Second
	listenSlower  = 4
	listenMost    = 10 * time.Second
)

// try sends r and handles the response. An error is the answer. A request of which nobody knows whether
// it was executed is sent again if it is idempotent.
func (c *Conn) try(r *request) error {
	for repeats := 0; ; repeats++ {
		err := c.tryOnce(r)
		isLost := errors.Is(err, errUnknownFate) && !isHostile(err)
		if !isLost || c.server.Idempotent == nil || !c.server.Idempotent(r.line, &r.e) || repeats == maxRepeats {
			return err
		}
		if sleep(r.ctx, backoff(repeats, 0)) != nil {
			return err
		}
	}
}

func (c *Conn) tryOnce(r *request) error {
	to := c.address.URL
	begins := r.e.Method == "initialize"
	if begins && c.server.Transport == OldSSE && !c.hasOneStream(r.session) {
		if err := c.openOld(r.session); err != nil {
			return err
		}
	}
	c.mu.Lock()
	if r.session.endpoint != nil && !r.e.Modern {
		to = r.session.endpoint
	}
	c.mu.Unlock()
	for again := true; ; again = false {
		header := c.header(r.session, acceptBoth)
		if r.e.Modern {
			header.Del(sessionHeader)
			setModern(header, r.line, &r.e, c.mirrorsFor(r))
		}
		began := time.Now()
		resp, err := c.post(r.ctx, to, header, r.line, r.sent)
		if err != nil {
			return err
		}
		if begins {
			c.mu.Lock()
			r.session.took = time.Since(began)
			c.mu.Unlock()
		}
		if resp.StatusCode < 300 {
			return c.accepted(r, resp, to != c.address.URL)
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
		c.drain(resp)
		if err != nil {
			return c.failed(http.MethodPost, to, fmt.Errorf("%s: %w: %w", status(resp), errUnknownFate, err))
		}
		line, e := r.errorLine(body)
		switch {
		case resp.StatusCode == http.StatusNotFound && header.Get(sessionHeader) != "":
			c.renew(r.session) // which answers r
			return nil
		case line != nil && e.Code == codeHeaderMismatch && again && r.e.Modern && r.e.Method == "tools/call" && c.relist(r) == nil:
			continue
		case line != nil:
			return c.answer(r, line, e)
		case begins && isOld(resp.StatusCode) && to == c.address.URL && c.server.Transport != StreamableHTTP:
			if err := c.openOld(r.session); err != nil {
				return fmt.Errorf("%w, and %w", c.failed(http.MethodPost, to, statusError(resp)), err)
			}
			return c.tryOnce(r)
		}
		return c.failed(http.MethodPost, to, statusError(resp))
	}
}

// accepted handles a response that is no error. isOld says that the answer comes on the stream of the
// session.
func (c *Conn) accepted(r *request, resp *http.Response, isOld bool) error {
	id := resp.Header.Get(sessionHeader)
	if r.e.Method == "initialize" && id != "" && !isVisible(id, maxSessionBytes) {
		resp.Body.Close()
		return c.failed(http.MethodPost, c.address.URL, errors.New("the session id of the server is too long, or not visible ASCII"))
	}
	c.mu.Lock()
	if r.e.Method == "initialize" {
		r.session.id = id
	}
	r.prove()
	c.mu.Unlock()
	if isOld {
		c.drain(resp)
		return nil
	}
	if err := c.readAnswer(r, resp); err != nil {
		return c.failed(http.MethodPost, c.address.URL, fmt.Errorf("%w: %w", errUnknownFate, err))
	}
	return nil
}

// follow reads the stream that answers r. One that breaks is resumed if the server numbers its events,
// for as long as it makes progress.
func (c *Conn) follow(r *request, resp *http.Response) error {
	var t stream
	for failures := 0; ; failures++ {
		before := t.id
		c.begin(r.ctx, &t, resp)
		err := c.read(r.session, r, &t)
		switch {
		case !c.isOpen(r):
			c.drain(resp)
			return nil
		case isHostile(err):
			resp.Body.Close()
			return err
		case r.e.Modern || t.id == "":
			resp.Body.Close()
			return fmt.Errorf("%w: %w", errTorn, ownWords(err))
		}
		resp.Body.Close()
		c.mu.Lock()
		r.torn = true
		c.mu.Unlock()
		if t.n > 0 || t.id != before {
			failures = 0
		}
		if resp, err = c.resume(r, &t, &failures); err != nil {
			return err
		}
	}
}

// resume connects to the stream of r again, and counts failures.
func (c *Conn) resume(r *request, t *stream, failures *int) (*http.Response, error) {
	for ; *failures < maxResumes; *failures++ {
		if err := sleep(r.ctx, backoff(*failures, t.retry)); err != nil {
			return nil, err
		}
		resp, err := c.reopen(r.ctx, r.session, t)
		switch {
		case err != nil:
			c.log.Debug("resume a stream", "err", err)
		case isStream(resp):
			return resp, nil
		default:
			c.drain(resp)
			if isFinal(resp) {
				return nil, fmt.Errorf("%w, and the server does not resume it: %s", errTorn, status(resp))
			}
		}
	}
	return nil, fmt.Errorf("%w, and could not be resumed", errTorn)
}

// reopen requests a stream of session s from where t has ended.
func (c *Conn) reopen(ctx context.Context, s *session, t *stream) (*http.Response, error) {
	header := c.header(s, acceptStream)
	if t.id != "" {
		header.Set(eventHeader, t.id)
	}
	return c.do(ctx, http.MethodGet, c.address.URL, header, nil, nil)
}

// isFinal reports whether a server that answers a GET like this will not offer a stream later.
func isFinal(resp *http.Response) bool {
	return resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests
}

func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && kind == "text/event-stream"
}

// listen opens the stream for what the server says by itself, if it offers one. It ends with the
// session. listen returns when the server has answered, or has had time for that: some servers say that
// there is a stream only with its first event, and what others say before it is open is lost: a server
// on a busy machine gets longer.
func (c *Conn) listen(s *session) {
	if c.hasOneStream(s) {
		return
	}
	answered := make(chan struct{})
	note := sync.OnceFunc(func() { close(answered) })
	if c.start(func() {
		defer note()
		var t stream
		for failures := 0; s.ctx.Err() == nil; failures++ {
			resp, err := c.reopen(s.ctx, s, &t)
			note()
			switch {
			case err != nil:
			case isStream(resp):
				c.begin(s.ctx, &t, resp)
				err = c.read(s, nil, &t)
				resp.Body.Close()
				if t.n > 0 {
					failures = 0
				}
			default:
				c.drain(resp)
				if isFinal(resp) {
					return // it offers none; if it has forgotten the session, the next message shows that
				}
			}
			c.log.Debug("the stream of a server ended", "err", err)
			if sleep(s.ctx, backoff(failures, t.retry)) != nil {
				return
			}
		}
	}) {
		c.mu.Lock()
		limit := min(max(listenTimeout, listenSlower*s.took), listenMost)
		c.mu.Unlock()
		select {
		case <-answered:
		case <-time.After(limit):
		}
	}
}

// isOld reports whether a server of 2024-11-05 may answer a POST with status.
func isOld(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// openOld opens the stream of a server of 2024-11-05, and waits for the endpoint.
func (c *Conn) openOld(s *session) error {
	ctx, cancel := context.WithCancel(s.ctx)
	timer := time.AfterFunc(endpointTimeout, cancel)
	resp, err := c.do(ctx, http.MethodGet, c.address.URL, c.header(s, acceptStream), nil, nil)
	if err != nil {
		cancel()
		return err
	}
	end := func() {
		cancel()
		resp.Body.Close()
	}
	var t stream
	var first sse.Event
	c.begin(ctx, &t, resp)
	if !isStream(resp) || t.events.Next(&first) != nil || first.Name != "endpoint" || !timer.Stop() {
		end()
		return c.failed(http.MethodGet, c.address.URL, errors.New("there is no stream that begins with an endpoint"))
	}
	endpoint, err := c.address.resolve(c.address.URL, string(first.Data))
	if err != nil {
		end()
		return c.failed(http.MethodGet, c.address.URL, err)
	}
	c.mu.Lock()
	s.endpoint = endpoint
	c.mu.Unlock()
	if !c.start(func() {
		defer end()
		if err := c.read(s, nil, &t); s.ctx.Err() == nil {
			c.log.Debug("the stream of a server ended", "err", err)
			c.renew(s)
		}
	}) {
		end()
	}
	return nil
}

// mirrorsFor returns the parameters that are repeated in the headers of r.
func (c *Conn) mirrorsFor(r *request) []mirror {
	if r.e.Method != "tools/call" {
		return nil
	}
	name, _ := wire.Unquote(r.e.Name, r.line)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mirrors[name]
}

// relist lists the server's tools, since it refuses the headers of r: a definition may have changed.
func (c *Conn) relist(r *request) error {
	all := rawjson.Read(r.e.Meta.Of(r.line))
	meta, cursor := all.Without("progressToken"), ""
	if err := all.Err(); err != nil {
		return err
	}
	for range maxPages {
		c.mu.Lock()
		c.asked++
		id := fmt.Sprintf(`"thoughtgate/headers/%d"`, c.asked)
		c.mu.Unlock()
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/list","params":{%s"_meta":%s}}`, id, cursor, meta)
		var e wire.Envelope
		if err := wire.Read(line, wire.FromAgent, &e); err != nil {
			return err
		}
		answer, err := c.call(r.ctx, r.session, line, &e)
		if err != nil {
			return err
		}
		if err := wire.Read(answer, wire.FromServer, &e); err != nil || e.Kind != wire.Result {
			return errors.New("the server does not list its tools")
		}
		c.learn(answer, &e)
		next, err := wire.Member(answer, e.Result, "nextCursor")
		if raw := next.Of(answer); err != nil || raw == nil || raw[0] != '"' {
			return nil
		}
		cursor = `"cursor":` + string(next.Of(answer)) + ","
	}
	return nil
}
