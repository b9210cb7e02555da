// Package fakeslack is a fake of Slack for tests. It has the methods of the Web API that the
// bot calls, with their tokens, errors and limits, and Socket Mode. A test can read what was
// posted, press buttons, and make Slack fail.
package fakeslack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tokens that the fake accepts, and the ids that it uses.
const (
	BotToken = "xoxb-1111-2222-fake"
	AppToken = "xapp-1-A0FAKE-fake"
	Team     = "T0FAKE"
	Bot      = "U0FAKEBOT"
	Channel  = "C0FAKEOPS" // named ops; the bot is a member
	Private  = "C0PRIVATE" // the bot is not a member
)

// Message is a posted message in its current state.
type Message struct {
	Channel, TS, Thread string
	Text                string
	Blocks              json.RawMessage
	Versions            int // 1 plus the number of updates
	Posted              time.Time
}

// Ephemeral is a message that was shown to one user.
type Ephemeral struct{ Channel, Thread, User, Text string }

// View is a form that was opened.
type View struct {
	Trigger  string
	Callback string `json:"callback_id"`
	Metadata string `json:"private_metadata"`
	Raw      json.RawMessage
}

// failure makes calls of a method fail.
type failure struct {
	method, code string
	after        int // value of Retry-After in seconds; if set, the status is 429
	dropped      bool
	times        int
}

// Server is a fake Slack. Its methods are safe for concurrent use.
type Server struct {
	http *httptest.Server

	mu         sync.Mutex // guards the fields below
	messages   []*Message
	ephemerals []Ephemeral
	views      []View
	failures   []*failure
	calls      map[string]int
	stamp      int
	sockets    map[*socket]bool
	opened     int
	elsewhere  string // address for new connections; empty for this server
	sent       map[string]*Envelope
}

// New starts a fake Slack on this machine. Close stops it.
func New() *Server {
	s := &Server{calls: map[string]int{}, sockets: map[*socket]bool{}, sent: map[string]*Envelope{}}
	mux := http.NewServeMux()
	for method, answer := range map[string]func(*request) any{
		"auth.test": s.authTest, "chat.postMessage": s.postMessage, "chat.update": s.update, "chat.delete": s.remove,
		"chat.postEphemeral": s.postEphemeral, "views.open": s.openView, "apps.connections.open": s.open,
	} {
		mux.HandleFunc("POST /api/"+method, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, method, answer) })
	}
	mux.HandleFunc("/socket", s.socket)
	s.http = httptest.NewUnstartedServer(mux) // a handler reads s.http
	s.http.Start()
	return s
}

// URL returns the base address of the API.
func (s *Server) URL() string { return s.http.URL + "/api/" }

// Close stops the server and closes every connection.
func (s *Server) Close() {
	s.Disconnect("")
	s.http.Close()
}

// request is one call of a method.
type request struct {
	token  string
	fields func(string) string
	body   []byte
}

// refusal returns a response that is not ok.
func refusal(code string) any { return map[string]any{"ok": false, "error": code} }

