package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
	"github.com/thoughtgate/thoughtgated/internal/test/oauth"
)

// canary begins every secret of the test's issuers. No log, no error and no JSON may have it.
const canary = "CANARY"

const (
	origin   = "https://mcp.example"
	resource = origin + "/mcp"
	evil     = "https://evil.example"
)

// noKeyring is a system without one.
type noKeyring struct{}

func (noKeyring) Get(context.Context, string) (string, error) { return "", errors.New("no keyring") }
func (noKeyring) Set(context.Context, string, string) error   { return errors.New("no keyring") }

// world is a person's logins, a server with an issuer, and an attacker's.
type world struct {
	*Logins
	t            *testing.T
	server, evil *oauth.Server
	http         *http.Client
	said         buffer // logs and errors

	mu      sync.Mutex
	prompts []Prompt
}

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func newWorld(t *testing.T, configure func(w *world)) *world {
	t.Helper()
	w := &world{
		t: t, server: &oauth.Server{Origin: origin, Canary: canary, Life: time.Hour, Scopes: []string{"read"}},
		evil: &oauth.Server{Origin: evil, Canary: canary, Life: time.Hour},
	}
	w.http = oauth.Client(map[string]http.Handler{"mcp.example": w.server, "evil.example": w.evil})
	w.Logins = New(Options{
		Store: vault.New(t.TempDir(), noKeyring{}),
		Log:   slog.New(slog.NewTextHandler(&w.said, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if configure != nil {
		configure(w)
	}
	t.Cleanup(func() {
		w.Close()
		if text := w.said.String(); strings.Contains(text, canary) {
			t.Errorf("a secret was printed:\n%s", text)
		}
	})
	return w
}

// heard returns err after it was printed, so that its text is searched for secrets.
func (w *world) heard(err error) error {
	fmt.Fprintf(&w.said, "%v %+v %#v\n", err, err, err)
	return err
}

func (w *world) place() Server { return Server{"github", resource, w.http} }

// how is a person who agrees in a browser.
func (w *world) how() How {
	return How{Show: func(_ context.Context, p Prompt) error {
		w.note(p)
		back, err := w.server.Approve(p.Address)
		if err != nil {
			return err
		}
		return visit(back)
	}}
}

func (w *world) note(p Prompt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prompts = append(w.prompts, p)
}

// visit is a browser that follows a redirect.
func visit(address string) error {
	answer, err := http.Get(address)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func (w *world) login() (*Result, error) {
	got, err := w.Login(w.t.Context(), w.place(), w.how())
	return got, w.heard(err)
}

func (w *world) source() *Source {
	w.t.Helper()
	s, err := w.Source(w.place())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// call makes a request to the server as a transport would, and returns its status.
func (w *world) call(s *Source, path string) (int, error) {
	for again := true; ; {
		token, err := s.Token(w.t.Context())
		var needed *NeededError
		if w.heard(err); err != nil && !(errors.As(err, &needed) && needed.Never) {
			return 0, err
		}
		r, _ := http.NewRequestWithContext(w.t.Context(), http.MethodPost, origin+path, nil)
		if err == nil {
			if err := token.Authorize(r); err != nil {
				return 0, w.heard(err)
			}
		}
		answer, err := w.http.Do(r)
		if err != nil {
			return 0, err
		}
		answer.Body.Close()
		retry, err := s.Challenge(token, answer.StatusCode, answer.Header)
		if err != nil || !retry || !again {
			return answer.StatusCode, w.heard(err)
		}
		again = false
	}
}

func TestFirstLogin(t *testing.T) {
	w := newWorld(t, nil)
	s := w.source()
	status, err := w.call(s, "/mcp")
	var needed *NeededError
	if status != http.StatusUnauthorized || !errors.As(err, &needed) || !needed.Never || !errors.Is(err, ErrLoginNeeded) ||
		!strings.Contains(err.Error(), "tgctl login github") {
		t.Fatalf("before the login: %d, %v", status, err)
	}
	got, err := w.login()
	if err != nil {
		t.Fatal(err)
	}
	if got.Issuer != origin || !slices.Equal(got.Scopes, []string{"read", "offline_access"}) || !got.Renews || time.Until(got.Expiry) < 50*time.Minute {
		t.Errorf("the login brought %+v", got)
	}
	if p := w.prompts[0]; p.Host != "mcp.example" || p.Issuer != origin || !strings.HasPrefix(p.Address, origin+"/authorize?") {
		t.Errorf("the person was shown %+v", p)
	}
	for range 3 {
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("after the login: %d, %v", status, err)
		}
	}
	if n := w.server.Count("token"); n != 1 {
		t.Errorf("%d requests for tokens, want 1", n)
	}
	// The next daemon has it, too.
	w.Logins = New(w.Options)
	if status, err := w.call(w.source(), "/mcp"); status != http.StatusOK {
		t.Errorf("after a restart: %d, %v", status, err)
	}
	if err := w.Logout(t.Context(), w.place()); err != nil {
		t.Fatal(err)
	}
	if status, err := w.call(w.source(), "/mcp"); !errors.Is(err, ErrLoginNeeded) || w.server.Count("revoke") != 1 {
		t.Errorf("after logout: %d, %v", status, err)
	}
	if err := w.Logout(t.Context(), w.place()); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("the second logout: %v", err)
	}
}

// The same over sockets, by the client of a test server: https, and on this machine http.
func TestOverSockets(t *testing.T) {
	t.Run("https", func(t *testing.T) { overSockets(t, httptest.NewTLSServer) })
	t.Run("http", func(t *testing.T) { overSockets(t, httptest.NewServer) })
}

func overSockets(t *testing.T, start func(http.Handler) *httptest.Server) {
	w := newWorld(t, nil)
	real := start(w.server)
	defer real.Close()
	w.server.Origin = real.URL
	s := Server{"github", real.URL + "/mcp", real.Client()}
	if _, err := w.Login(t.Context(), s, w.how()); w.heard(err) != nil {
		t.Fatal(err)
	}
	src, err := w.Source(s)
	if err != nil {
		t.Fatal(err)
	}
	token, err := src.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest(http.MethodGet, s.Address, nil)
	if err := token.Authorize(r); err != nil {
		t.Fatal(err)
	}
	answer, err := s.HTTP.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
}

// A server that is made of the Go SDK's parts, with an issuer of its own.
func TestServerOfSDK(t *testing.T) {
	w := newWorld(t, nil)
	const here = "https://sdk.example/mcp"
	const metadata = "https://sdk.example/.well-known/oauth-protected-resource/mcp"
	mux := http.NewServeMux()
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if !strings.HasPrefix(token, canary+"access-") {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Scopes: []string{"read"}, Expiration: time.Now().Add(time.Hour), UserID: "u"}, nil
	}
	guarded := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata, Scopes: []string{"read"}})
	mux.Handle("/mcp", guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
	mux.Handle("/.well-known/oauth-protected-resource/mcp", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: here, AuthorizationServers: []string{origin}, ScopesSupported: []string{"read"},
	}))
	w.http = oauth.Client(map[string]http.Handler{"mcp.example": w.server, "sdk.example": mux})
	s := Server{"sdk", here, w.http}
	if got, err := w.Login(t.Context(), s, w.how()); w.heard(err) != nil || got.Issuer != origin {
		t.Fatal(got, err)
	}
	src, err := w.Source(s)
	if err != nil {
		t.Fatal(err)
	}
	token, err := src.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest(http.MethodPost, here, nil)
	if err := token.Authorize(r); err != nil {
		t.Fatal(err)
	}
	if answer, err := w.http.Do(r); err != nil || answer.StatusCode != http.StatusNoContent {
		t.Errorf("the server answered %v, %v", answer, err)
	}
	if r.URL.Host = "mcp.example"; token.Authorize(r) == nil {
		t.Error("the token is sent to its issuer")
	}
}

