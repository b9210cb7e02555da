package login

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
	"github.com/thoughtgate/thoughtgated/internal/browse"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	maxLead      = 5 * time.Minute  // how long before its end a token is renewed at the latest
	leadPart     = 5                // of its life, if that is less
	clockSkew    = 10 * time.Second // a token that ends within it, or that part of its life, is not sent
	retryDelay   = 15 * time.Second // after a renewal that failed
	freshTime    = 30 * time.Second // a token that is rejected within it is not renewed
	runTimeout   = 90 * time.Second // of reading, renewing and storing a login
	closeTimeout = 5 * time.Second
)

// Token is a token for one server. Nothing prints it.
type Token struct {
	access vault.Secret
	origin string
}

// Authorize adds the token to a request. A request to another origin than that of the server is
// refused. The path may be another one, since servers of before 2025 name a second one themselves.
func (t Token) Authorize(r *http.Request) error {
	u, err := browse.Check(r.URL.String(), true)
	if err != nil || t.access.IsZero() || originOf(u) != t.origin {
		return errors.New("the request does not go to the server that the token is for, so it was not sent")
	}
	r.Header.Set("Authorization", "Bearer "+t.access.Reveal())
	return nil
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// state is what all sessions share of one server.
type state struct {
	resource string

	op     sync.Mutex // held while the login is read, renewed, replaced or removed; taken before mu
	asking sync.Mutex // held while a question is asked; taken before mu

	mu        sync.Mutex
	loaded    bool
	login     *vault.Login // nil if there is none; never altered
	unsaved   bool         // it is not stored
	renewAt   time.Time    // zero: it can't be renewed, or need not
	rejected  bool         // the server rejected it
	retryAt   time.Time
	failure   error // of the last renewal, until retryAt
	challenge challenge
	run       *run
	sessions  int      // that are open
	pending   *pending // the question that waits for a person; nil for none
	wanted    string   // why a person has to log in, as far as a session has found that; empty after a login
}

// run is a renewal under way, which all wait for.
type run struct {
	done chan struct{}
	err  error
}

// set replaces the login. The caller holds op, and stores l if it is not stored.
func (st *state) set(l *vault.Login, isStored bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.loaded, st.login, st.unsaved, st.rejected, st.renewAt, st.retryAt, st.failure = true, l, !isStored, false, time.Time{}, time.Time{}, nil
	if l != nil && !l.Refresh.IsZero() && !l.Expiry.IsZero() {
		lead := ahead(l, maxLead)
		st.renewAt = l.Expiry.Add(-lead - rand.N(lead/2+1)) // not everything at the same moment
	}
}

// valid reports whether the token can be sent.
func (st *state) valid(now time.Time) bool {
	return st.login != nil && !st.rejected && !st.unsaved &&
		(st.login.Expiry.IsZero() || now.Add(ahead(st.login, clockSkew)).Before(st.login.Expiry))
}

// ahead returns a time before the end of a token: limit, or less if it lives shortly.
func ahead(l *vault.Login, limit time.Duration) time.Duration {
	return min(limit, max(l.Expiry.Sub(l.Issued), 0)/leadPart)
}

// due reports whether the token should be renewed.
func (st *state) due(now time.Time) bool {
	return st.rejected || !st.renewAt.IsZero() && !now.Before(st.renewAt)
}

// Source has the tokens for one server.
type Source struct {
	logins *Logins
	server Server
	state  *state
	web    *web
}

// Source returns the tokens for a server. All sources of one server share its login.
func (l *Logins) Source(s Server) (*Source, error) { return l.connect(s) }

func (s *Source) needed(format string, args ...any) *NeededError {
	return &NeededError{Server: s.server.ID, Reason: fmt.Sprintf(format, args...)}
}

// Token returns a valid token. It has one renewed ahead of time, once for all callers, and they wait for it. It is
// a [NeededError] if a person has to log in; if that says Never, the server may also be asked without a token.
func (s *Source) Token(ctx context.Context) (Token, error) {
	st := s.state
	st.mu.Lock()
	now := time.Now()
	early := now.Before(st.retryAt)
	switch {
	case st.valid(now) && (early || !st.due(now)):
		defer st.mu.Unlock()
		return s.token(), nil
	case st.loaded && st.login == nil:
		defer st.mu.Unlock()
		return Token{}, s.never()
	case early:
		defer st.mu.Unlock()
		return Token{}, st.failure
	}
	r, err := s.start(ctx)
	st.mu.Unlock()
	if err != nil {
		return Token{}, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return Token{}, fmt.Errorf("wait for a token for server %s: %w", display.Name(s.server.ID), ctx.Err())
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.err == nil && !st.valid(time.Now()) {
		r.err = s.needed("its token has expired, and can't be renewed")
	}
	if r.err != nil {
		return Token{}, r.err
	}
	return s.token(), nil
}

// token returns the token that there is. The caller holds mu.
func (s *Source) token() Token {
	u, err := url.Parse(s.state.resource)
	if err != nil {
		return Token{}
	}
	return Token{s.state.login.Access, originOf(u)}
}

func (s *Source) never() error {
	e := s.needed("nobody has logged in")
	e.Never = true
	return e
}

// start starts a run, or joins the one under way. It outlives its caller: an issuer may have replaced
// the refresh token already. The caller holds mu.
func (s *Source) start(ctx context.Context) (*run, error) {
	l, st := s.logins, s.state
	if st.run != nil {
		return st.run, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil, errors.New("renew a token: the daemon ends")
	default:
	}
	r := &run{done: make(chan struct{})}
	st.run = r
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runTimeout)
	l.runs.Go(func() {
		defer cancel()
		err := s.renew(ctx)
		st.mu.Lock()
		r.err, st.run = err, nil
		st.mu.Unlock()
		close(r.done)
	})
	l.runs.Go(func() {
		select {
		case <-l.closed:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(closeTimeout):
			cancel()
		case <-ctx.Done():
		}
	})
	return r, nil
}

// renew has the state hold a token that is valid, if it can.
func (s *Source) renew(ctx context.Context) error {
	l, st := s.logins, s.state
	st.op.Lock()
	defer st.op.Unlock()
	st.mu.Lock()
	loaded, old, unsaved := st.loaded, st.login, st.unsaved
	st.mu.Unlock()
	if !loaded {
		var err error
		if old, err = l.Store.Get(ctx, st.resource); errors.Is(err, vault.ErrNotFound) {
			old = nil
		} else if errors.Is(err, vault.ErrKeyLost) {
			return s.needed("%v", err)
		} else if err != nil {
			return err
		}
		st.set(old, true)
	}
	if old == nil {
		return s.never()
	}
	if unsaved {
		return s.save(ctx, old)
	}
	st.mu.Lock()
	now := time.Now()
	due, valid, rejected := st.due(now), st.valid(now), st.rejected
	st.mu.Unlock()
	switch {
	case !due:
		return nil
	case old.Refresh.IsZero() && rejected:
		return s.needed("it rejects the token, which can't be renewed")
	}
	fresh := *old
	err := s.web.tokens(ctx, &fresh, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh.Reveal()}})
	if err == nil {
		l.Log.Debug("renewed a token", "server", st.resource, "issuer", fresh.Issuer)
		return s.save(ctx, &fresh)
	}
	return s.failed(ctx, old.Issuer, err, valid)
}

