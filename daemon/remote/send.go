package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/retryafter"
)

const (
	acceptBoth   = "application/json, text/event-stream"
	acceptStream = "text/event-stream"

	maxSessionBytes = 8 << 10 // of a session id
	maxVersionBytes = 64      // of a protocol version
	maxRedirects    = 10
	maxRepeats      = 2               // of an idempotent request
	maxPauses       = 5               // that a server asks for before it accepts a request
	maxPause        = 2 * time.Minute // likewise
	drainTimeout    = time.Second
	maxDrainBytes   = 64 << 10
)

// header returns the headers for a request of session s.
func (c *Conn) header(s *session, accept string) http.Header {
	h := c.server.Headers.Clone()
	if accept != "" {
		h.Set("Accept", accept)
	}
	if accept == acceptBoth {
		h.Set("Content-Type", "application/json")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.id != "" {
		h.Set(sessionHeader, s.id)
	}
	if s.version != "" {
		h.Set(versionHeader, s.version)
	}
	return h
}

// failed adds to err what was being done.
func (c *Conn) failed(method string, to *url.URL, err error) error {
	return fmt.Errorf("remote server %s: %s %s: %w", c.server.ID, method, c.address.shown(to), err)
}

var (
	errNotExecuted = errors.New("the request was not executed")
	errUnknownFate = errors.New("the request may have been executed")
)

// do sends an HTTP request and follows redirects within the origin. They keep the method: a message
// that becomes a GET is lost. sent is called when a request has been written; it may be nil.
func (c *Conn) do(ctx context.Context, method string, to *url.URL, header http.Header, body []byte, sent func()) (*http.Response, error) {
	for range maxRedirects + 1 {
		resp, err := c.roundTrip(ctx, method, to, header, body, sent)
		if err != nil {
			return nil, c.failed(method, to, err)
		}
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		case http.StatusSeeOther: // what was posted has been accepted, and the answer is elsewhere
			if method == http.MethodPost {
				resp.Body.Close()
				return nil, c.failed(method, to, fmt.Errorf("%w: the server redirects to an answer", errUnknownFate))
			}
		default:
			return resp, nil
		}
		c.drain(resp)
		next, err := c.address.resolve(to, resp.Header.Get("Location"))
		if err != nil {
			return nil, c.failed(method, to, fmt.Errorf("%w: %s: %w", errNotExecuted, status(resp), err))
		}
		to = next
	}
	return nil, c.failed(method, to, fmt.Errorf("%w: more than %d redirects in a row", errNotExecuted, maxRedirects))
}

// maxClosed is how often a request is sent again since the server had closed the connection.
const maxClosed = 3

func (c *Conn) roundTrip(ctx context.Context, method string, to *url.URL, header http.Header, body []byte, sent func()) (*http.Response, error) {
	var isSent, isReused atomic.Bool // some of the request; the connection
	trace := &httptrace.ClientTrace{
		GotConn:          func(got httptrace.GotConnInfo) { isReused.Store(got.Reused) },
		WroteHeaderField: func(string, []string) { isSent.Store(true) },
	}
	if sent != nil {
		trace.WroteRequest = func(httptrace.WroteRequestInfo) { sent() }
	}
	ctx = httptrace.WithClientTrace(ctx, trace)
	resp, err := c.authorized(ctx, method, to, header, body)
	// A server may close a connection while the next request takes it. Nothing of the request was written then.
	for tries := 0; err != nil && isReused.Load() && !isSent.Load() && ctx.Err() == nil && !errors.Is(err, errUnauthorized) && tries < maxClosed; tries++ {
		resp, err = c.authorized(ctx, method, to, header, body)
	}
	if errors.Is(err, errUnauthorized) {
		return nil, fmt.Errorf("%w: %w", errNotExecuted, err)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if !isSent.Load() {
			return nil, fmt.Errorf("%w: %w", errNotExecuted, err)
		}
		return nil, fmt.Errorf("%w: %w", errUnknownFate, err)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		resp.Body.Close()
		return nil, fmt.Errorf("%w: the server compresses with %.32q, which was not asked for", errUnknownFate, encoding)
	}
	return resp, nil
}

var errUnauthorized = errors.New("it could not be authorized")

// maxAuthorizations is how often a request is sent until what authorizes it is enough: with a token, with a
// renewed one, with that of a login, and with that of a login for more scopes.
const maxAuthorizations = 4

// authorized sends a request with what authorizes it, and again if the server wants something else.
func (c *Conn) authorized(ctx context.Context, method string, to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	for tries := 1; ; tries++ {
		// Not http.Client: it follows redirects to other origins, and its errors repeat the query.
		req := newHTTP(ctx, method, to, header, body)
		if c.server.Authorizer == nil {
			return c.http.RoundTrip(req)
		}
		challenged, err := c.server.Authorizer.Authorize(req)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnauthorized, err)
		}
		resp, err := c.http.RoundTrip(req)
		if err != nil || tries == maxAuthorizations || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		again, err := challenged(resp.StatusCode, resp.Header)
		if err == nil && !again {
			return resp, nil
		}
		c.drain(resp)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnauthorized, err)
		}
	}
}

// newHTTP returns an HTTP request for one attempt: what authorizes it is added to its headers, and its body is
// read.
func newHTTP(ctx context.Context, method string, to *url.URL, header http.Header, body []byte) *http.Request {
	req := &http.Request{Method: method, URL: to, Header: header.Clone()}
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		// The HTTP client itself may send it on another connection if nothing was written.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody() // which does not fail
	}
	return req.WithContext(ctx)
}

// drain reads the rest of a response, if that is short and comes soon, so that the connection can be
// used again, and closes it.
func (c *Conn) drain(resp *http.Response) {
	timer := time.AfterFunc(drainTimeout, func() { resp.Body.Close() })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrainBytes)
	resp.Body.Close()
}

// post sends a message, and sends it again if the server refuses to execute it for now and says when to
// come back. sent is called when the message has been written for the first time.
func (c *Conn) post(ctx context.Context, to *url.URL, header http.Header, line []byte, sent func()) (*http.Response, error) {
	for pauses := 0; ; pauses++ {
		resp, err := c.do(ctx, http.MethodPost, to, header, line, sent)
		if err != nil {
			return nil, err
		}
		pause, ok := retryafter.Parse(resp.Header.Get("Retry-After"), time.Now())
		if !ok || pauses == maxPauses || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
			return resp, nil
		}
		c.drain(resp)
		if pause > maxPause {
			return nil, c.failed(http.MethodPost, to, fmt.Errorf("%w: %s: the server wants to be asked again in %s", errNotExecuted, status(resp), pause))
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, c.failed(http.MethodPost, to, err)
		}
	}
}

const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
	maxRetry     = 15 * time.Minute // that a server may ask for
)

// backoff returns the delay before a stream is connected to again, after so many failures in a row. The
// server may ask for a longer one. Delays vary, so that clients do not come back all at once.
func backoff(failures int, asked time.Duration) time.Duration {
	delay := min(firstBackoff<<min(failures, 10), maxBackoff)
	delay = delay/2 + rand.N(delay/2)
	return max(delay, min(asked, maxRetry))
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
