// Package oauth is an authorization server and a protected resource for tests, as the specification
// of MCP has them. Its mistakes are configured. It knows nothing of the client that it tests.
package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is both the server that wants tokens, at /mcp, and their issuer. Its fields are set before
// it is used; what has a comment with "zero" needs no value.
type Server struct {
	Origin string            // of both, such as https://mcp.example
	Life   time.Duration     // of access tokens; zero: they say none
	Scopes []string          // that the resource advertises
	Needs  map[string]string // scopes that the resource wants, by path; zero: any token will do
	Static map[string]string // clients that are known in advance, and their secrets

	// Behind serves authorized requests, for a server that does more than to say which scopes a token has; the
	// header Granted-Scope names them. It may be called concurrently. Zero: none.
	Behind http.Handler

	Canary string // begins each secret that is issued

	NoRegistration, NoRefresh, Device, Documents, Iss bool

	// What an issuer may get wrong or an attacker may do. Zero: nothing.
	Resource func(metadata map[string]any)                            // changes protected-resource metadata
	Issuer   func(metadata map[string]any)                            // changes the issuer's metadata
	Answer   func(redirect url.Values)                                // changes an authorization answer
	Token    func(w http.ResponseWriter, form url.Values) (done bool) // answers a request for tokens itself

	mu       sync.Mutex
	clients  map[string]client
	codes    map[string]grant
	devices  map[string]*device
	access   map[string]grant
	refresh  map[string]grant
	requests []string
	leaked   []string
}

type client struct {
	secret    string
	redirects []string // nil: any on loopback
}

type grant struct {
	client, redirect, challenge, resource, scope string
	expiry                                       time.Time // zero: none
}

type device struct {
	grant
	user     string
	approved bool
	polls    int
	last     time.Time
}

// Client returns a client that reaches handlers by their hosts, in this process and without sockets, so that
// it works under synctest. Other hosts can't be reached.
func Client(hosts map[string]http.Handler) *http.Client {
	return &http.Client{Transport: transport(hosts)}
}

type transport map[string]http.Handler

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	handler, ok := t[r.URL.Host]
	if !ok {
		return nil, fmt.Errorf("no route to %s", r.URL.Host)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	inner := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	inner.Header = r.Header.Clone()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, inner)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// Requests returns what was asked of the server so far, such as "token refresh_token".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count returns how many requests begin with a text.
func (s *Server) Count(prefix string) (n int) {
	for _, r := range s.Requests() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// Received returns the secrets that were sent to this server.
func (s *Server) Received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.leaked)
}

// Revoke makes all access tokens invalid, and with all the refresh tokens, too.
func (s *Server) Revoke(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	if all {
		clear(s.refresh)
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.handle(w, r) {
		s.Behind.ServeHTTP(w, r)
	}
}

// handle answers a request, unless it is authorized and for the handler behind.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) (behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		s.clients, s.codes, s.devices = map[string]client{}, map[string]grant{}, map[string]*device{}
		s.access, s.refresh = map[string]grant{}, map[string]grant{}
		for id, secret := range s.Static {
			s.clients[id] = client{secret: secret}
		}
	}
	_ = r.ParseForm()
	for _, name := range []string{"code", "refresh_token", "code_verifier", "client_secret"} {
		if v := r.Form.Get(name); v != "" {
			s.leaked = append(s.leaked, v)
		}
	}
	if v := r.Header.Get("Authorization"); v != "" {
		s.leaked = append(s.leaked, v)
	}
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		s.note("resource metadata")
		s.metadata(w, s.Resource, map[string]any{
			"resource": s.Origin + "/mcp", "authorization_servers": []string{s.Origin}, "scopes_supported": s.Scopes,
		})
	case "/.well-known/oauth-authorization-server":
		s.note("issuer metadata")
		s.metadata(w, s.Issuer, s.issuer())
	case "/register":
		s.register(w, r)
	case "/token":
		s.token(w, r)
	case "/device":
		s.startDevice(w, r)
	case "/revoke":
		s.note("revoke")
		delete(s.access, r.Form.Get("token"))
		delete(s.refresh, r.Form.Get("token"))
	case "/authorize": // the person agrees at once
		back, err := s.approve(r.URL.String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return false
		}
		http.Redirect(w, r, back, http.StatusFound)
	case "/mcp", "/mcp/write":
		return s.serve(w, r)
	default:
		http.NotFound(w, r)
	}
	return false
}