// What servers and issuers get wrong, and what attackers do. Each login fails, says why, and stores nothing.
func TestRefusedLogins(t *testing.T) {
	set := func(name string, value any) func(m map[string]any) {
		return func(m map[string]any) { m[name] = value }
	}
	for name, test := range map[string]struct {
		configure func(w *world)
		want      string // in the error
	}{
		"metadata of another server":  {func(w *world) { w.server.Resource = set("resource", evil+"/mcp") }, "another server"},
		"metadata of a wider one":     {func(w *world) { w.server.Resource = set("resource", origin) }, "another server"},
		"no issuer":                   {func(w *world) { w.server.Resource = set("authorization_servers", []string{}) }, "names no issuer"},
		"an issuer on http":           {func(w *world) { w.server.Resource = set("authorization_servers", []string{"http://mcp.example"}) }, "https://"},
		"an issuer on this machine":   {func(w *world) { w.server.Resource = set("authorization_servers", []string{"http://127.0.0.1:1"}) }, "https://"},
		"an issuer that can't be had": {func(w *world) { w.server.Resource = set("authorization_servers", []string{"https://10.0.0.1"}) }, "no route"},
		"metadata of another issuer":  {func(w *world) { w.server.Issuer = set("issuer", evil) }, "another issuer"},
		"no issuer's metadata":        {func(w *world) { w.server.Resource = set("authorization_servers", []string{origin + "/none"}) }, "no metadata"},
		"no PKCE":                     {func(w *world) { w.server.Issuer = set("code_challenge_methods_supported", nil) }, "PKCE"},
		"PKCE without S256":           {func(w *world) { w.server.Issuer = set("code_challenge_methods_supported", []string{"plain"}) }, "PKCE"},
		"no token endpoint":           {func(w *world) { w.server.Issuer = set("token_endpoint", nil) }, "token endpoint"},
		"a token endpoint on http":    {func(w *world) { w.server.Issuer = set("token_endpoint", "http://mcp.example/token") }, "token endpoint"},
		"a script to open":            {func(w *world) { w.server.Issuer = set("authorization_endpoint", "javascript:alert(1)") }, "authorization endpoint"},
		"a file to open":              {func(w *world) { w.server.Issuer = set("authorization_endpoint", "file:///etc/passwd") }, "authorization endpoint"},
		"a page of this machine":      {func(w *world) { w.server.Issuer = set("authorization_endpoint", "http://127.0.0.1/x") }, "authorization endpoint"},
		"a page with our parameters":  {func(w *world) { w.server.Issuer = set("authorization_endpoint", origin+"/authorize?state=x") }, "parameters"},
		"a registration on http":      {func(w *world) { w.server.Issuer = set("registration_endpoint", "http://mcp.example/r") }, "registration endpoint"},
		"no registration":             {func(w *world) { w.server.NoRegistration = true }, "register one there"},
		"another issuer answers":      {func(w *world) { w.server.Iss = true; w.server.Answer = func(q url.Values) { q.Set("iss", evil) } }, "another issuer"},
		"unadvertised, another":       {func(w *world) { w.server.Answer = func(q url.Values) { q.Set("iss", evil) } }, "another issuer"},
		"almost the issuer":           {func(w *world) { w.server.Answer = func(q url.Values) { q.Set("iss", origin+"/") } }, "another issuer"},
		"its issuer is not named":     {func(w *world) { w.server.Iss = true; w.server.Answer = func(q url.Values) { q.Del("iss") } }, "does not name"},
		"the person refuses": {func(w *world) {
			w.server.Answer = func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }
		}, "access_denied"},
		"an error with a secret": {func(w *world) {
			w.server.Answer = func(q url.Values) { q.Set("error", q.Get("code")); q.Del("code") }
		}, "of a kind that OAuth"},
		"two codes":                 {func(w *world) { w.server.Answer = func(q url.Values) { q.Add("code", canary) } }, "more than once"},
		"no code":                   {func(w *world) { w.server.Answer = func(q url.Values) { q.Del("code") } }, "no code"},
		"an answer that is no JSON": {func(w *world) { w.server.Token = answerWith(200, "application/json", `{"access_token":"`+canary) }, "no valid JSON"},
		"a page for an answer":      {func(w *world) { w.server.Token = answerWith(200, "text/html", canary) }, "not JSON"},
		"two tokens": {func(w *world) {
			w.server.Token = answerWith(200, "application/json", `{"access_token":"`+canary+`","access_token":"b","token_type":"bearer"}`)
		}, "no valid JSON"},
		"a token that breaks the header": {func(w *world) {
			w.server.Token = answerWith(200, "application/json", `{"access_token":"`+canary+`\r\nX: y","token_type":"bearer"}`)
		}, "no token"},
		"a token that is too long": {func(w *world) {
			w.server.Token = answerWith(200, "application/json", `{"access_token":"`+strings.Repeat("x", maxTokenBytes+1)+`","token_type":"bearer"}`)
		}, "no token"},
		"a token of another kind": {func(w *world) {
			w.server.Token = answerWith(200, "application/json", `{"access_token":"`+canary+`","token_type":"DPoP"}`)
		}, "bearer"},
		"a token of the wrong type": {func(w *world) {
			w.server.Token = answerWith(200, "application/json", `{"access_token":["`+canary+`"],"token_type":"bearer"}`)
		}, "wrong type"},
		"an error with status 200": {func(w *world) { w.server.Token = answerWith(200, "application/json", `{"error":"invalid_grant"}`) }, "invalid_grant"},
		"an error that has the code": {func(w *world) {
			w.server.Token = answerWith(400, "application/json", `{"error":"`+canary+`","error_description":"`+canary+`"}`)
		}, "of a kind"},
		"a failure with a secret": {func(w *world) { w.server.Token = answerWith(502, "text/plain", canary) }, "status 502"},
		"an endless answer": {func(w *world) {
			w.server.Token = answerWith(200, "application/json", strings.Repeat(" ", maxAnswerBytes+1)+"{}")
		}, "more than"},
		"a redirect of the code": {func(w *world) {
			w.server.Token = func(rw http.ResponseWriter, _ url.Values) bool {
				rw.Header().Set("Location", evil+"/token")
				rw.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}
		}, "redirect"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.configure)
			got, err := w.login()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("the login brought %+v, %v; want an error with %q", got, err, test.want)
			}
			if _, err := w.Store.Get(t.Context(), resource); !errors.Is(err, vault.ErrNotFound) {
				t.Errorf("something was stored: %v", err)
			}
			if got := w.evil.Requests(); len(got) > 0 {
				t.Errorf("the attacker was asked for %q", got)
			}
		})
	}
}