// save stores a login before anybody uses it. Until that succeeds the next caller tries again.
func (s *Source) save(ctx context.Context, l *vault.Login) error {
	st := s.state
	st.set(l, false)
	if err := s.logins.Store.Put(ctx, l); err != nil {
		return fmt.Errorf("store the renewed token of server %s, before which it is not used: %w", display.Name(s.server.ID), err)
	}
	st.mu.Lock()
	st.unsaved = false
	st.mu.Unlock()
	return nil
}

// failed handles a renewal by issuer that failed. The login stays unless the issuer has ended it, and the token
// while it is valid.
func (s *Source) failed(ctx context.Context, issuer string, err error, valid bool) error {
	st := s.state
	var refused issuerError
	isRefused := errors.As(err, &refused)
	if isRefused && refused == "invalid_grant" {
		s.logins.Log.Warn("a login has ended: its issuer no longer renews it", "server", st.resource)
		st.set(nil, true)
		if err := s.logins.Store.Delete(ctx, st.resource); err != nil {
			s.logins.Log.Error("a login that has ended could not be removed", "server", st.resource, "error", err)
		}
		if s.logins.Ended != nil {
			s.logins.Ended(ctx, s.server, issuer)
		}
		return s.needed("its issuer has ended the login")
	}
	s.logins.Log.Warn("a token could not be renewed", "server", st.resource, "error", err)
	if isRefused && (refused == "invalid_client" || refused == "unauthorized_client") {
		err = s.needed("its issuer no longer knows this client")
	} else {
		err = fmt.Errorf("renew the token of server %s: %w; it is tried again", display.Name(s.server.ID), err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.retryAt, st.failure = time.Now().Add(retryDelay+rand.N(retryDelay)), err
	if valid {
		return nil
	}
	return err
}

// Challenge handles an answer with status 401 or 403 to a request that carried t, the zero Token if it carried
// none. again says that the request may be sent once more, with another token. A [NeededError] says that a
// person has to log in, where the next login asks for what the server wants. Neither means that the answer has
// nothing to do with the login.
func (s *Source) Challenge(t Token, status int, h http.Header) (again bool, err error) {
	st := s.state
	c := challengeOf(h)
	st.mu.Lock()
	defer st.mu.Unlock()
	more := status == http.StatusForbidden && c.insufficient
	if status != http.StatusUnauthorized && !more {
		return false, nil
	}
	st.challenge = challenge{metadata: c.metadata, scopes: union(st.challenge.scopes, c.scopes)}
	switch {
	case st.loaded && st.login == nil:
		return false, s.never()
	case st.login == nil || !st.login.Access.Equal(t.access):
		return true, nil // there is another token by now
	case more:
		return false, s.needed("it wants a login with more scopes: %s", display.Name(strings.Join(c.scopes, " ")))
	case st.login.Refresh.IsZero() || time.Since(st.login.Issued) < freshTime:
		return false, s.needed("it rejects the token")
	}
	st.rejected = true
	return true, nil
}
