package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/thoughtgate/thoughtgated/internal/browse"
)

const (
	maxChallengeBytes = 8 << 10
	maxScopes         = 100
	maxScopeBytes     = 200
)

// challenge is what a server says of the login that it wants.
type challenge struct {
	metadata     string // address of its metadata
	scopes       []string
	insufficient bool // there is a token, and it has too few scopes
}

// challengeOf takes what it can of a header: who can't be understood is asked for metadata where they
// usually are.
func challengeOf(h http.Header) (c challenge) {
	headers := h.Values("WWW-Authenticate")
	if len(strings.Join(headers, "")) > maxChallengeBytes {
		return c
	}
	all, err := oauthex.ParseWWWAuthenticate(headers)
	if err != nil {
		return c
	}
	for _, one := range all {
		if one.Scheme == "bearer" {
			return challenge{one.Params["resource_metadata"], scopesOf(one.Params["scope"]), one.Params["error"] == "insufficient_scope"}
		}
	}
	return c
}

// scopesOf returns the valid ones of a list of scopes.
func scopesOf(text string) []string { return union(nil, strings.Fields(text)) }

// union returns the scopes of both lists once, without invalid ones.
func union(a, b []string) (all []string) {
	for _, s := range slices.Concat(a, b) {
		bad := s == "" || len(s) > maxScopeBytes || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
		if !bad && !slices.Contains(all, s) && len(all) < maxScopes {
			all = append(all, s)
		}
	}
	return all
}

// issuer is the metadata of an issuer.
type issuer struct {
	oauthex.AuthServerMeta
	DeviceEndpoint string `json:"device_authorization_endpoint"`
}

// found is what a server's metadata lead to.
type found struct {
	audience string // the server as its metadata name it
	scopes   []string
	issuer   issuer
}

// probe asks a server for its challenge.
func (s *Source) probe(ctx context.Context) (challenge, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.state.resource, nil)
	if err != nil {
		return challenge{}, err
	}
	r.Header.Set("Accept", "text/event-stream")
	answer, err := s.web.do(r)
	if err != nil {
		return challenge{}, err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		return challenge{}, nil
	}
	return challengeOf(answer.Header), nil
}

// discover finds the issuer of a server's tokens.
func (s *Source) discover(ctx context.Context, c challenge, wanted string) (*found, error) {
	resource, err := url.Parse(s.state.resource)
	if err != nil {
		return nil, err
	}
	f := &found{audience: s.state.resource}
	meta, err := s.resourceMetadata(ctx, c.metadata, resource)
	if err != nil {
		return nil, fmt.Errorf("read what the server says of its issuer: %w", err)
	}
	// A server of before metadata is its own issuer.
	issuers := []string{originOf(resource)}
	if meta != nil {
		f.audience, f.scopes, issuers = meta.Resource, union(nil, meta.ScopesSupported), meta.AuthorizationServers
	}
	i := 0
	if wanted != "" {
		i = slices.IndexFunc(issuers, func(one string) bool { return sameIssuer(one, wanted) })
	}
	if i < 0 || len(issuers) == 0 {
		return nil, errors.New("the server names no issuer for which this client is registered")
	}
	if err := s.issuerMetadata(ctx, issuers[i], &f.issuer); err != nil {
		return nil, fmt.Errorf("read what the issuer says of itself: %w", err)
	}
	return f, nil
}

// resourceMetadata returns nil if the server has none.
func (s *Source) resourceMetadata(ctx context.Context, named string, resource *url.URL) (*oauthex.ProtectedResourceMetadata, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	root := originOf(resource)
	places := []struct{ address, of string }{{root + wellKnown + resource.EscapedPath(), s.state.resource}, {root + wellKnown, root}}
	if named != "" { // then no others count
		places = []struct{ address, of string }{{named, s.state.resource}}
	}
	for _, place := range places {
		var m oauthex.ProtectedResourceMetadata
		there, err := s.web.get(ctx, place.address, &m)
		switch {
		case err != nil:
			return nil, err
		case !there:
			continue
		case !oauthex.MatchesResource([]string{m.Resource}, place.of):
			return nil, errors.New("its metadata are those of another server")
		}
		return &m, nil
	}
	if named != "" {
		return nil, errors.New("there is nothing at the address that it names")
	}
	return nil, nil
}

// issuerMetadata tries the places of OAuth and of OpenID Connect.
func (s *Source) issuerMetadata(ctx context.Context, name string, m *issuer) error {
	u, err := browse.Check(name, s.web.loopback)
	if err != nil {
		return err
	}
	root, path := originOf(u), strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{root + "/.well-known/oauth-authorization-server" + path, root + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, root+path+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		*m = issuer{}
		if there, err := s.web.get(ctx, place, m); err != nil {
			return err
		} else if there {
			return s.checkIssuer(m, name)
		}
	}
	return errors.New("it has no metadata, so nobody knows whether it supports PKCE")
}

func (s *Source) checkIssuer(m *issuer, name string) error {
	if !sameIssuer(m.Issuer, name) {
		return errors.New("its metadata are those of another issuer")
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return errors.New("it does not support PKCE with S256, which OAuth 2.1 demands")
	}
	for endpoint, address := range map[string]string{
		"authorization": m.AuthorizationEndpoint, "token": m.TokenEndpoint, "registration": m.RegistrationEndpoint,
		"revocation": m.RevocationEndpoint, "device authorization": m.DeviceEndpoint,
	} {
		if address == "" && endpoint != "token" {
			continue
		}
		if _, err := browse.Check(address, s.web.loopback); err != nil {
			return fmt.Errorf("its %s endpoint: %w", endpoint, err)
		}
	}
	return nil
}

// sameIssuer compares the names of issuers, in which many metadata differ by a slash at the end.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