func answerWith(status int, kind, text string) func(http.ResponseWriter, url.Values) bool {
	return func(w http.ResponseWriter, _ url.Values) bool {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		return true
	}
}

// A server of an attacker names an honest issuer's page, where the person has an account, and an own
// endpoint for the code (mix-up). The code never gets there.
func TestMixUp(t *testing.T) {
	w := newWorld(t, func(w *world) { w.server.Iss = true })
	w.evil.Issuer = func(m map[string]any) { m["authorization_endpoint"] = origin + "/authorize" }
	w.server.Static = map[string]string{"known": ""}
	client := &Client{ID: "known", Issuer: evil}
	how := w.how()
	how.Client = client
	w.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, resource, nil)) // it knows its clients
	_, err := w.Login(t.Context(), Server{"evil", evil + "/mcp", w.http}, how)
	if w.heard(err) == nil || !strings.Contains(err.Error(), "another issuer") {
		t.Fatalf("the login: %v", err)
	}
	if len(w.prompts) != 1 || w.prompts[0].Host != "mcp.example" || w.prompts[0].Issuer != evil {
		t.Errorf("the person was shown %+v", w.prompts)
	}
	if got := w.evil.Received(); len(got) > 0 {
		t.Errorf("the attacker received %q", got)
	}
}