func (s *Server) note(what string) { s.requests = append(s.requests, what) }

func (s *Server) metadata(w http.ResponseWriter, change func(map[string]any), m map[string]any) {
	if change != nil {
		change(m)
	}
	answer(w, http.StatusOK, m)
}

func (s *Server) issuer() map[string]any {
	m := map[string]any{
		"issuer": s.Origin, "authorization_endpoint": s.Origin + "/authorize", "token_endpoint": s.Origin + "/token",
		"revocation_endpoint": s.Origin + "/revoke", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "scopes_supported": []string{"offline_access"},
		"authorization_response_iss_parameter_supported": s.Iss, "client_id_metadata_document_supported": s.Documents,
	}
	if !s.NoRegistration {
		m["registration_endpoint"] = s.Origin + "/register"
	}
	if s.Device {
		m["device_authorization_endpoint"] = s.Origin + "/device"
	}
	return m
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Redirects []string `json:"redirect_uris"`
		Type      string   `json:"application_type"`
		Method    string   `json:"token_endpoint_auth_method"`
		Grants    []string `json:"grant_types"`
	}
	s.note("register")
	if json.NewDecoder(r.Body).Decode(&asked) != nil || len(asked.Redirects) == 0 || asked.Type != "native" || asked.Method != "none" ||
		!slices.Contains(asked.Grants, "refresh_token") {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	id := "dynamic-" + rand.Text()
	s.clients[id] = client{redirects: asked.Redirects}
	answer(w, http.StatusCreated, map[string]any{"client_id": id, "redirect_uris": asked.Redirects, "token_endpoint_auth_method": "none"})
}

// Approve is the person in the browser who opens an authorization address and agrees. It returns
// where the browser is sent.
func (s *Server) Approve(address string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.approve(address)
}

func (s *Server) approve(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	s.note("authorize")
	q := u.Query()
	c, known := s.clients[q.Get("client_id")]
	if document := q.Get("client_id"); !known && s.Documents && strings.HasPrefix(document, "https://") {
		c, known = client{}, true
		s.clients[document] = c
	}
	redirect, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case err != nil || !known:
		return "", fmt.Errorf("client %q, redirect %q", q.Get("client_id"), q.Get("redirect_uri"))
	case c.redirects != nil && !slices.Contains(c.redirects, redirect.String()), c.redirects == nil && redirect.Path != "/callback", redirect.Hostname() != "127.0.0.1":
		return "", fmt.Errorf("redirect %q is not registered", redirect)
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		return "", fmt.Errorf("the request is not OAuth 2.1: %v", q)
	case q.Get("state") == "" || q.Get("resource") == "":
		return "", fmt.Errorf("no state or no resource: %v", q)
	}
	code := s.secret("code")
	s.codes[code] = grant{q.Get("client_id"), redirect.String(), q.Get("code_challenge"), q.Get("resource"), q.Get("scope"), time.Time{}}
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if s.Iss {
		back.Set("iss", s.Origin)
	}
	if s.Answer != nil {
		s.Answer(back)
	}
	redirect.RawQuery = back.Encode()
	return redirect.String(), nil
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	form := r.PostForm
	s.note("token " + form.Get("grant_type"))
	if s.Token != nil && s.Token(w, form) {
		return
	}
	id, known := s.authenticate(r)
	if !known {
		fail(w, "invalid_client")
		return
	}
	var g grant
	var ok bool
	switch form.Get("grant_type") {
	case "authorization_code":
		g, ok = s.codes[form.Get("code")]
		delete(s.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		ok = ok && g.redirect == form.Get("redirect_uri") && g.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
	case "refresh_token":
		g, ok = s.refresh[form.Get("refresh_token")]
		delete(s.refresh, form.Get("refresh_token")) // rotation
	case "urn:ietf:params:oauth:grant-type:device_code":
		d := s.devices[form.Get("device_code")]
		if d == nil {
			break
		}
		d.polls++
		fast := !d.last.IsZero() && time.Since(d.last) < 5*time.Second
		d.last = time.Now()
		if fast {
			fail(w, "slow_down")
			return
		}
		if !d.approved {
			fail(w, "authorization_pending")
			return
		}
		g, ok = d.grant, true
		delete(s.devices, form.Get("device_code"))
	}
	if !ok || g.client != id || g.resource != form.Get("resource") {
		fail(w, "invalid_grant")
		return
	}
	s.issue(w, g)
}

