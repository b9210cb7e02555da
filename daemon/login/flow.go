package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
	"github.com/thoughtgate/thoughtgated/internal/browse"
)

const (
	loginTimeout = 10 * time.Minute
	fixedPath    = "http://127.0.0.1/callback" // of clients that issuers know in advance

	deviceGrant     = "urn:ietf:params:oauth:grant-type:device_code"
	pollInterval    = 5 * time.Second // and by how much it grows, as RFC 8628 has it
	maxPollInterval = time.Minute
	maxUserCode     = 40
)

// Client is a client that a person has registered with an issuer.
type Client struct {
	ID     string
	Secret vault.Secret // zero for a public client
	Issuer string       // for which it is; another issuer never gets it
	// Redirect is the redirect address that was registered, http://127.0.0.1/callback if empty.
	// Without a port, any is used.
	Redirect string
}

// Prompt is what a person has to open, and by which host: show that first.
type Prompt struct {
	Address string // checked by [browse.Check]; check it once more before it is opened
	Host    string
	Issuer  string
	Code    string // to be entered there; empty if the address is all
}

// How says how a person logs in.
type How struct {
	Client    *Client // nil if nobody has registered one
	By        By
	NoBrowser bool // the browser is not on this machine: a code to enter where the issuer has that
	// Show shows a prompt and returns. The login fails with its error.
	Show func(ctx context.Context, p Prompt) error
}

// login takes a person through the flow.
func (s *Source) login(ctx context.Context, document string, how How) (*vault.Login, error) {
	var wanted string
	if how.Client != nil {
		if wanted = how.Client.Issuer; wanted == "" || how.Client.ID == "" {
			return nil, errors.New("a client that was registered by hand needs its id and its issuer")
		}
	}
	granted, c, err := s.before(ctx)
	if err != nil {
		return nil, err
	}
	f, err := s.discover(ctx, c, wanted)
	if err != nil {
		return nil, err
	}
	m := &f.issuer
	l := &vault.Login{Resource: s.state.resource, Issuer: m.Issuer, Audience: f.audience, TokenURL: m.TokenEndpoint, RevokeURL: m.RevocationEndpoint}
	if l.Scopes = c.scopes; len(c.scopes) == 0 {
		l.Scopes = f.scopes
	}
	if slices.Contains(m.ScopesSupported, "offline_access") {
		l.Scopes = union(l.Scopes, []string{"offline_access"})
	}
	if granted != nil && granted.Issuer == m.Issuer {
		l.Scopes = union(granted.Scopes, l.Scopes)
	}
	if how.NoBrowser && m.DeviceEndpoint != "" {
		return l, s.device(ctx, f, l, document, how)
	}
	return l, s.authorize(ctx, f, l, document, how)
}

// before returns the login that there is, and what the server wants of the next one.
func (s *Source) before(ctx context.Context) (*vault.Login, challenge, error) {
	granted, err := s.logins.Store.Get(ctx, s.state.resource)
	if err != nil && !errors.Is(err, vault.ErrNotFound) && !errors.Is(err, vault.ErrKeyLost) {
		return nil, challenge{}, err
	}
	s.state.mu.Lock()
	c := s.state.challenge
	s.state.mu.Unlock()
	if c.metadata == "" && len(c.scopes) == 0 {
		if c, err = s.probe(ctx); err != nil {
			return nil, c, fmt.Errorf("ask the server for its issuer: %w", err)
		}
	}
	return granted, c, nil
}

// authorize has the person agree in a browser of this machine.
func (s *Source) authorize(ctx context.Context, f *found, l *vault.Login, document string, how How) error {
	m := &f.issuer
	redirect := fixedPath
	if how.Client != nil && how.Client.Redirect != "" {
		redirect = how.Client.Redirect
	} else if how.Client == nil && !usesDocument(m, document) {
		redirect = "http://127.0.0.1/" + rand.Text() // each login registers its own
	}
	state, verifier := rand.Text(), rand.Text()+rand.Text()
	back, err := listen(ctx, redirect, state)
	if err != nil {
		return err
	}
	defer back.close()
	if err := s.register(ctx, m, l, document, how.Client, back.address.String()); err != nil {
		return err
	}
	u, err := browse.Check(m.AuthorizationEndpoint, s.web.loopback)
	if err != nil {
		return fmt.Errorf("the issuer's authorization endpoint: %w", err)
	}
	challenge := sha256.Sum256([]byte(verifier))
	query := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": l.ClientID, "redirect_uri": back.address.String(), "state": state, "resource": l.Audience,
		"scope": strings.Join(l.Scopes, " "), "code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		if query.Has(name) {
			return errors.New("the issuer's authorization endpoint has parameters that are the client's")
		}
		if value != "" {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	if err := how.Show(ctx, Prompt{Address: u.String(), Host: u.Host, Issuer: m.Issuer}); err != nil {
		return err
	}
	code, err := back.code(ctx, m.Issuer, m.AuthorizationResponseIssParameterSupported)
	if err != nil {
		return err
	}
	err = s.web.tokens(ctx, l, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {back.address.String()}, "code_verifier": {verifier},
	})
	if err != nil {
		return fmt.Errorf("exchange the code for a token: %w", err)
	}
	return nil
}

