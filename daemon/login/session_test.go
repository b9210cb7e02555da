package login

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// desk is where questions of logins are asked.
type desk struct {
	mu        sync.Mutex
	asked     []Asking
	questions []*asked
}

type asked struct {
	answers   chan error
	by        By
	withdrawn bool
}

func (d *desk) ask(_ context.Context, a Asking) (Question, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := &asked{answers: make(chan error, 1)}
	d.asked, d.questions = append(d.asked, a), append(d.questions, q)
	return q, nil
}

func (q *asked) Wait(ctx context.Context) error {
	select {
	case err := <-q.answers:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *asked) LoggedIn(by By) { q.by = by; q.answers <- nil }
func (q *asked) Withdraw()      { q.withdrawn = true; q.answers <- errors.New("withdrawn") }

// post sends a message of an agent as a transport does.
func (w *world) post(ctx context.Context, s *Session, path string) (int, error) {
	for range 4 {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, origin+path, nil)
		refused, err := s.Authorize(r)
		if w.heard(err) != nil {
			return 0, err
		}
		answer, err := w.http.Do(r)
		if err != nil {
			return 0, err
		}
		answer.Body.Close()
		if answer.StatusCode < 400 {
			return answer.StatusCode, nil
		}
		if again, err := refused(answer.StatusCode, answer.Header); w.heard(err) != nil || !again {
			return answer.StatusCode, err
		}
	}
	return 0, errors.New("it is refused again and again")
}

// atDesk runs a test with a desk on a clock of its own. Nobody is logged in.
func atDesk(t *testing.T, test func(t *testing.T, w *world, d *desk, open func() *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		w := newWorld(t, func(w *world) {
			w.server.Device = true
			w.server.Needs = map[string]string{"/mcp/write": "write"}
			w.Ask = d.ask
		})
		test(t, w, d, func() *Session {
			s, err := w.Session(w.place(), Asking{Session: "s", Agent: "claude-code", Patience: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
}

// The first calls of twenty sessions are one question, and all go on after one login.
func TestFirstCallsWait(t *testing.T) {
	atDesk(t, func(t *testing.T, w *world, d *desk, open func() *Session) {
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				s := open()
				defer s.Close()
				if status, err := w.post(t.Context(), s, "/mcp"); status != http.StatusOK || err != nil {
					t.Errorf("after the login: %d, %v", status, err)
				}
			})
		}
		synctest.Wait()
		if len(d.asked) != 1 || d.asked[0].Server.ID != "github" || d.asked[0].Agent != "claude-code" || d.asked[0].Resource != resource {
			t.Fatalf("asked %+v", d.asked)
		}
		if st, err := w.Status(resource); err != nil || st.Phase != Wanted || st.Reason != "nobody has logged in" {
			t.Errorf("while it waits: %+v, %v", st, err)
		}
		how := w.byCode()
		how.By = By{"pid 7", "terminal"}
		if _, err := w.Login(t.Context(), w.place(), how); err != nil {
			t.Fatal(err)
		}
		calls.Wait()
		if by := d.questions[0].by; by != how.By || d.questions[0].withdrawn {
			t.Errorf("the question was answered by %v", by)
		}
		if st, _ := w.Status(resource); st.Phase != Ready || st.Issuer != origin || !st.Renews || st.Reason != "" {
			t.Errorf("after the login: %+v", st)
		}
	})
}

// Who denies the question, or lets it expire, denies all calls that wait; the next call asks again.
func TestDeniedLogin(t *testing.T) {
	atDesk(t, func(t *testing.T, w *world, d *desk, open func() *Session) {
		s := open()
		defer s.Close()
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := w.post(t.Context(), s, "/mcp")
				ended <- err
			}()
		}
		synctest.Wait()
		d.questions[0].answers <- errors.New("a person denied it")
		for range 2 {
			if err := <-ended; !errors.Is(err, ErrLoginNeeded) || !strings.Contains(err.Error(), "denied") || !strings.Contains(err.Error(), "tgctl login github") {
				t.Errorf("after a denial: %v", err)
			}
		}
		if st, _ := w.Status(resource); st.Phase != Wanted {
			t.Errorf("after a denial: %+v", st)
		}
		go func() {
			_, err := w.post(t.Context(), s, "/mcp")
			ended <- err
		}()
		synctest.Wait()
		if len(d.asked) != 2 {
			t.Errorf("asked %d times", len(d.asked))
		}
		d.questions[1].answers <- errors.New("expired")
		<-ended
	})
}

