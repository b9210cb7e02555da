package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/browse"
)

const (
	callbackTimeout = 5 * time.Second // of one request
	answeredPage    = "<!DOCTYPE html><meta charset=utf-8><title>ThoughtGate</title><p>ThoughtGate has the answer. You may close this window; the terminal says what came of it.\n"
	refusedPage     = "<!DOCTYPE html><meta charset=utf-8><title>ThoughtGate</title><p>This is not the answer to a login that is under way.\n"
)

// callback takes the one answer to a login, on a port of this machine that is open as long as the login.
type callback struct {
	address *url.URL // where the issuer sends the browser
	state   string
	server  *http.Server
	served  chan struct{}
	answers chan url.Values
}

// listen opens a callback. Its address is redirect, with a port if there is none.
func listen(ctx context.Context, redirect, state string) (*callback, error) {
	u, err := browse.Check(redirect, true)
	if err != nil || u.Scheme != "http" || u.RawQuery != "" || u.Hostname() == "localhost" {
		return nil, errors.New("the redirect address of a client must be http://127.0.0.1, with a path and without a query")
	}
	port := u.Port()
	if port == "" {
		port = "0"
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("listen for the browser's answer: %w", err)
	}
	u.Host = l.Addr().String()
	c := &callback{address: u, state: state, served: make(chan struct{}), answers: make(chan url.Values, 1)}
	c.server = &http.Server{
		Handler: c, ReadTimeout: callbackTimeout, WriteTimeout: callbackTimeout, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(c.served)
		_ = c.server.Serve(l) // it says that the server was closed
	}()
	return c, nil
}

// close gives a browser a moment to read the page.
func (c *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c.server.Shutdown(ctx) != nil {
		_ = c.server.Close()
	}
	<-c.served
}

// ServeHTTP takes an answer with the right state, once. Host is compared so that no page of another
// name that leads here can answer.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close")
	answer, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil && r.Method == http.MethodGet && r.Host == c.address.Host && r.URL.EscapedPath() == c.address.EscapedPath() &&
		len(answer["state"]) == 1 && subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(c.state)) == 1 {
		select {
		case c.answers <- answer:
			_, _ = io.WriteString(w, answeredPage)
			return
		default: // there was one
		}
	}
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, refusedPage)
}

// code waits for the answer and returns its authorization code. Whose answer it is comes first: of another issuer's
// not even the error is read (RFC 9207).
func (c *callback) code(ctx context.Context, issuer string, issRequired bool) (string, error) {
	var answer url.Values
	select {
	case answer = <-c.answers:
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the browser's answer: %w", context.Cause(ctx))
	}
	for _, name := range []string{"iss", "code", "error"} {
		if len(answer[name]) > 1 {
			return "", errors.New("the browser's answer has a parameter more than once")
		}
	}
	switch {
	case answer.Has("iss") && answer.Get("iss") != issuer:
		return "", errors.New("the browser's answer is that of another issuer, which may be an attack; its code was sent to nobody")
	case issRequired && !answer.Has("iss"):
		return "", errors.New("the browser's answer does not name its issuer, which this issuer always does; its code was sent to nobody")
	case answer.Get("error") != "":
		return "", issuerErrorOf(answer.Get("error"))
	case answer.Get("code") == "":
		return "", errors.New("the browser's answer has no code")
	}
	return answer.Get("code"), nil
}
