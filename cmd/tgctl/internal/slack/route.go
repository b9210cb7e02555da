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

// apiVariable names an environment variable with another address of Slack's API, for a proxy or
// for tests.
const apiVariable = "THOUGHTGATE_SLACK_API"

const slackAPI = "https://slack.com/api/"

// address returns the base address of Slack's API.
func address(getenv func(string) string) (string, error) {
	given := getenv(apiVariable)
	if given == "" {
		return slackAPI, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s is not the address of an API such as %s", apiVariable, slackAPI)
	}
	if err := checkEncrypted(u); err != nil {
		return "", fmt.Errorf("%s: %w", apiVariable, err)
	}
	return strings.TrimSuffix(u.String(), "/") + "/", nil
}

// checkEncrypted returns an error if a token sent to u would travel unencrypted to another machine.
func checkEncrypted(u *url.URL) error {
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s://%s does not use TLS; plain http is allowed only on this machine", u.Scheme, u.Host)
}

// proxyFor returns the proxy for a request. It is called for every request and also for the
// WebSocket, whose address Slack chose, so it guards all connections.
func proxyFor(req *http.Request) (*url.URL, error) {
	if err := checkEncrypted(req.URL); err != nil {
		return nil, err
	}
	return http.ProxyFromEnvironment(req)
}

// requestTimeout is the timeout of a request to Slack.
const requestTimeout = 30 * time.Second

// newHTTP returns the HTTP client for Slack's API. It does not follow redirects, which would
// receive the token.
func newHTTP() *http.Client {
	return &http.Client{
		Timeout: requestTimeout,
		Transport: &pacer{base: &http.Transport{
			Proxy: proxyFor, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pacer delays requests for a Socket Mode connection. Each connection that was requested less
// than steady after the previous one increases the delay.
type pacer struct {
	base *http.Transport

	mu    sync.Mutex // guards the fields below
	last  time.Time  // when a connection was last requested
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

// CloseIdleConnections implements the interface that http.Client looks for.
func (p *pacer) CloseIdleConnections() { p.base.CloseIdleConnections() }

// wait returns how long to wait before the next connection is requested.
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

// sleep waits for d. If ctx ends before, it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