// authenticate returns the client that a request comes from.
func (s *Server) authenticate(r *http.Request) (id string, known bool) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	c, known := s.clients[id]
	return id, known && c.secret == secret
}

func (s *Server) issue(w http.ResponseWriter, g grant) {
	access := s.secret("access")
	m := map[string]any{"access_token": access, "token_type": "bearer", "scope": g.scope}
	if !s.NoRefresh {
		refresh := s.secret("refresh")
		s.refresh[refresh] = g
		m["refresh_token"] = refresh
	}
	if s.Life > 0 {
		m["expires_in"] = int(s.Life / time.Second)
		g.expiry = time.Now().Add(s.Life)
	}
	s.access[access] = g
	answer(w, http.StatusOK, m)
}

func (s *Server) secret(kind string) string { return s.Canary + kind + "-" + rand.Text() }

func (s *Server) startDevice(w http.ResponseWriter, r *http.Request) {
	s.note("device")
	id, known := s.authenticate(r)
	if !known || r.PostForm.Get("resource") == "" {
		fail(w, "invalid_client")
		return
	}
	code := s.secret("device")
	s.devices[code] = &device{grant: grant{client: id, resource: r.PostForm.Get("resource"), scope: r.PostForm.Get("scope")}, user: "WDJB-MJHT"}
	answer(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": s.Origin + "/activate", "expires_in": 600, "interval": 5,
	})
}

// ApproveDevice is the person who enters a code and agrees.
func (s *Server) ApproveDevice(code string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		if d.user == code {
			d.approved = true
			return true
		}
	}
	return false
}

// serve is the protected resource. It returns true if a handler behind it has to answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) bool {
	s.note(strings.ToLower(r.Method) + " " + r.URL.Path)
	g, ok := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	metadata := fmt.Sprintf(`resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, s.Origin)
	need := s.Needs[r.URL.Path]
	switch {
	case !ok || g.resource != s.Origin+"/mcp" || !g.expiry.IsZero() && !time.Now().Before(g.expiry):
		w.Header().Set("WWW-Authenticate", "Bearer "+metadata)
		w.WriteHeader(http.StatusUnauthorized)
	case need != "" && !slices.Contains(strings.Fields(g.scope), need):
		s.Insufficient(w, need)
	case s.Behind != nil:
		r.Header.Set("Granted-Scope", g.scope)
		return true
	default:
		answer(w, http.StatusOK, map[string]any{"scope": g.scope})
	}
	return false
}

// Insufficient answers that a request needs a scope that its token does not have.
func (s *Server) Insufficient(w http.ResponseWriter, scope string) {
	w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q, resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, scope, s.Origin))
	w.WriteHeader(http.StatusForbidden)
}

func answer(w http.ResponseWriter, status int, m map[string]any) {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(m) // the client may have left
}

func fail(w http.ResponseWriter, code string) {
	answer(w, http.StatusBadRequest, map[string]any{"error": code})
}