// Answers with another state, at another path or for another host are not taken, and the login goes on.
func TestOtherAnswers(t *testing.T) {
	w := newWorld(t, nil)
	how := w.how()
	statuses := map[string]int{}
	how.Show = func(_ context.Context, p Prompt) error {
		good, err := w.server.Approve(p.Address)
		if err != nil {
			return err
		}
		u, err := url.Parse(good)
		if err != nil {
			return err
		}
		change := func(f func(u *url.URL, q url.Values)) string {
			other, q := *u, u.Query()
			f(&other, q)
			if len(q) > 0 {
				other.RawQuery = q.Encode()
			}
			return other.String()
		}
		for _, try := range []struct{ name, method, address, host string }{
			{"another state", "GET", change(func(_ *url.URL, q url.Values) { q.Set("state", "x"); q.Set("code", "stolen") }), ""},
			{"no state", "GET", change(func(_ *url.URL, q url.Values) { q.Del("state") }), ""},
			{"two states", "GET", change(func(_ *url.URL, q url.Values) { q.Add("state", "x") }), ""},
			{"another path", "GET", change(func(u *url.URL, _ url.Values) { u.Path = "/callback" }), ""},
			{"another method", "POST", good, ""},
			{"another host", "GET", good, "evil.example"},
			{"the answer", "GET", good, ""},
			{"the answer again", "GET", change(func(_ *url.URL, q url.Values) { q.Set("code", "second") }), ""},
		} {
			r, err := http.NewRequest(try.method, try.address, nil)
			if err != nil {
				return err
			}
			r.Host = try.host
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			answer.Body.Close()
			statuses[try.name] = answer.StatusCode
		}
		return nil
	}
	if _, err := w.Login(t.Context(), w.place(), how); w.heard(err) != nil {
		t.Fatal(err)
	}
	for name, status := range statuses {
		if (status == http.StatusOK) != (name == "the answer") {
			t.Errorf("%s: status %d", name, status)
		}
	}
	if got := w.server.Received(); slices.Contains(got, "stolen") || slices.Contains(got, "second") {
		t.Errorf("another answer's code was sent: %q", got)
	}
}

