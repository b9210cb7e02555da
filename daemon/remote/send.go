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
	"strconv"
	"sync/atomic"
	"time"
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
// that becomes a GET is lost.
func (c *Conn) do(ctx context.Context, method string, to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	for range maxRedirects + 1 {
		resp, err := c.roundTrip(ctx, method, to, header, body)
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

func (c *Conn) roundTrip(ctx context.Context, method string, to *url.URL, header http.Header, body []byte) (*http.Response, error) {
	var isSent atomic.Bool // some of it
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { isSent.Store(true) }})
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body) // so that what was certainly not sent can be sent on another connection
	}
	req, err := http.NewRequestWithContext(ctx, method, to.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header = header
	// Not http.Client: it follows redirects to other origins, and its errors repeat the query.
	resp, err := c.http.RoundTrip(req)
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
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent() }})
	for pauses := 0; ; pauses++ {
		resp, err := c.do(ctx, http.MethodPost, to, header, line)
		if err != nil {
			return nil, err
		}
		pause, ok := retryAfter(resp)
		if !ok || pauses == maxPauses {
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

// retryAfter returns how long a server that has not executed a request wants to be left alone.
func retryAfter(resp *http.Response) (time.Duration, bool) {
	value := resp.Header.Get("Retry-After")
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable || value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	return max(time.Until(at), 0), err == nil
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
