package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
)

// bubble runs a test on a clock of its own, with a person who is logged in by a code.
func bubble(t *testing.T, configure func(w *world), test func(t *testing.T, w *world, s *Source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) {
			w.server.Device = true
			if configure != nil {
				configure(w)
			}
		})
		if _, err := w.Login(t.Context(), w.place(), w.byCode()); err != nil {
			t.Fatal(err)
		}
		test(t, w, w.source())
	})
}

// byCode is a person who enters the code after a while.
func (w *world) byCode() How {
	return How{NoBrowser: true, Show: func(_ context.Context, p Prompt) error {
		w.note(p)
		time.AfterFunc(12*time.Second, func() { w.server.ApproveDevice(p.Code) })
		return nil
	}}
}

func TestDevice(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		if p := w.prompts[0]; p.Code != "WDJB-MJHT" || p.Address != origin+"/activate" || p.Host != "mcp.example" {
			t.Errorf("the person was shown %+v", p)
		}
		if n := w.server.Count("token"); n != 3 { // after 5, 10 and 15 s
			t.Errorf("the issuer was asked %d times", n)
		}
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("after the login: %d, %v", status, err)
		}
	})
}

// The issuer wants to be asked less often, can't be reached for a while, and at last the code expires.
func TestDevicePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		start := time.Now()
		w := newWorld(t, func(w *world) {
			w.server.Device = true
			w.server.Token = func(rw http.ResponseWriter, _ url.Values) bool {
				switch asked = append(asked, time.Since(start)); len(asked) {
				case 1:
					return answerWith(400, "application/json", `{"error":"slow_down"}`)(rw, nil)
				case 2:
					return answerWith(503, "text/html", "later")(rw, nil)
				}
				return answerWith(400, "application/json", `{"error":"authorization_pending"}`)(rw, nil)
			}
		})
		how := w.byCode()
		_, err := w.Login(t.Context(), w.place(), how)
		if w.heard(err) == nil || !strings.Contains(err.Error(), "log in again") {
			t.Errorf("the login: %v", err)
		}
		if want := []time.Duration{5 * time.Second, 15 * time.Second, 35 * time.Second}; !slices.Equal(asked[:3], want) {
			t.Errorf("asked after %v, want %v", asked[:3], want)
		}
		if took := time.Since(start); took != 10*time.Minute {
			t.Errorf("the login took %v", took)
		}
	})
	for answer, want := range map[string]string{`{"error":"access_denied"}`: "access_denied", `{"error":"expired_token"}`: "expired_token"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.server.Device, w.server.Token = true, answerWith(400, "application/json", answer) })
			if _, err := w.Login(t.Context(), w.place(), w.byCode()); w.heard(err) == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", answer, err)
			}
		})
	}
}

// Codes and addresses that nobody should be shown.
func TestDeviceAnswers(t *testing.T) {
	const good = `"device_code":"d","user_code":"AB CD","verification_uri":"https://mcp.example/activate","expires_in":600`
	for answer, want := range map[string]string{
		`{` + good + `}`: "not shown",
		`{"device_code":"d","user_code":"AB","verification_uri":"http://mcp.example/x","expires_in":600}`:                         "https://",
		`{"device_code":"d","user_code":"AB","verification_uri":"javascript:alert(1)","expires_in":600}`:                          "must have a host",
		`{"device_code":"d","user_code":"\u202eAB","verification_uri":"https://mcp.example/x","expires_in":600}`:                  "no code",
		`{"device_code":"d","user_code":"` + strings.Repeat("A", 99) + `","verification_uri":"https://a.example","expires_in":1}`: "no code",
		`{"device_code":"d","user_code":"","verification_uri":"https://mcp.example/x","expires_in":600}`:                          "no code",
		`{"user_code":"AB","verification_uri":"https://mcp.example/x","expires_in":600}`:                                          "no code",
		`{"device_code":"d","user_code":"AB","verification_uri":"https://mcp.example/x"}`:                                         "no code",
		`{"error":"invalid_scope"}`: "no",
	} {
		w := newWorld(t, func(w *world) { w.server.Device = true })
		w.intercept(nil, map[string]func(http.ResponseWriter, url.Values) bool{"/device": answerWith(200, "application/json", answer)})
		how := How{NoBrowser: true, Show: func(context.Context, Prompt) error { return errors.New("not shown") }}
		if _, err := w.Login(t.Context(), w.place(), how); w.heard(err) == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
	}
}

