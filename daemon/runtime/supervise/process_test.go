package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

func TestRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, nil)
		if s := h.Status(); s.State != Starting && s.State != Running {
			t.Errorf("at first: %v", s.State)
		}
		c, err := h.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.ask(t.Context(), "ping"); err != nil || got != "ping" {
			t.Errorf("%q, %v", got, err)
		}
		if s := h.Status(); s.State != Running || s.PID != 100 || s.Budget != 3 || s.Restarts != 0 || s.Err != nil {
			t.Errorf("status %+v", s)
		}
		h.close()
		if got, want := h.states(), "running stopped"; got != want {
			t.Errorf("states %s, want %s", got, want)
		}
		if got := h.life(1).stops; len(got) != 1 || got[0] != child.OurGrace {
			t.Errorf("stopped with %v", got)
		}
		if _, err := h.Conn(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: %v, want ErrStopped", err)
		}
		if err := h.Run(t.Context()); err == nil {
			t.Error("a second Run was taken")
		}
	})
}

func TestRestartsWithBackoffUntilTheBudgetIsSpent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, func(o *Options[*talk], h *fixture) { o.Policy.Restarts = 5 })
		for n := range 6 {
			if _, err := h.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(h.life(n+1).errs, "trouble %d\n\n", n)
			h.life(n + 1).exit(child.State{Code: 3})
			synctest.Wait()
		}
		_, err := h.Conn(t.Context())
		if want := `extension "x" ended: exit status 3; its last output: trouble 5`; !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want ErrFailed and %q", err, want)
		}
		if exit := new(ExitError); !errors.As(err, &exit) || exit.State.Code != 3 {
			t.Errorf("error %v does not tell the exit status", err)
		}
		for i, most := range []time.Duration{1, 2, 4, 4, 4} {
			wait := h.born[i+1].Sub(h.born[i])
			if most *= time.Second; wait > most || wait <= most/2 {
				t.Errorf("wait %d was %v, want more than %v and at most %v", i+1, wait, most/2, most)
			}
		}
		if s := h.Status(); s.State != Failed || s.Restarts != 5 || s.Budget != 0 || s.PID != 0 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Hour)
		if h.count() != 6 {
			t.Errorf("%d lives after the budget was spent", h.count())
		}
		h.close()
		if got, want := h.states(), "running"+strings.Repeat(" restarting degraded", 5)+" restarting failed stopped"; got != want {
			t.Errorf("states %s\nwant   %s", got, want)
		}
	})
}

func TestAStableLifeGivesTheBudgetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, nil)
		n := 0
		die := func(after time.Duration) {
			t.Helper()
			if _, err := h.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after)
			n++
			h.life(n).exit(child.State{Signal: syscall.SIGSEGV})
			synctest.Wait()
		}
		for range 3 {
			die(59 * time.Second)
		}
		if s := h.Status(); s.State != Restarting || s.Budget != 0 || !s.Next.After(time.Now()) || time.Until(s.Next) > 4*time.Second {
			t.Errorf("status %+v", s)
		}
		if _, err := h.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := h.Status(); s.State != Degraded || s.Err == nil || s.Budget != 0 {
			t.Errorf("a life after three that ended: %+v", s)
		}
		time.Sleep(61 * time.Second)
		if s := h.Status(); s.State != Running || s.Err != nil || s.Budget != 3 {
			t.Errorf("after a minute: %+v", s)
		}
		for range 3 {
			die(0)
		}
		if s := h.Status(); s.State != Restarting {
			t.Errorf("status %+v", s)
		}
		h.close()
	})
}

func TestHandshake(t *testing.T) {
	for _, test := range []struct {
		name   string
		script script
		lives  int
		says   string
		takes  time.Duration
	}{
		{"another protocol: at once, and for good", func(f *fakeProgram, line string) { fmt.Fprintln(f.out, "hello/2") }, 1, `handshake: it says "hello/2"`, 0},
		{"silent: after ten seconds, each time", func(*fakeProgram, string) {}, 4, "handshake: no answer within 10s", 40 * time.Second},
		{"exits instead", func(f *fakeProgram, _ string) {
			fmt.Fprintln(f.errs, "cannot find libx.so")
			f.exit(child.State{Code: 1})
		}, 4, "ended: exit status 1; its last output: cannot find libx.so", 0},
		{"closes its output and stays", func(f *fakeProgram, _ string) { f.out.Close() }, 4, "handshake: ", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := keep(t, func(_ *Options[*talk], h *fixture) { h.script = test.script })
				began := time.Now()
				_, err := h.Conn(t.Context())
				if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("error %v, want ErrFailed and %q", err, test.says)
				}
				if took := time.Since(began); took < test.takes {
					t.Errorf("it took %v, want %v and the waits", took, test.takes)
				}
				if h.count() != test.lives {
					t.Errorf("%d lives, want %d", h.count(), test.lives)
				}
				if strings.Contains(h.states(), "running") || strings.Contains(h.states(), "degraded") {
					t.Errorf("it was said to run: %s", h.states())
				}
				h.close()
			})
		})
	}
}

func TestStartErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, func(_ *Options[*talk], h *fixture) { h.failing = child.ErrNotFound })
		if _, err := h.Conn(t.Context()); !errors.Is(err, child.ErrNotFound) || !errors.Is(err, ErrFailed) {
			t.Errorf("error %v", err)
		}
		if len(h.born) != 4 {
			t.Errorf("it was tried %d times, want 4", len(h.born))
		}
		h.close()
	})
	bubble(t, func(t *testing.T) {
		secret := errors.New("secret is missing")
		h := keep(t, func(o *Options[*talk], _ *fixture) {
			o.Spec = func() (child.Spec, error) { return child.Spec{}, Permanent(secret) }
		})
		if _, err := h.Conn(t.Context()); !errors.Is(err, secret) || h.Status().Restarts != 0 {
			t.Errorf("error %v after %d restarts", err, h.Status().Restarts)
		}
		h.close()
	})
}

// The connection ends although the program doesn't: the program is stopped and restarted.
func TestConversationThatEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, nil)
		if _, err := h.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.life(1).out.CloseWithError(errors.New("garbage"))
		synctest.Wait()
		time.Sleep(3 * time.Second) // it gets time to exit by itself
		if _, err := h.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := h.Status(); s.Restarts != 1 || !strings.Contains(fmt.Sprint(s.Err), "the conversation ended: garbage") {
			t.Errorf("status %+v", s)
		}
		if len(h.life(1).stops) != 1 {
			t.Error("the first program was not stopped")
		}
		h.close()
	})
}

// Ended is called for each life, however it ended.
func TestEndsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ends []string
		h := keep(t, func(o *Options[*talk], h *fixture) {
			o.Ended = func(how *child.State) {
				h.mu.Lock()
				defer h.mu.Unlock()
				if how == nil {
					how = &child.State{Code: -1}
				}
				ends = append(ends, fmt.Sprint(how.Code, how.Signal))
			}
		})
		for _, end := range []child.State{{Code: 2}, {Signal: syscall.SIGKILL}} {
			if _, err := h.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.life(len(h.lives)).exit(end)
			synctest.Wait()
		}
		if _, err := h.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		h.failing = child.ErrNotFound
		h.mu.Unlock()
		h.life(len(h.lives)).exit(child.State{Code: 3})
		synctest.Wait()
		if _, err := h.Conn(t.Context()); !errors.Is(err, ErrFailed) {
			t.Errorf("error %v", err)
		}
		h.close()
		want := fmt.Sprint([]string{
			fmt.Sprint(2, syscall.Signal(0)), fmt.Sprint(0, syscall.SIGKILL), fmt.Sprint(0, syscall.Signal(0)), fmt.Sprint(3, syscall.Signal(0)),
		})
		lost := fmt.Sprint(-1, syscall.Signal(0))
		if n := len(ends); n < 5 || fmt.Sprint(ends[:4]) != want || slices.ContainsFunc(ends[4:], func(end string) bool { return end != lost }) {
			t.Errorf("the ends were %q, want %s and then %q", ends, want, lost)
		}
	})
}

func TestSingleLife(t *testing.T) {
	for _, test := range []struct {
		name  string
		state child.State
		err   string
		final State
	}{
		{"in order", child.State{}, "", Stopped},
		{"with a status", child.State{Code: 2}, "ended: exit status 2", Failed},
		{"by a signal", child.State{Signal: syscall.SIGKILL}, "ended: killed by SIGKILL", Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := keep(t, func(o *Options[*talk], _ *fixture) { o.Policy = Policy{} })
				if _, err := h.Conn(t.Context()); err != nil {
					t.Fatal(err)
				}
				h.life(1).exit(test.state)
				err := <-h.ended
				if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
					t.Errorf("Run: %v, want %q", err, test.err)
				}
				if got := h.Status().State; got != test.final {
					t.Errorf("state %v, want %v", got, test.final)
				}
				if err := h.Restart(t.Context()); err == nil {
					t.Error("it was restarted")
				}
			})
		})
	}
}

func TestConnWaitsAndGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, func(_ *Options[*talk], h *fixture) { h.script = func(*fakeProgram, string) {} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Conn(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "which is starting") {
			t.Errorf("error %v", err)
		}
		h.close()
	})
}

func TestDelay(t *testing.T) {
	p := Policy{First: 100 * time.Millisecond, Most: time.Second}
	var got []time.Duration
	for n := range 6 {
		got = append(got, p.delay(n+1, 0))
	}
	want := []time.Duration{100, 200, 400, 800, 1000, 1000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(got, want) {
		t.Errorf("delays %v, want %v", got, want)
	}
	if got := p.delay(1, 0.5); got != 75*time.Millisecond {
		t.Errorf("half the jitter: %v, want 75ms", got)
	}
	if got := p.delay(1<<40, 0.999); got < 500*time.Millisecond {
		t.Errorf("the longest wait: %v", got)
	}
	if b := (&budget{policy: Policy{}.withDefaults()}); b.policy.First != 250*time.Millisecond || b.policy.Stable != time.Minute {
		t.Errorf("defaults %+v", b.policy)
	}
}

// The log shows how long a start took: that of the program, and the handshake.
func TestStartIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log strings.Builder // written only before the life is published
		h := keep(t, func(o *Options[*talk], _ *fixture) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			spec, greet := o.Spec, o.Handshake
			o.Spec = func() (child.Spec, error) {
				time.Sleep(3 * time.Millisecond)
				return spec()
			}
			o.Handshake = func(ctx context.Context, c *talk) error {
				time.Sleep(40 * time.Millisecond)
				return greet(ctx, c)
			}
		})
		if _, err := h.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := log.String(), `msg="the program runs" process="extension \"x\"" pid=100 spawn=3ms handshake=40ms`; !strings.Contains(got, want) {
			t.Errorf("the log is %q, want %s", got, want)
		}
		h.close()
	})
}