// The port of a login is closed when the login ends, also when the person gives up.
func TestGivenUp(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var port string
	how := How{Show: func(_ context.Context, p Prompt) error {
		u, _ := url.Parse(p.Address)
		back, _ := url.Parse(u.Query().Get("redirect_uri"))
		if port = back.Host; back.Hostname() != "127.0.0.1" || len(back.Path) < 20 {
			t.Errorf("the redirect address is %q", back)
		}
		cancel()
		return nil
	}}
	if _, err := w.Login(ctx, w.place(), how); !errors.Is(w.heard(err), context.Canceled) {
		t.Errorf("the login: %v", err)
	}
	if c, err := net.Dial("tcp", port); err == nil {
		c.Close()
		t.Error("the port is open after the login")
	}
	how.Show = func(context.Context, Prompt) error { return errors.New("no terminal") }
	if _, err := w.Login(t.Context(), w.place(), how); err == nil || !strings.Contains(err.Error(), "no terminal") {
		t.Errorf("a prompt that can't be shown: %v", err)
	}
}

// Which client is used: the person's own, the metadata document, or a registered one.
func TestClients(t *testing.T) {
	const document = "https://thoughtgate.example/client.json"
	for name, test := range map[string]struct {
		configure  func(w *world)
		client     *Client
		want       string
		registered bool
	}{
		"registered":            {func(*world) {}, nil, "dynamic-", true},
		"by its document":       {func(w *world) { w.server.Documents = true; w.Document = document }, nil, document, false},
		"the issuer takes none": {func(w *world) { w.Document = document }, nil, "dynamic-", true},
		"own":                   {func(w *world) { w.server.Documents = true; w.Document = document }, &Client{ID: "own", Issuer: origin}, "own", false},
		"own with a secret":     {func(*world) {}, &Client{ID: "confidential", Secret: vault.NewSecret(canary + "-s"), Issuer: origin}, "confidential", false},
		"own with a secret, by post": {func(w *world) {
			w.server.Issuer = func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"} }
		}, &Client{ID: "confidential", Secret: vault.NewSecret(canary + "-s"), Issuer: origin}, "confidential", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.configure)
			w.server.Static = map[string]string{"own": "", "confidential": canary + "-s"}
			how := w.how()
			how.Client = test.client
			if _, err := w.Login(t.Context(), w.place(), how); w.heard(err) != nil {
				t.Fatal(err)
			}
			got, err := w.Store.Get(t.Context(), resource)
			if err != nil || !strings.HasPrefix(got.ClientID, test.want) || (w.server.Count("register") == 1) != test.registered {
				t.Errorf("client %q, %v; registered %d times", got.ClientID, err, w.server.Count("register"))
			}
		})
	}
	// An own client is for its issuer alone, and another one is not asked in its place.
	w := newWorld(t, nil)
	for _, c := range []*Client{{ID: "own", Issuer: evil}, {ID: "own"}, {Issuer: origin}} {
		how := w.how()
		how.Client = c
		if _, err := w.Login(t.Context(), w.place(), how); w.heard(err) == nil {
			t.Errorf("logged in with %+v", c)
		}
	}
	if n := w.server.Count("authorize"); n > 0 {
		t.Error("the person was sent to the issuer")
	}
}

// Where the browser is elsewhere, the address is shown, or a code where the issuer has that.
func TestNoBrowser(t *testing.T) {
	w := newWorld(t, nil)
	how := w.how()
	how.NoBrowser = true
	if _, err := w.Login(t.Context(), w.place(), how); w.heard(err) != nil {
		t.Fatal(err)
	}
	if p := w.prompts[0]; p.Code != "" || !strings.Contains(p.Address, "/authorize?") {
		t.Errorf("the person was shown %+v", p)
	}
}