// An agent that waits no longer gets an error that says what to do, and the question stays.
func TestImpatientAgent(t *testing.T) {
	atDesk(t, func(t *testing.T, w *world, d *desk, open func() *Session) {
		s := open()
		start := time.Now()
		_, err := w.post(t.Context(), s, "/mcp")
		if want := "server github needs a login: nobody has logged in; log in with: tgctl login github, and repeat the call"; err == nil || err.Error() != want {
			t.Errorf("the agent gets %v, want %s", err, want)
		}
		if waited := time.Since(start); waited != time.Minute || d.questions[0].withdrawn {
			t.Errorf("it waited for %s; withdrawn: %v", waited, d.questions[0].withdrawn)
		}
		if _, err := w.Login(t.Context(), w.place(), w.byCode()); err != nil {
			t.Fatal(err)
		}
		if status, err := w.post(t.Context(), s, "/mcp"); status != http.StatusOK || err != nil || len(d.asked) != 1 {
			t.Errorf("the repeated call: %d, %v; asked %d times", status, err, len(d.asked))
		}
		s.Close()
	})
}

// With the last session the question ends, not before.
func TestSessionsLeave(t *testing.T) {
	atDesk(t, func(t *testing.T, w *world, d *desk, open func() *Session) {
		one, two := open(), open()
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := w.post(ctx, one, "/mcp")
			ended <- err
		}()
		synctest.Wait()
		cancel(errors.New("the agent has left"))
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "the agent has left") {
			t.Errorf("a request that was left: %v", err)
		}
		one.Close()
		if d.questions[0].withdrawn {
			t.Error("the question of two sessions ends with one")
		}
		two.Close()
		synctest.Wait()
		if st, _ := w.Status(resource); !d.questions[0].withdrawn || st.Phase != NotUsed {
			t.Errorf("withdrawn %v, %+v", d.questions[0].withdrawn, st)
		}
	})
}

// More scopes, and a login that its issuer has ended, are questions like the first login. A request that is
// no message of the agent never asks.
func TestLaterQuestions(t *testing.T) {
	atDesk(t, func(t *testing.T, w *world, d *desk, open func() *Session) {
		s := open()
		defer s.Close()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, resource, nil)
		if refused, err := s.Authorize(r); err != nil {
			t.Error(err)
		} else if again, err := refused(http.StatusUnauthorized, http.Header{}); again || !errors.Is(err, ErrLoginNeeded) || len(d.asked) > 0 {
			t.Errorf("a GET: again %v, %v; asked %d times", again, err, len(d.asked))
		}
		for i, path := range []string{"/mcp", "/mcp/write", "/mcp"} {
			if i == 2 {
				w.server.Revoke(true)
				time.Sleep(time.Minute)
			}
			ended := make(chan error)
			go func() {
				_, err := w.post(t.Context(), s, path)
				ended <- err
			}()
			synctest.Wait()
			if len(d.asked) != i+1 {
				t.Fatalf("%s: asked %d times: %+v", path, len(d.asked), d.asked)
			}
			if _, err := w.Login(t.Context(), w.place(), w.byCode()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("%s after the login: %v", path, err)
			}
		}
		for i, want := range []string{"nobody has logged in", "more scopes: write", "has ended the login"} {
			if got := d.asked[i].Reason; !strings.Contains(got, want) {
				t.Errorf("question %d: %s, want %s", i, got, want)
			}
		}
	})
}

// A daemon that ends leaves the question to the next one.
func TestDaemonEnds(t *testing.T) {
	atDesk(t, func(t *testing.T, w *world, d *desk, open func() *Session) {
		s := open()
		ended := make(chan error)
		go func() {
			_, err := w.post(t.Context(), s, "/mcp")
			ended <- err
		}()
		synctest.Wait()
		w.Close()
		if err := <-ended; err == nil || d.questions[0].withdrawn {
			t.Errorf("a call gets %v; withdrawn %v", err, d.questions[0].withdrawn)
		}
		w.Logins = New(w.Options) // which the test closes
	})
}