func (s *Server) serve(w http.ResponseWriter, r *http.Request, method string, answer func(*request) any) {
	req := &request{token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		req.body, _ = io.ReadAll(r.Body) // a truncated body is invalid JSON
	} else if r.ParseForm() == nil {
		req.fields = r.PostForm.Get
		req.token = req.fields("token")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	want := BotToken
	if method == "apps.connections.open" {
		want = AppToken
	}
	f := s.failing(method)
	switch {
	case f != nil && f.dropped:
		answer(req) // the call is done, but its response is lost
		panic(http.ErrAbortHandler)
	case f != nil && f.after > 0:
		w.Header().Set("Retry-After", fmt.Sprint(f.after))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	var body any
	switch {
	case f != nil:
		body = refusal(f.code)
		if f.code == "missing_scope" {
			body = map[string]any{"ok": false, "error": f.code, "needed": "chat:write", "provided": "connections:write"}
		}
	case req.token == "":
		body = refusal("not_authed")
	case req.token != want && (req.token == BotToken || req.token == AppToken):
		body = refusal("not_allowed_token_type")
	case req.token != want:
		body = refusal("invalid_auth")
	default:
		body = answer(req)
	}
	_ = json.NewEncoder(w).Encode(body) // the caller may have disconnected
}

// failing returns how the next call of a method fails, or nil. s.mu must be held.
func (s *Server) failing(method string) *failure {
	for _, f := range s.failures {
		if f.method == method && f.times > 0 {
			f.times--
			return f
		}
	}
	return nil
}

// Fail makes the next calls of a method return an error code.
func (s *Server) Fail(method, code string, times int) {
	s.fail(&failure{method: method, code: code, times: times})
}

// Limit makes the next calls of a method return status 429.
func (s *Server) Limit(method string, seconds, times int) {
	s.fail(&failure{method: method, after: seconds, times: times})
}

// Drop makes the next calls of a method take effect but lose their responses.
func (s *Server) Drop(method string, times int) {
	s.fail(&failure{method: method, dropped: true, times: times})
}

func (s *Server) fail(f *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, f)
}

func (s *Server) authTest(*request) any {
	return map[string]any{"ok": true, "url": "https://fake.slack.com/", "team": "Fake", "user": "thoughtgate", "team_id": Team, "user_id": Bot, "bot_id": "B0FAKE", "is_enterprise_install": false}
}

// channel returns the id of the named channel, or the error code if it cannot be used.
func channel(named string) (id, refused string) {
	switch named {
	case Channel, "ops", "#ops":
		return Channel, ""
	case Private:
		return "", "not_in_channel"
	}
	return "", "channel_not_found"
}

func (s *Server) postMessage(r *request) any {
	id, refused := channel(r.fields("channel"))
	if refused == "" {
		refused = check(r.fields("text"), r.fields("blocks"))
	}
	thread := r.fields("thread_ts")
	if refused == "" && thread != "" && s.message(id, thread) == nil {
		refused = "thread_not_found"
	}
	if refused != "" {
		return refusal(refused)
	}
	s.stamp++
	m := &Message{
		Channel: id, TS: fmt.Sprintf("1763600000.%06d", s.stamp), Thread: thread, Text: r.fields("text"),
		Blocks: json.RawMessage(r.fields("blocks")), Versions: 1, Posted: time.Now(),
	}
	s.messages = append(s.messages, m)
	return map[string]any{"ok": true, "channel": id, "ts": m.TS, "message": s.payload(m)}
}

func (s *Server) update(r *request) any {
	m := s.message(r.fields("channel"), r.fields("ts"))
	if m == nil {
		return refusal("message_not_found")
	}
	if refused := check(r.fields("text"), r.fields("blocks")); refused != "" {
		return refusal(refused)
	}
	m.Text, m.Blocks = r.fields("text"), json.RawMessage(r.fields("blocks"))
	m.Versions++
	return map[string]any{"ok": true, "channel": m.Channel, "ts": m.TS, "text": m.Text}
}

func (s *Server) remove(r *request) any {
	m := s.message(r.fields("channel"), r.fields("ts"))
	if m == nil {
		return refusal("message_not_found")
	}
	s.messages = slices.DeleteFunc(s.messages, func(other *Message) bool { return other == m })
	return map[string]any{"ok": true, "channel": m.Channel, "ts": m.TS}
}

func (s *Server) postEphemeral(r *request) any {
	id, refused := channel(r.fields("channel"))
	if refused == "" {
		refused = check(r.fields("text"), r.fields("blocks"))
	}
	if refused != "" {
		return refusal(refused)
	}
	s.ephemerals = append(s.ephemerals, Ephemeral{id, r.fields("thread_ts"), r.fields("user"), r.fields("text")})
	return map[string]any{"ok": true, "message_ts": "1763600000.999999"}
}

func (s *Server) openView(r *request) any {
	var in struct {
		Trigger string          `json:"trigger_id"`
		View    json.RawMessage `json:"view"`
	}
	var v View
	if json.Unmarshal(r.body, &in) != nil || json.Unmarshal(in.View, &v) != nil {
		return refusal("invalid_arguments")
	}
	v.Trigger, v.Raw = in.Trigger, in.View
	s.views = append(s.views, v)
	return map[string]any{"ok": true, "view": map[string]any{"id": "V0FAKE", "type": "modal"}}
}

// message returns the message at channel and ts, or nil. s.mu must be held.
func (s *Server) message(channel, ts string) *Message {
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts {
			return m
		}
	}
	return nil
}