// The server wants more scopes for some calls. The next login asks for these and those of before.
func TestStepUp(t *testing.T) {
	w := newWorld(t, func(w *world) { w.server.Needs = map[string]string{"/mcp/write": "write"} })
	if _, err := w.login(); err != nil {
		t.Fatal(err)
	}
	s := w.source()
	status, err := w.call(s, "/mcp/write")
	if status != http.StatusForbidden || !errors.Is(err, ErrLoginNeeded) || !strings.Contains(err.Error(), "write") {
		t.Fatalf("without the scope: %d, %v", status, err)
	}
	if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
		t.Errorf("other calls: %d, %v", status, err)
	}
	got, err := w.login()
	if err != nil || !slices.Contains(got.Scopes, "read") || !slices.Contains(got.Scopes, "write") {
		t.Fatalf("the second login brought %+v, %v", got, err)
	}
	if status, err := w.call(s, "/mcp/write"); status != http.StatusOK || err != nil {
		t.Errorf("with the scope: %d, %v", status, err)
	}
	// A 403 for another reason has nothing to do with the login.
	if again, err := s.Challenge(Token{}, http.StatusForbidden, http.Header{}); again || err != nil {
		t.Errorf("another 403: %v, %v", again, err)
	}
}

// A token is sent to its own server and nowhere else.
func TestTokenElsewhere(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.login(); err != nil {
		t.Fatal(err)
	}
	token, err := w.source().Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{evil + "/mcp", "http://mcp.example/mcp", "https://mcp.example:8443/mcp", "https://mcp.example.evil.example/mcp"} {
		r, _ := http.NewRequest(http.MethodPost, address, nil)
		if err := token.Authorize(r); w.heard(err) == nil || r.Header.Get("Authorization") != "" {
			t.Errorf("a request to %s got the token", address)
		}
	}
	for _, address := range []string{resource, "https://MCP.example:443/messages?session=1"} {
		r, _ := http.NewRequest(http.MethodPost, address, nil)
		if err := token.Authorize(r); err != nil || r.Header.Get("Authorization") == "" {
			t.Errorf("a request to %s got no token: %v", address, err)
		}
	}
	r, _ := http.NewRequest(http.MethodPost, resource, nil)
	if err := (Token{}).Authorize(r); err == nil {
		t.Error("the zero token was sent")
	}
	other, err := w.Source(Server{"other", origin + "/other", w.http})
	if err != nil {
		t.Fatal(err)
	}
	if token, err := other.Token(t.Context()); !errors.Is(err, ErrLoginNeeded) {
		t.Errorf("another server of the host got %v, %v", token, err)
	}
	text, _ := json.Marshal(map[string]any{"token": token})
	fmt.Fprintf(&w.said, "%v %+v %#v %s %s", token, token, token, text, fmt.Sprint(w.source()))
	for _, bad := range []string{"", "http://mcp.example/mcp", "https://user@mcp.example/mcp", "ftp://mcp.example"} {
		if _, err := w.Source(Server{"x", bad, w.http}); err == nil {
			t.Errorf("took the address %q", bad)
		}
	}
	if _, err := w.Source(Server{"x", resource, nil}); err == nil {
		t.Error("took a server without a client")
	}
}

func TestResourceOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://MCP.example:443/mcp/?token=x": origin + "/mcp",
		"https://mcp.example/":                 origin,
		"https://mcp.example/A/b":              origin + "/A/b",
		"http://127.0.0.1:8080/mcp":            "http://127.0.0.1:8080/mcp",
	} {
		if got, _, err := resourceOf(address); got != want || err != nil {
			t.Errorf("resourceOf(%q) = %q, %v, want %q", address, got, err, want)
		}
	}
}

// Every request of a login goes through the person's client, also to addresses that others name.
func TestEveryRequestIsChecked(t *testing.T) {
	w := newWorld(t, nil)
	asked := map[string]bool{}
	next := w.http.Transport
	w.http = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		asked[r.Method+" "+r.URL.Path] = true
		if r.URL.Host != "mcp.example" {
			return nil, errors.New("the policy refuses this host")
		}
		return next.RoundTrip(r)
	})}
	if _, err := w.login(); err != nil {
		t.Fatal(err)
	}
	if err := w.Logout(t.Context(), w.place()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET /.well-known/oauth-authorization-server", "GET /.well-known/oauth-protected-resource/mcp", "GET /mcp", "POST /register", "POST /revoke", "POST /token",
	}
	if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) {
		t.Errorf("the client was asked for %q, want %q", got, want)
	}
	// WWW-Authenticate names the metadata service of a cloud, and the issuer one of the own network.
	s := w.source()
	for header, want := range map[string]string{
		`Bearer resource_metadata="https://169.254.169.254/latest"`: "the policy refuses",
		`Bearer resource_metadata="http://169.254.169.254/latest"`:  "https://",
		`Bearer resource_metadata="http://127.0.0.1:9/latest"`:      "https://",
		`Bearer resource_metadata="` + evil + `/metadata"`:          "the policy refuses",
	} {
		if again, err := s.Challenge(Token{}, http.StatusUnauthorized, http.Header{"Www-Authenticate": {header}}); again || !errors.Is(err, ErrLoginNeeded) {
			t.Errorf("%s: %v, %v", header, again, err)
		}
		if _, err := w.login(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", header, err)
		}
	}
}

