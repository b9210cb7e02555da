package phone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/retryafter"
)

const (
	// requestTimeout is the timeout of a request, and of the beginning of a stream.
	requestTimeout = 20 * time.Second

	// maxLineBytes is the maximum length of a line of a stream. A message of ntfy has at most 4 KiB.
	maxLineBytes = 16 << 10

	// maxReplyBytes limits how much of a reply to a request is read.
	maxReplyBytes = 16 << 10

	// maxErrorText limits how much of what a server says of an error is shown, in columns.
	maxErrorText = 120

	// maxRetryAfter limits how long a server can have us wait.
	maxRetryAfter = time.Hour

	// defaultRetryAfter is how long to wait if a server limits the rate and does not say for how long.
	defaultRetryAfter = time.Minute
)

// server is an ntfy server. Every reply of it is untrusted.
type server struct {
	base, token string
	http        *http.Client
	idle        time.Duration // how long a stream may have no complete line
}

// newServer returns the server of s. Redirects are not followed: the place that they lead to would get the
// token, the questions and the codes.
func newServer(s *settings) *server {
	return &server{base: s.Server, token: s.Token, idle: usualPace.idle, http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
			TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxReplyBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// anonymous returns the server as a phone's buttons use it.
func (s *server) anonymous() *server {
	without := *s
	without.token = ""
	return &without
}

func (s *server) close() { s.http.CloseIdleConnections() }

// message is what is published.
type message struct {
	Topic    string   `json:"topic"`
	Sequence string   `json:"sequence_id,omitempty"` // replaces what is shown under the same one, since ntfy 2.16; ignored before
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message"`
	Priority int      `json:"priority,omitempty"`
	Actions  []action `json:"actions,omitempty"`
}

// action is a button. A phone sends its request when it is pressed.
type action struct {
	Action  string            `json:"action"`
	Label   string            `json:"label"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body"`
	Clear   bool              `json:"clear"` // the notification is removed once the request was accepted
}

// event is a line of a stream.
type event struct {
	ID      string `json:"id"`
	Event   string `json:"event"`
	Message string `json:"message"`
}

// publish publishes m and returns the id that the server gave it.
func (s *server) publish(ctx context.Context, m *message) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	resp, err := s.do(ctx, http.MethodPost, "/", body)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var e event
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes))
	if err == nil && (json.Unmarshal(text, &e) != nil || e.ID == "") {
		err = errors.New("its reply is not one of ntfy")
	}
	return e.ID, err
}

// stream calls each with the messages of a topic after the one with the id since, first those that the
// server has kept, until ctx ends, each returns an error, or the connection ends.
func (s *server) stream(ctx context.Context, topic, since string, each func(*event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(s.idle, func() { cancel(fmt.Errorf("it has sent no complete line for %s", display.Span(s.idle))) })
	defer idle.Stop()
	resp, err := s.do(ctx, http.MethodGet, "/"+topic+"/json?since="+url.QueryEscape(since), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, maxLineBytes)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("it has sent a line of more than %s", display.Size(maxLineBytes))
		case errors.Is(err, io.EOF):
			return errors.New("it has ended the connection")
		case err != nil:
			return withoutAddress(err)
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			return errors.New("it has sent what is not a message of ntfy")
		}
		idle.Reset(s.idle)
		if e.Event != "message" {
			continue
		}
		if err := each(&e); err != nil {
			return err
		}
	}
}

// healthy asks the server whether it works.
func (s *server) healthy(ctx context.Context) error {
	resp, err := s.do(ctx, http.MethodGet, "/v1/health", nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// do sends a request and returns the reply to it, whose body the caller must close. A reply that is not 200
// is an error.
func (s *server) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, withoutAddress(err)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.http.Do(req)
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, withoutAddress(err)
	case resp.StatusCode == http.StatusOK:
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusalOf(resp)
}

// withoutAddress removes the address from an error, since it has a topic.
func withoutAddress(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// refusal is a reply of the server that is not 200.
type refusal struct {
	status int
	said   display.Safe  // what the server says of it
	after  time.Duration // how long it wants no request; 0 if it does not say
}

func (r *refusal) Error() string {
	text := "it answers " + strconv.Itoa(r.status)
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text = "it does not allow that with the token, or without one (" + strconv.Itoa(r.status) + ")"
	case http.StatusRequestEntityTooLarge:
		text = "the message is too large for it (413)"
	case http.StatusTooManyRequests:
		text = "it limits the rate (429)"
	}
	if r.said != "" {
		text += ": " + string(r.said)
	}
	return text
}

// refusalOf reads a reply that is not 200.
func refusalOf(resp *http.Response) *refusal {
	r := &refusal{status: resp.StatusCode}
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		r.said = "it leads to " + display.Fit(display.Text(to.Scheme+"://"+to.Host), maxErrorText) + ", which is not followed"
		return r
	}
	var why struct {
		Error string `json:"error"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes))
	if err == nil && json.Unmarshal(text, &why) == nil {
		r.said = display.Fit(display.Text(why.Error), maxErrorText)
	}
	wait, _ := retryafter.Parse(resp.Header.Get("Retry-After"), time.Now())
	r.after = min(wait, maxRetryAfter)
	return r
}

// lasting reports whether err is about what the server allows, so that trying again does not help.
func lasting(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden)
}

// aboutContent reports whether err is about what a message contains, so that the same message would be
// refused again.
func aboutContent(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && (r.status == http.StatusBadRequest || r.status == http.StatusRequestEntityTooLarge)
}

// limited reports whether the server wants no request for some time, and for how long.
func limited(err error) (time.Duration, bool) {
	r, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
		return 0, false
	case r.after > 0:
		return r.after, true
	}
	return defaultRetryAfter, r.status == http.StatusTooManyRequests
}
