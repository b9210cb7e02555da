package slack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
)

// apiVariable names another address of Slack's API, for a proxy that stands in its
// place and for tests.
const apiVariable = "THOUGHTGATE_SLACK_API"

const slackAPI = "https://slack.com/api/"

// address is where Slack's API is reached.
func address(getenv func(string) string) (string, error) {
	given := getenv(apiVariable)
	if given == "" {
		return slackAPI, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s is not the address of an API, as %s", apiVariable, slackAPI)
	}
	if err := guarded(u); err != nil {
		return "", fmt.Errorf("%s: %w", apiVariable, err)
	}
	return strings.TrimSuffix(u.String(), "/") + "/", nil
}

// guarded refuses an address to which a token would travel in the clear, unless it
// stays on this machine.
func guarded(u *url.URL) error {
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s://%s is not reached over TLS; plain http is only for this machine", u.Scheme, u.Host)
}

// through says by which proxy a request goes. It is asked for each one, also for
// the connection whose address Slack has given, so this is where all are guarded.
func through(req *http.Request) (*url.URL, error) {
	if err := guarded(req.URL); err != nil {
		return nil, err
	}
	return http.ProxyFromEnvironment(req)
}

// requestMost is how long a request to Slack may take.
const requestMost = 30 * time.Second

// newHTTP makes the client for Slack's API. A redirection is not followed: the
// token would go along.
func newHTTP() *http.Client {
	return &http.Client{
		Timeout: requestMost,
		Transport: &pacer{base: &http.Transport{
			Proxy: through, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pacer keeps a connection that Slack ends again and again from being opened as
// often: each that lasted less than steady makes the next wait longer.
type pacer struct {
	base *http.Transport

	mu    sync.Mutex // guards what follows
	last  time.Time  // when a connection was asked for
	pause time.Duration
}

const (
	steady      = time.Minute
	pauseFirst  = 200 * time.Millisecond
	pauseLonger = 10 * time.Second
)

func (p *pacer) RoundTrip(req *http.Request) (*http.Response, error) {
	if path.Base(req.URL.Path) == "apps.connections.open" {
		if err := sleep(req.Context(), p.wait(time.Now())); err != nil {
			return nil, err
		}
	}
	return p.base.RoundTrip(req)
}

// CloseIdleConnections is for http.Client.
func (p *pacer) CloseIdleConnections() { p.base.CloseIdleConnections() }

// wait is how long to wait before a connection is asked for.
func (p *pacer) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.last.IsZero(), now.Sub(p.last) > steady:
		p.pause = 0
	default:
		p.pause = min(max(2*p.pause, pauseFirst), pauseLonger)
	}
	p.last = now.Add(p.pause)
	return p.pause
}

// sleep waits for d, or until ctx ends, whose cause it returns then.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
