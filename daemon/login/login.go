// Package login logs a person in to servers behind an address, and has their tokens ready.
//
// The flow is OAuth 2.1 as the specification of MCP profiles it. Of the Go SDK it takes the parser of
// challenges, the metadata's types and dynamic registration. The SDK's own flow is not used: it
// guesses endpoints where metadata are missing, takes PKCE without S256, has no device flow, and
// names the issuer of a token to nobody, so that a token could not be bound to it.
package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
	"github.com/thoughtgate/thoughtgated/internal/browse"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// ErrLoginNeeded is in the chain of each [NeededError].
var ErrLoginNeeded = errors.New("a login is needed")

// ErrNotRevoked reports that a login was removed, and its issuer still holds it for valid.
var ErrNotRevoked = errors.New("its issuer was not told, so revoke it there")

// NeededError reports that a server wants a person to log in.
type NeededError struct {
	Server, Reason string
	Never          bool // nobody has logged in yet; the server may want no login at all
}

func (e *NeededError) Error() string {
	return fmt.Sprintf("server %s needs a login: %s; log in with: tgctl login %s", display.Name(e.Server), e.Reason, gate.ShellWord(e.Server))
}

func (e *NeededError) Unwrap() error { return ErrLoginNeeded }

// Server is a server behind an address.
type Server struct {
	ID      string // as a person names it
	Address string
	// HTTP reaches what a person allows for this server. Every request of its login goes through it, also
	// to addresses that metadata name.
	HTTP *http.Client
}

// Store keeps logins, as [vault.Vault] does. Get returns [vault.ErrNotFound] if there is none.
type Store interface {
	Get(ctx context.Context, resource string) (*vault.Login, error)
	Put(ctx context.Context, l *vault.Login) error
	Delete(ctx context.Context, resource string) error
}

// Options configure [Logins].
type Options struct {
	Store Store
	Log   *slog.Logger
	// Ask asks a person to log in. If it is nil, requests without a login fail at once.
	Ask func(ctx context.Context, a Asking) (Question, error)
	// Ended is told, if it is not nil, that an issuer has ended the login to a server, before anybody is asked to
	// log in again.
	Ended func(ctx context.Context, s Server, issuer string)
	// Document is the address of this client's metadata document, whose redirect address is
	// http://127.0.0.1/callback. Without it clients are registered dynamically.
	Document string
}

// Logins has the logins to all servers.
type Logins struct {
	Options

	runs   sync.WaitGroup
	closed chan struct{}

	mu     sync.Mutex
	states map[string]*state // by resource
}

// New returns Logins, which starts nothing before it is asked.
func New(o Options) *Logins {
	return &Logins{Options: o, closed: make(chan struct{}), states: map[string]*state{}}
}

// Close waits for renewals under way: a renewed token that is not stored may be lost.
func (l *Logins) Close() {
	l.mu.Lock()
	close(l.closed)
	l.mu.Unlock()
	l.runs.Wait()
}

// resourceOf returns by which origin and path a server is known, and whether it is on this machine, where http is allowed.
func resourceOf(address string) (resource string, loopback bool, err error) {
	u, err := browse.Check(address, true)
	if err != nil {
		return "", false, err
	}
	u.RawQuery = ""
	return strings.TrimSuffix(u.String(), "/"), browse.IsLoopback(u.Hostname()), nil
}

// connect returns what is known of a server, and how to reach it and its issuer.
func (l *Logins) connect(s Server) (*Source, error) {
	resource, loopback, err := resourceOf(s.Address)
	if err == nil && s.HTTP == nil {
		err = errors.New("there is no client for it")
	}
	if err != nil {
		return nil, fmt.Errorf("reach server %s: %w", display.Name(s.ID), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.states[resource]
	if st == nil {
		st = &state{resource: resource}
		l.states[resource] = st
	}
	return &Source{l, s, st, newWeb(s.HTTP, loopback)}, nil
}

// Result is what a login has brought, for a person to see.
type Result struct {
	Issuer string
	Scopes []string
	Expiry time.Time // zero if the token has none
	Renews bool      // the issuer renews it without the person
}

// Login has a person log in to a server, with the scopes that it has wanted since the last login and
// those that were granted before.
func (l *Logins) Login(ctx context.Context, s Server, how How) (*Result, error) {
	src, err := l.connect(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginTimeout, errors.New("the time for it is over; log in again"))
	defer cancel()
	fresh, err := src.login(ctx, l.Document, how)
	if err != nil {
		return nil, fmt.Errorf("log in to server %s: %w", display.Name(s.ID), err)
	}
	st := src.state
	st.op.Lock()
	defer st.op.Unlock()
	if err := l.Store.Put(ctx, fresh); err != nil {
		return nil, err
	}
	st.set(fresh, true)
	st.mu.Lock()
	st.challenge = challenge{}
	st.mu.Unlock()
	st.answered(how.By)
	l.Log.Info("logged in", "server", st.resource, "issuer", fresh.Issuer)
	return &Result{fresh.Issuer, slices.Clone(fresh.Scopes), fresh.Expiry, !fresh.Refresh.IsZero()}, nil
}

// Logout removes the login to a server and has its issuer revoke it. If the issuer can't be reached,
// the error says so, and the login is removed all the same.
func (l *Logins) Logout(ctx context.Context, s Server) error {
	src, err := l.connect(s)
	if err != nil {
		return err
	}
	st := src.state
	st.op.Lock()
	defer st.op.Unlock()
	old, err := l.Store.Get(ctx, st.resource)
	if errors.Is(err, vault.ErrNotFound) {
		st.set(nil, true)
		return fmt.Errorf("log out of server %s: %w", display.Name(s.ID), vault.ErrNotFound)
	}
	unread := err // an unreadable login is removed, too
	if err := l.Store.Delete(ctx, st.resource); err != nil {
		return err
	}
	st.set(nil, true)
	l.Log.Info("logged out", "server", st.resource)
	if unread == nil && old.RevokeURL == "" {
		return nil
	}
	if err = unread; err == nil {
		err = src.revoke(ctx, old)
	}
	if err != nil {
		return fmt.Errorf("the login to server %s is removed here, but %w: %w", display.Name(s.ID), ErrNotRevoked, err)
	}
	return nil
}