func usesDocument(m *issuer, document string) bool {
	return document != "" && m.ClientIDMetadataDocumentSupported
}

// register has l name the client: that of the person, whose wish comes first, that of the metadata
// document, or one that is registered now.
func (s *Source) register(ctx context.Context, m *issuer, l *vault.Login, document string, own *Client, redirect string) error {
	switch {
	case own != nil:
		l.ClientID, l.ClientSecret, l.AuthMethod = own.ID, own.Secret, methodNone
		if own.Secret.IsZero() {
			return nil
		}
		switch methods := m.TokenEndpointAuthMethodsSupported; {
		case slices.Contains(methods, methodPost):
			l.AuthMethod = methodPost
		case len(methods) == 0 || slices.Contains(methods, methodBasic):
			l.AuthMethod = methodBasic
		default:
			return errors.New("the issuer takes no client secret in a way that is supported")
		}
		return nil
	case usesDocument(m, document):
		l.ClientID, l.AuthMethod = document, methodNone
		return nil
	case m.RegistrationEndpoint == "":
		return errors.New("the issuer registers no clients by itself; register one there with the redirect address " + fixedPath +
			", and configure its id")
	}
	grants := []string{"authorization_code", "refresh_token"}
	if m.DeviceEndpoint != "" {
		grants = append(grants, deviceGrant)
	}
	got, err := oauthex.RegisterClient(ctx, m.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: methodNone, GrantTypes: grants, ResponseTypes: []string{"code"},
		ClientName: "ThoughtGate", ApplicationType: "native", Scope: strings.Join(l.Scopes, " "),
	}, s.web.client)
	var failed *oauthex.ClientRegistrationError
	var lost *url.Error
	switch {
	case errors.As(err, &failed):
		err = issuerErrorOf(failed.ErrorCode)
	case errors.As(err, &lost):
		err = lost.Err
	case err != nil:
		err = errors.New("its answer is none of RFC 7591") // the error has the text, which may have a secret
	}
	if err != nil {
		return fmt.Errorf("register with the issuer: %w", err)
	}
	l.ClientID, l.ClientSecret, l.AuthMethod = got.ClientID, vault.NewSecret(got.ClientSecret), got.TokenEndpointAuthMethod
	switch {
	case got.ClientSecret == "":
		l.AuthMethod = methodNone
	case l.AuthMethod == "":
		l.AuthMethod = methodBasic
	case l.AuthMethod != methodBasic && l.AuthMethod != methodPost:
		return errors.New("the issuer registers a client that has to authenticate in a way that is not supported")
	}
	return nil
}

// device has the person agree in a browser anywhere, by a code (RFC 8628).
func (s *Source) device(ctx context.Context, f *found, l *vault.Login, document string, how How) error {
	m := &f.issuer
	if err := s.register(ctx, m, l, document, how.Client, fixedPath); err != nil {
		return err
	}
	var got struct {
		Code     string  `json:"device_code"`
		User     string  `json:"user_code"`
		Address  string  `json:"verification_uri"`
		Life     float64 `json:"expires_in"`
		Interval float64 `json:"interval"`
	}
	form := url.Values{"resource": {l.Audience}}
	if len(l.Scopes) > 0 {
		form.Set("scope", strings.Join(l.Scopes, " "))
	}
	if err := s.web.post(ctx, m.DeviceEndpoint, credentials{l.ClientID, l.ClientSecret, l.AuthMethod}, form, &got); err != nil {
		return fmt.Errorf("ask the issuer for a code to enter: %w", err)
	}
	u, err := browse.Check(got.Address, s.web.loopback)
	if err != nil {
		return fmt.Errorf("the issuer's address for the code: %w", err)
	}
	if got.Code == "" || got.User == "" || len(got.User) > maxUserCode || !isToken(strings.ReplaceAll(got.User, " ", "")) || got.Life <= 0 {
		return errors.New("the issuer's answer has no code that a person can enter")
	}
	if err := how.Show(ctx, Prompt{u.String(), u.Host, m.Issuer, got.User}); err != nil {
		return err
	}
	life := time.Duration(min(got.Life, loginTimeout.Seconds()) * float64(time.Second))
	ctx, cancel := context.WithTimeoutCause(ctx, life, errors.New("the code has expired; log in again"))
	defer cancel()
	interval := max(pollInterval, time.Duration(min(got.Interval, maxPollInterval.Seconds())*float64(time.Second)))
	for {
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return fmt.Errorf("wait for the person to enter the code: %w", context.Cause(ctx))
		}
		err := s.web.tokens(ctx, l, url.Values{"grant_type": {deviceGrant}, "device_code": {got.Code}})
		var failed issuerError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &failed): // it may be reached the next time
			interval = min(2*interval, maxPollInterval)
		case failed == "slow_down":
			interval = min(interval+pollInterval, maxPollInterval)
		case failed != "authorization_pending":
			return failed
		}
	}
}