// What a server may say of its login: no header stops the daemon, and only valid scopes come out of it.
func FuzzChallenge(f *testing.F) {
	for _, seed := range []string{
		`Bearer resource_metadata="https://a.example/x", scope="a b"`, `Basic realm="x", Bearer error="insufficient_scope", scope=a`, `Bearer`, `"`, `Bearer a=`,
		`Bearer scope="a\"`, `Bearer  =x`, `,`, `Bearer a="b",,c=d`, `Bearer scope="` + "\x00\u202e" + `"`, `Negotiate YWJj==`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		c := challengeOf(http.Header{"Www-Authenticate": {header}})
		for _, s := range c.scopes {
			if s == "" || len(s) > maxScopeBytes || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
				t.Errorf("%q has the scope %q", header, s)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Redirects within the origin are followed for metadata, and no others.
func TestRedirects(t *testing.T) {
	for location, good := range map[string]bool{"/elsewhere": true, origin + "/elsewhere": true, evil + "/elsewhere": false, "http://mcp.example/elsewhere": false, "/loop": false} {
		w := newWorld(t, nil)
		next := w.http.Transport
		w.http = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path == "/.well-known/oauth-authorization-server", r.URL.Path == "/loop":
				return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {location}}, Body: http.NoBody, Request: r}, nil
			case r.URL.Path == "/elsewhere":
				r = r.Clone(r.Context())
				r.URL.Path = "/.well-known/oauth-authorization-server"
			}
			return next.RoundTrip(r)
		})}
		if _, err := w.login(); (err == nil) != good {
			t.Errorf("a redirect to %s: %v", location, err)
		}
		if got := w.evil.Requests(); len(got) > 0 {
			t.Errorf("a redirect to %s was followed", location)
		}
	}
}

// intercept has answers stand in front of the server's, by path. A path that is mapped to another one is
// that of the server.
func (w *world) intercept(paths map[string]string, answers map[string]func(http.ResponseWriter, url.Values) bool) {
	next := w.http.Transport
	w.http = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if answer := answers[r.URL.Path]; answer != nil {
			rec := httptest.NewRecorder()
			answer(rec, nil)
			got := rec.Result()
			got.Request = r
			return got, nil
		}
		if path, ok := paths[r.URL.Path]; ok {
			r = r.Clone(r.Context())
			r.URL.Path = path
		}
		return next.RoundTrip(r)
	})}
}