// Twenty calls at once have a token renewed ahead of its end, by one request, and none waits for its end.
func TestRenewedOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		before := w.server.Count("token")
		time.Sleep(52 * time.Minute)
		if _, err := s.Token(t.Context()); err != nil || w.server.Count("token") != before {
			t.Fatalf("renewed too early, or %v", err)
		}
		time.Sleep(3*time.Minute + time.Second) // the lead of an hour's token is five minutes, and half of it at random
		var wg sync.WaitGroup
		tokens := make([]Token, 20)
		for i := range tokens {
			wg.Go(func() {
				src, err := w.Source(w.place()) // each in its own session
				if err == nil {
					tokens[i], err = src.Token(t.Context())
				}
				if w.heard(err) != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := w.server.Count("token refresh_token"); n != 1 {
			t.Errorf("%d renewals, want 1", n)
		}
		for _, token := range tokens {
			if !token.access.Equal(tokens[0].access) || token.access.IsZero() {
				t.Error("two callers have different tokens")
			}
		}
		time.Sleep(20 * time.Minute) // the first one would have ended
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("after the renewal: %d, %v", status, err)
		}
		stored, err := w.Store.Get(t.Context(), resource)
		if err != nil || !stored.Access.Equal(tokens[0].access) {
			t.Errorf("the renewed token is not stored: %v", err)
		}
		// And again, which takes the replaced refresh token.
		time.Sleep(40 * time.Minute)
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("after the second renewal: %d, %v", status, err)
		}
	})
}

// A caller that leaves takes nothing from the others, and the replaced refresh token is stored.
func TestCallerLeaves(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		ctx, cancel := context.WithCancel(t.Context())
		next := w.http.Transport
		s.server.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			cancel()
			time.Sleep(3 * time.Second)
			return next.RoundTrip(r)
		})}
		s, err := w.Source(s.server)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := s.Token(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left got %v", err)
		}
		w.Close() // waits
		stored, err := w.Store.Get(t.Context(), resource)
		if err != nil || w.server.Count("token refresh_token") != 1 || time.Until(stored.Expiry) < 50*time.Minute {
			t.Errorf("the renewed token is not stored: %v, %v", stored, err)
		}
		time.Sleep(time.Hour)
		if _, err := s.Token(t.Context()); err == nil {
			t.Error("renewed after Close")
		}
		w.Logins = New(w.Options)
	})
}

// The server or the issuer ends a login.
func TestRevoked(t *testing.T) {
	// The token alone: it is renewed, and the call made once more.
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		time.Sleep(time.Minute)
		w.server.Revoke(false)
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("%d, %v", status, err)
		}
		// A server that rejects the new one, too, does not have it renewed for each call.
		w.server.Revoke(false)
		for range 5 {
			if status, err := w.call(s, "/mcp"); status != http.StatusUnauthorized || !errors.Is(err, ErrLoginNeeded) {
				t.Errorf("%d, %v", status, err)
			}
		}
		if n := w.server.Count("token refresh_token"); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
	// All of it: a person has to log in.
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		var told []string
		w.Ended = func(_ context.Context, s Server, issuer string) { told = append(told, s.ID+" "+issuer) }
		time.Sleep(time.Minute)
		w.server.Revoke(true)
		for range 3 {
			if _, err := w.call(s, "/mcp"); !errors.Is(err, ErrLoginNeeded) || !strings.Contains(err.Error(), "tgctl login github") {
				t.Errorf("%v", err)
			}
		}
		if _, err := w.Store.Get(t.Context(), resource); !errors.Is(err, vault.ErrNotFound) || w.server.Count("token refresh_token") != 1 {
			t.Errorf("the ended login is still stored, or was tried again: %v", err)
		}
		if len(told) != 1 || told[0] != "github "+origin {
			t.Errorf("told of the end: %q", told)
		}
		if _, err := w.Login(t.Context(), w.place(), w.byCode()); err != nil {
			t.Fatal(err)
		}
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("after the next login: %d, %v", status, err)
		}
	})
	// The client is unknown: the login stays, in case that is a mistake.
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		time.Sleep(2 * time.Hour)
		w.server.Token = answerWith(401, "application/json", `{"error":"invalid_client","error_description":"`+canary+`"}`)
		if _, err := w.call(s, "/mcp"); !errors.Is(err, ErrLoginNeeded) {
			t.Errorf("%v", err)
		}
		if _, err := w.Store.Get(t.Context(), resource); err != nil {
			t.Error(err)
		}
	})
	// A token that lives shortly is renewed in time all the same.
	bubble(t, func(w *world) { w.server.Life = 8 * time.Second }, func(t *testing.T, w *world, s *Source) {
		for range 20 {
			time.Sleep(time.Second)
			if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
				t.Errorf("%d, %v", status, err)
			}
		}
		if n := w.server.Count("token refresh_token"); n < 2 || n > 4 {
			t.Errorf("%d renewals", n)
		}
	})
	// A token that can't be renewed.
	bubble(t, func(w *world) { w.server.NoRefresh = true }, func(t *testing.T, w *world, s *Source) {
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("%d, %v", status, err)
		}
		time.Sleep(time.Hour - 5*time.Second)
		if _, err := w.call(s, "/mcp"); !errors.Is(err, ErrLoginNeeded) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("%v", err)
		}
	})
}

