package remote

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// tokens authorizes with each of its tokens in turn.
type tokens struct {
	mu     sync.Mutex // guards the fields below
	left   []string
	err    error // where none is left
	seen   []int // statuses of answers
	failed error // of challenged
	closed atomic.Int32
}

func (a *tokens) Authorize(r *http.Request) (func(int, http.Header) (bool, error), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.left) == 0 {
		return nil, a.err
	}
	r.Header.Set("Authorization", "Bearer "+a.left[0])
	return func(status int, _ http.Header) (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seen, a.left = append(a.seen, status), a.left[1:]
		return true, a.failed
	}, nil
}

func (a *tokens) Close() { a.closed.Add(1) }

// A request is authorized, and again if the server wants something else, as after a renewal, a login, and a login for
// more scopes. What can't be authorized is not sent. The authorizer is closed with the connection.
func TestAuthorize(t *testing.T) {
	for name, test := range map[string]struct {
		tokens *tokens
		sent   []string // what authorized the requests
		err    string   // empty: the answer is the server's
	}{
		"at once":                {&tokens{left: []string{"good"}}, []string{"Bearer good"}, ""},
		"the second time":        {&tokens{left: []string{"bad", "good"}}, []string{"Bearer bad", "Bearer good"}, ""},
		"the fourth time":        {&tokens{left: []string{"", "bad", "few", "good"}}, []string{"Bearer", "Bearer bad", "Bearer few", "Bearer good"}, ""},
		"never a fifth time":     {&tokens{left: []string{"bad", "bad", "bad", "bad", "good"}}, []string{"Bearer bad", "Bearer bad", "Bearer bad", "Bearer bad"}, "401 Unauthorized"},
		"nobody has logged in":   {&tokens{err: errors.New("log in with: tgctl login github")}, nil, "the request was not executed: it could not be authorized: log in with: tgctl login github"},
		"a person has to log in": {&tokens{left: []string{"bad", "good"}, failed: errors.New("it wants more scopes")}, []string{"Bearer bad"}, "it wants more scopes"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var sent []string
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				mu.Lock()
				sent = append(sent, r.Header.Get("Authorization"))
				mu.Unlock()
				if r.Header.Get("Authorization") != "Bearer good" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
			}))
			defer h.Close()
			a := connect(t, Server{Address: h.URL, Policy: Named, Authorizer: test.tokens})
			a.write(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			if test.err == "" {
				a.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			} else {
				a.expectError("1", test.err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(sent, test.sent) {
				t.Errorf("sent with %q, want %q", sent, test.sent)
			}
			a.conn.Leave()
			for test.tokens.closed.Load() == 0 {
				runtime.Gosched()
			}
		})
	}
}

// A connection knows whether its server answers.
func TestState(t *testing.T) {
	var works atomic.Bool
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	}))
	defer h.Close()
	a := connect(t, Server{Address: h.URL, Policy: Named})
	if answered, err := a.conn.State(); answered || err != nil {
		t.Errorf("at first %v, %v", answered, err)
	}
	a.write(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	a.expectError("1", "500")
	if answered, err := a.conn.State(); answered || err == nil {
		t.Errorf("after an error %v, %v", answered, err)
	}
	works.Store(true)
	a.write(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	a.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if answered, err := a.conn.State(); !answered || err != nil {
		t.Errorf("after an answer %v, %v", answered, err)
	}
}
