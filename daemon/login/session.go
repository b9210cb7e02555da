package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Question asks a person to log in to a server. It is asked once for all sessions.
type Question interface {
	// Wait returns nil once LoggedIn was called, otherwise why nobody will log in now. The question
	// stays open if ctx ends.
	Wait(ctx context.Context) error
	// LoggedIn answers the question.
	LoggedIn(by By)
	// Withdraw ends the question, since nobody waits for the answer.
	Withdraw()
}

// By is who has logged in or out, as the kernel showed it, and the surface that the caller names.
type By struct{ Who, Surface string }

// Asking is who wants a login, for the question.
type Asking struct {
	Server   Server
	Resource string
	Reason   string
	Session  string
	Agent    string
	Patience time.Duration // how long a request waits for a person
}

// Session authorizes the requests of one session with a server, and waits for a person where a login is
// needed. It must be closed. It is safe for concurrent use.
type Session struct {
	*Source
	asking Asking
}

// Session returns a session with a server. asking describes the session; its Server, Resource and Reason are set.
func (l *Logins) Session(s Server, asking Asking) (*Session, error) {
	src, err := l.connect(s)
	if err != nil {
		return nil, err
	}
	src.state.mu.Lock()
	src.state.sessions++
	src.state.mu.Unlock()
	asking.Server, asking.Resource = s, src.state.resource
	return &Session{src, asking}, nil
}

// Close ends the session. With the last one of a server its question is withdrawn.
func (s *Session) Close() {
	st := s.state
	st.mu.Lock()
	st.sessions--
	var p *pending
	if st.sessions == 0 {
		p, st.wanted = st.pending, ""
	}
	st.mu.Unlock()
	if p != nil {
		p.question.Withdraw()
	}
}

// pending is a question that waits for a person.
type pending struct {
	question Question
	done     chan struct{}
	err      error // nil after a login; valid once done is closed
}

// Authorize adds a token to r, if there is one. challenged handles an answer with status 401 or 403 to r.
//
// Where a person has to log in, a POST waits for that, since it is a message of the agent; other requests
// fail.
func (s *Session) Authorize(r *http.Request) (challenged func(status int, h http.Header) (again bool, err error), err error) {
	waits := r.Method == http.MethodPost
	for {
		token, err := s.Token(r.Context())
		var needed *NeededError
		switch errors.As(err, &needed); {
		case needed != nil && needed.Never: // it may want none
			return s.challenged(r, Token{}), nil
		case needed != nil && waits:
			if err := s.wait(r.Context(), needed, Token{}); err != nil {
				return nil, err
			}
			continue
		case err == nil:
			err = token.Authorize(r)
		}
		if err != nil {
			return nil, err
		}
		return s.challenged(r, token), nil
	}
}

func (s *Session) challenged(r *http.Request, token Token) func(int, http.Header) (bool, error) {
	return func(status int, h http.Header) (bool, error) {
		again, err := s.Challenge(token, status, h)
		var needed *NeededError
		if !errors.As(err, &needed) || r.Method != http.MethodPost {
			return again, err
		}
		return true, s.wait(r.Context(), needed, token)
	}
}

// wait returns nil when a person has logged in since refused was the token. It joins the question under way.
func (s *Session) wait(ctx context.Context, needed *NeededError, refused Token) error {
	p, err := s.ask(ctx, needed, refused)
	if p == nil && err == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; nobody could be asked: %w", needed, err)
	}
	patience := time.NewTimer(s.asking.Patience)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		return fmt.Errorf("%w, and repeat the call", needed)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", needed, context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("%w: %w", needed, p.err)
	}
	return nil
}

// ask returns the question under way, or asks it; nil if there is another token than the refused one.
func (s *Session) ask(ctx context.Context, needed *NeededError, refused Token) (*pending, error) {
	l, st := s.logins, s.state
	st.asking.Lock() // a question is stored on disk before it is asked
	defer st.asking.Unlock()
	st.mu.Lock()
	p := st.pending
	isNew := st.valid(time.Now()) && !st.login.Access.Equal(refused.access)
	st.mu.Unlock()
	if p != nil || isNew {
		return p, nil
	}
	if l.Ask == nil {
		return nil, errors.New("there is no approval queue")
	}
	asking := s.asking
	asking.Reason = needed.Reason
	question, err := l.Ask(ctx, asking)
	if err != nil {
		return nil, err
	}
	p = &pending{question: question, done: make(chan struct{})}
	st.mu.Lock()
	defer st.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil, errors.New("the daemon ends")
	default:
	}
	st.pending, st.wanted = p, needed.Reason
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // others wait for it, too
	l.runs.Go(func() {
		defer cancel()
		select {
		case <-l.closed:
		case <-p.done:
		}
	})
	l.runs.Go(func() {
		p.err = question.Wait(ctx)
		st.mu.Lock()
		st.pending = nil
		st.mu.Unlock()
		close(p.done)
	})
	return p, nil
}

// answered answers the question for a server to which a person has logged in, so that all sessions go on.
func (st *state) answered(by By) {
	st.asking.Lock() // who asks now has either seen the login, or is answered
	defer st.asking.Unlock()
	st.mu.Lock()
	p := st.pending
	st.wanted = ""
	st.mu.Unlock()
	if p != nil {
		p.question.LoggedIn(by)
	}
}

// Phase is how a login stands.
type Phase uint8

// Phases, the worst last.
const (
	NotUsed Phase = iota // nobody is logged in, and nobody had to be
	Stored               // a login is stored, and was not used by this daemon
	Ready                // there is a token
	Ending               // the token ends soon, and can't be renewed
	Failing              // the token could not be renewed, which is tried again
	Wanted               // a person has to log in
)

// Status is how a login to a server stands. It has no secrets.
type Status struct {
	Resource string
	Phase    Phase
	Reason   string // why it is failing or wanted
	Issuer   string
	Scopes   []string
	Expiry   time.Time // of the token; zero if it has none, or there is no token
	Renews   bool      // the issuer renews it without the person
}

// endsSoon is how long before the end of a login that can't be renewed its end is reported.
const endsSoon = 24 * time.Hour

// ResourceOf returns by which origin and path a server is known.
func ResourceOf(address string) (string, error) {
	resource, _, err := resourceOf(address)
	return resource, err
}

// Status returns how the login to a server stands. It reads nothing from the vault.
func (l *Logins) Status(address string) (Status, error) {
	resource, _, err := resourceOf(address)
	if err != nil {
		return Status{}, fmt.Errorf("the login to %s: %w", display.Text(address), err)
	}
	l.mu.Lock()
	st := l.states[resource]
	l.mu.Unlock()
	s := Status{Resource: resource}
	if st == nil {
		return s, nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	now := time.Now()
	if st.login != nil {
		s.Phase, s.Issuer, s.Scopes, s.Expiry, s.Renews = Ready, st.login.Issuer, st.login.Scopes, st.login.Expiry, !st.login.Refresh.IsZero()
		if !s.Renews && !s.Expiry.IsZero() && s.Expiry.Sub(now) < endsSoon {
			s.Phase, s.Reason = Ending, "its issuer does not renew it"
		}
	}
	if st.failure != nil {
		s.Phase, s.Reason = Failing, st.failure.Error()
	}
	if st.wanted != "" {
		s.Phase, s.Reason = Wanted, st.wanted
	}
	return s, nil
}