// An issuer that can't be reached costs neither the login nor the token that is still valid, and is not
// asked for each call.
func TestIssuerAway(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		away := answerWith(503, "text/html", canary)
		asked := 0
		w.server.Token = func(rw http.ResponseWriter, form url.Values) bool { asked++; return away(rw, form) }
		time.Sleep(56 * time.Minute)
		for range 10 {
			if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
				t.Errorf("while the token is valid: %d, %v", status, err)
			}
		}
		time.Sleep(10 * time.Minute)
		for range 10 {
			if _, err := w.call(s, "/mcp"); err == nil || errors.Is(err, ErrLoginNeeded) || !strings.Contains(err.Error(), "503") {
				t.Errorf("after its end: %v", err)
			}
		}
		if asked != 2 {
			t.Errorf("the issuer was asked %d times, want 2", asked)
		}
		w.server.Token = nil
		time.Sleep(time.Minute)
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("when it is back: %d, %v", status, err)
		}
	})
}

// A renewed token is stored before it is used, and is not lost if that takes a second try.
func TestStoredBeforeUse(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, s *Source) {
		full := &fullStore{Store: w.Store, err: errors.New("the disk is full")}
		w.Store = full
		time.Sleep(2 * time.Hour)
		for range 3 {
			if _, err := w.call(s, "/mcp"); err == nil || !strings.Contains(err.Error(), "disk is full") {
				t.Errorf("%v", err)
			}
		}
		full.err = nil
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("with space again: %d, %v", status, err)
		}
		if n := w.server.Count("token refresh_token"); n != 1 {
			t.Errorf("%d renewals, want 1", n)
		}
	})
}

type fullStore struct {
	Store
	err error
}

func (f *fullStore) Put(ctx context.Context, l *vault.Login) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.Put(ctx, l)
}

// A keyring that is locked when the first token is wanted is asked again for the next one.
func TestStoreAway(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, _ *Source) {
		away := &awayStore{Store: w.Store, err: errors.New("the keyring is locked")}
		w.Store = away
		w.Logins = New(w.Options)
		s := w.source()
		if _, err := w.call(s, "/mcp"); err == nil || errors.Is(err, ErrLoginNeeded) {
			t.Errorf("%v", err)
		}
		away.err = vault.ErrKeyLost
		if _, err := w.call(s, "/mcp"); !errors.Is(err, ErrLoginNeeded) {
			t.Errorf("%v", err)
		}
		away.err = nil
		if status, err := w.call(s, "/mcp"); status != http.StatusOK || err != nil {
			t.Errorf("%d, %v", status, err)
		}
	})
}

type awayStore struct {
	Store
	err error
}

func (a *awayStore) Get(ctx context.Context, resource string) (*vault.Login, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.Store.Get(ctx, resource)
}
