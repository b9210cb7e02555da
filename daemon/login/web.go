package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
	"github.com/thoughtgate/thoughtgated/internal/browse"
)

const (
	requestTimeout = 20 * time.Second
	maxAnswerBytes = 256 << 10
	maxRedirects   = 3
	maxTokenBytes  = 16 << 10
)

// web reaches a server and its issuer by a person's client, with bounds.
type web struct {
	client   *http.Client
	loopback bool // the server is on this machine, so its issuer may be
}

func newWeb(client *http.Client, loopback bool) *web {
	c := *client
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport, c.Jar = guard{next, loopback}, nil
	if c.Timeout == 0 || c.Timeout > requestTimeout {
		c.Timeout = requestTimeout
	}
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		from := via[0]
		if from.Method != http.MethodGet || r.URL.Scheme != from.URL.Scheme || r.URL.Host != from.URL.Host || len(via) > maxRedirects {
			return errors.New("it is a redirect that is not followed")
		}
		if client.CheckRedirect != nil {
			return client.CheckRedirect(r, via)
		}
		return nil
	}
	return &web{&c, loopback}
}

// guard checks the address of each request, also of those that the SDK makes, and bounds each answer.
type guard struct {
	next     http.RoundTripper
	loopback bool
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := browse.Check(r.URL.String(), g.loopback); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	answer, err := g.next.RoundTrip(r)
	if err == nil {
		answer.Body = &bounded{answer.Body, maxAnswerBytes}
	}
	return answer, err
}

// bounded fails where too much is read, so that nothing is taken for whole that was cut off.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswerBytes)
	}
	return n, err
}

// do sends a request. Its errors name the host alone: the address may be anybody's text.
func (w *web) do(r *http.Request) (*http.Response, error) {
	answer, err := w.client.Do(r)
	if err != nil {
		return nil, unreached(r.URL.Host, err)
	}
	return answer, nil
}

func unreached(host string, err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("reach %.200q: %w", host, err)
}

// get fetches JSON. found is false if the server has nothing there.
func (w *web) get(ctx context.Context, address string, into any) (found bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := w.do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode >= 400 && answer.StatusCode < 500:
		return false, nil
	case answer.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s answers with status %d", r.URL.Host, answer.StatusCode)
	}
	if err := decode(answer, into); err != nil {
		return false, fmt.Errorf("read the answer of %s: %w", r.URL.Host, err)
	}
	return true, nil
}

// decode reads JSON. Its errors have nothing of the text, which may contain secrets.
func decode(answer *http.Response, into any) error {
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind != "application/json" {
		return errors.New("it is not JSON by its content type")
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if !jsontext.Value(text).IsValid() {
		return errors.New("it is no valid JSON")
	}
	if json.Unmarshal(text, into) != nil {
		return errors.New("a member has the wrong type")
	}
	return nil
}

// knownErrors are those that an issuer may name. Others are not repeated: an issuer may put there
// what it was sent.
var knownErrors = []string{
	"access_denied", "authorization_pending", "expired_token", "invalid_client", "invalid_client_metadata", "invalid_grant", "invalid_redirect_uri",
	"invalid_request", "invalid_scope", "invalid_target", "server_error", "slow_down", "temporarily_unavailable", "unauthorized_client",
	"unsupported_grant_type", "unsupported_response_type",
}

// issuerError is one of knownErrors; empty for another one.
type issuerError string

func issuerErrorOf(code string) issuerError {
	if !slices.Contains(knownErrors, code) {
		return ""
	}
	return issuerError(code)
}

func (e issuerError) Error() string {
	if e == "" {
		return "the issuer answers with an error of a kind that OAuth doesn't have"
	}
	return "the issuer answers with the error " + string(e)
}

// credentials are who a client is to an issuer.
type credentials struct {
	id     string
	secret vault.Secret
	method string
}

const (
	methodNone  = "none"
	methodPost  = "client_secret_post"
	methodBasic = "client_secret_basic"
)

// post sends a form, and decodes a successful answer unless into is nil. An [issuerError] is final; after
// other errors it may be tried again.
func (w *web) post(ctx context.Context, address string, c credentials, form url.Values, into any) error {
	if c.method != methodBasic {
		form.Set("client_id", c.id)
	}
	if c.method == methodPost {
		form.Set("client_secret", c.secret.Reveal())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if c.method == methodBasic {
		r.SetBasicAuth(url.QueryEscape(c.id), url.QueryEscape(c.secret.Reveal()))
	}
	answer, err := w.do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch status := answer.StatusCode; {
	case status >= 200 && status < 300 && into == nil:
		return nil
	case status >= 200 && status < 300:
		if err := decode(answer, into); err != nil {
			return fmt.Errorf("read the answer of %s: %w", r.URL.Host, err)
		}
		return nil
	case status >= 400 && status < 500:
		var failed struct {
			Error string `json:"error"`
		}
		if decode(answer, &failed) == nil && failed.Error != "" {
			return issuerErrorOf(failed.Error)
		}
		fallthrough
	default:
		return fmt.Errorf("%s answers with status %d", r.URL.Host, status)
	}
}

// tokens asks an issuer for tokens, and puts them into l.
func (w *web) tokens(ctx context.Context, l *vault.Login, form url.Values) error {
	var got struct {
		Access  string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Refresh string      `json:"refresh_token"`
		Scope   *string     `json:"scope"`
		Life    json.Number `json:"expires_in"`
		Error   string      `json:"error"`
	}
	asked := time.Now()
	form.Set("resource", l.Audience)
	if err := w.post(ctx, l.TokenURL, credentials{l.ClientID, l.ClientSecret, l.AuthMethod}, form, &got); err != nil {
		return err
	}
	switch {
	case got.Error != "": // some answer so with status 200
		return issuerErrorOf(got.Error)
	case got.Access == "" || !isToken(got.Access) || !isToken(got.Refresh):
		return errors.New("the issuer's answer has no token that can be sent")
	case !strings.EqualFold(got.Type, "bearer"):
		return errors.New("the issuer's token is not a bearer token, and no other kind is supported")
	}
	l.Access, l.Issued, l.Expiry = vault.NewSecret(got.Access), asked, time.Time{}
	if got.Refresh != "" {
		l.Refresh = vault.NewSecret(got.Refresh)
	}
	if got.Life != "" {
		seconds, err := got.Life.Float64()
		if err != nil || seconds < 0 {
			return errors.New("the issuer's answer has an invalid expires_in")
		}
		l.Expiry = asked.Add(time.Duration(min(seconds, 10*365*24*3600) * float64(time.Second)))
	}
	if got.Scope != nil {
		l.Scopes = scopesOf(*got.Scope)
	}
	return nil
}

// isToken reports whether a token can stand in a header.
func isToken(text string) bool {
	return len(text) <= maxTokenBytes && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// revoke has the issuer revoke a login: with the refresh token all that came of it.
func (s *Source) revoke(ctx context.Context, l *vault.Login) error {
	token := l.Refresh
	if token.IsZero() {
		token = l.Access
	}
	return s.web.post(ctx, l.RevokeURL, credentials{l.ClientID, l.ClientSecret, l.AuthMethod}, url.Values{"token": {token.Reveal()}}, nil)
}