// Where servers and issuers keep their metadata, in the order in which they are looked for.
func TestDiscovery(t *testing.T) {
	const (
		ofServer = "/.well-known/oauth-protected-resource/mcp"
		ofIssuer = "/.well-known/oauth-authorization-server"
	)
	gone, broken := answerWith(404, "text/html", "no"), answerWith(500, "text/html", canary)
	type answers = map[string]func(http.ResponseWriter, url.Values) bool
	noChallenge := func(a answers) answers { a["/mcp"] = answerWith(405, "text/html", "no"); return a }
	tenant := func(w *world) {
		w.server.Resource = func(m map[string]any) { m["authorization_servers"] = []string{origin + "/tenant/"} }
		w.server.Issuer = func(m map[string]any) { m["issuer"] = origin + "/tenant" }
	}
	for name, test := range map[string]struct {
		configure func(w *world)
		paths     map[string]string
		answers   answers
		want      string // in the error; "" if the login succeeds
	}{
		"named by the server": {nil, nil, answers{}, ""},
		"not named":           {nil, nil, noChallenge(answers{}), ""},
		"at the root, for the whole host": {func(w *world) { w.server.Resource = func(m map[string]any) { m["resource"] = origin } },
			map[string]string{"/.well-known/oauth-protected-resource": ofServer}, noChallenge(answers{ofServer: gone}), ""},
		"at the root, for this server alone": {nil, map[string]string{"/.well-known/oauth-protected-resource": ofServer}, noChallenge(answers{ofServer: gone}), "another server"},
		"of a server that is its own issuer": {nil, nil, noChallenge(answers{ofServer: gone}), ""},
		"nowhere, though it is named":        {nil, nil, answers{ofServer: gone}, "nothing at the address"},
		"broken":                             {nil, nil, answers{ofServer: broken}, "status 500"},
		"by OpenID":                          {nil, map[string]string{"/.well-known/openid-configuration": ofIssuer}, answers{ofIssuer: gone}, ""},
		"of a tenant":                        {tenant, map[string]string{ofIssuer + "/tenant": ofIssuer}, answers{}, ""},
		"of a tenant, by OpenID":             {tenant, map[string]string{"/.well-known/openid-configuration/tenant": ofIssuer}, answers{}, ""},
		"of a tenant, by OpenID, below it":   {tenant, map[string]string{"/tenant/.well-known/openid-configuration": ofIssuer}, answers{}, ""},
		"of a broken issuer":                 {nil, nil, answers{ofIssuer: broken}, "status 500"},
		"an old server without an issuer":    {nil, nil, noChallenge(answers{ofServer: gone, ofIssuer: gone}), "no metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.configure)
			w.intercept(test.paths, test.answers)
			_, err := w.login()
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the login: %v, want %q", err, test.want)
			}
		})
	}
}

// What issuers answer to a registration.
func TestRegistration(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, url.Values) bool
		want   string
		method string
	}{
		"refused":             {answerWith(400, "application/json", `{"error":"invalid_redirect_uri","error_description":"`+canary+`"}`), "invalid_redirect_uri", ""},
		"broken":              {answerWith(500, "application/json", canary), "RFC 7591", ""},
		"half":                {answerWith(201, "application/json", `{"client_id":"x","client_secret":"`+canary+`"`), "RFC 7591", ""},
		"without an id":       {answerWith(201, "application/json", `{"client_secret":"`+canary+`"}`), "RFC 7591", ""},
		"endless":             {answerWith(201, "application/json", strings.Repeat(" ", maxAnswerBytes)+`{"client_id":"x"}`), "RFC 7591", ""},
		"elsewhere":           {answerWith(307, "application/json", ``), "RFC 7591", ""},
		"by a signed request": {answerWith(201, "application/json", `{"client_id":"s","client_secret":"`+canary+`","token_endpoint_auth_method":"private_key_jwt"}`), "not supported", ""},
		"with a secret":       {answerWith(201, "application/json", `{"client_id":"s","client_secret":"`+canary+`"}`), "", methodBasic},
		"with one by post":    {answerWith(201, "application/json", `{"client_id":"s","client_secret":"`+canary+`","token_endpoint_auth_method":"client_secret_post"}`), "", methodPost},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(name)
			w := newWorld(t, func(w *world) { w.server.Device = true; w.server.Static = map[string]string{"s": canary} })
			w.intercept(nil, map[string]func(http.ResponseWriter, url.Values) bool{"/register": test.answer})
			how := w.byCode() // the server does not know the redirect address
			_, err := w.Login(t.Context(), w.place(), how)
			if w.heard(err); test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the login: %v, want %q", err, test.want)
				}
				return
			}
			got, err := w.Store.Get(t.Context(), resource)
			if err != nil || got.AuthMethod != test.method {
				t.Errorf("stored %+v, %v", got, err)
			}
		})
	}
}

// A login that its issuer can't be told of is removed all the same.
func TestLogoutWithoutIssuer(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := w.login(); err != nil {
		t.Fatal(err)
	}
	w.intercept(nil, map[string]func(http.ResponseWriter, url.Values) bool{"/revoke": answerWith(503, "text/html", canary)})
	if err := w.Logout(t.Context(), w.place()); w.heard(err) == nil || !strings.Contains(err.Error(), "revoke it there") {
		t.Errorf("the logout: %v", err)
	}
	if _, err := w.source().Token(t.Context()); !errors.Is(err, ErrLoginNeeded) {
		t.Errorf("after the logout: %v", err)
	}
	if _, err := w.Store.Get(t.Context(), resource); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("after the logout: %v", err)
	}
}
