package supervise

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var farewells int
		h := keep(t, func(o *Options[*talk], _ *fixture) {
			o.Farewell = func(context.Context, *talk) { farewells++ }
		})
		c, err := h.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// While it runs: another life, without using the budget.
		began := time.Now()
		if err := h.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		next, err := h.Conn(t.Context())
		if err != nil || next == c || farewells != 1 {
			t.Errorf("the same conversation %v, %v; %d farewells", next == c, err, farewells)
		}
		if s := h.Status(); s.State != Running || s.Budget != 3 || s.Restarts != 1 {
			t.Errorf("status %+v", s)
		}
		// While it waits to be restarted: at once.
		h.life(2).exit(child.State{Code: 1})
		synctest.Wait()
		if err := h.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second/2 {
			t.Errorf("the restarts took %v", took)
		}
		// After it has failed: with the whole budget.
		for n := 3; n <= 6; n++ {
			if _, err := h.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.life(n).exit(child.State{Code: 1})
			synctest.Wait()
		}
		if got := h.Status().State; got != Failed {
			t.Fatalf("state %v, want failed", got)
		}
		if err := h.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := h.Status(); s.State != Running || s.Budget != 3 {
			t.Errorf("status %+v", s)
		}
		// If it fails again, Restart returns why.
		h.mu.Lock()
		h.failing = child.ErrNotExecutable
		h.mu.Unlock()
		if err := h.Restart(t.Context()); !errors.Is(err, child.ErrNotExecutable) || !errors.Is(err, ErrFailed) {
			t.Errorf("restart: %v", err)
		}
		if err := h.Restart(t.Context()); !errors.Is(err, ErrFailed) {
			t.Errorf("second restart: %v", err)
		}
		h.close()
		if err := h.Restart(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("restart after the end: %v, want ErrStopped", err)
		}
	})
}

// A restart that is requested during a handshake starts another life: what is to be started may
// have changed since this one started.
func TestRestartDuringTheHandshake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		greet := make(chan struct{})
		h := keep(t, func(o *Options[*talk], _ *fixture) {
			o.Handshake = func(ctx context.Context, _ *talk) error {
				select {
				case <-greet:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
		synctest.Wait()
		restarted := make(chan error, 1)
		go func() { restarted <- h.Restart(t.Context()) }()
		synctest.Wait()
		close(greet)
		if err := <-restarted; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := h.count(); n != 2 {
			t.Errorf("%d lives, want 2", n)
		}
	})
}

func TestStopIsGraceful(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, func(o *Options[*talk], h *fixture) {
			o.Farewell = func(ctx context.Context, c *talk) { c.ask(ctx, "bye") }
			h.begin = func(_ int, f *fakeProgram) { f.leave = 3 * time.Second }
			h.script = func(f *fakeProgram, line string) {
				if line != "bye" {
					answering(f, line)
				}
			}
		})
		if _, err := h.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		h.close()
		if took := time.Since(began); took != 3500*time.Millisecond {
			t.Errorf("it took %v, want half a second for the farewell and until the program has left", took)
		}
		if got := h.life(1); got.state != (child.State{}) || !slices.Equal(got.stops, []child.Grace{child.OurGrace}) {
			t.Errorf("the program ended with %v, and was given %v", got.state, got.stops)
		}
	})
}

func TestStopWhileWaiting(t *testing.T) {
	for _, state := range []State{Restarting, Failed, Starting} {
		t.Run(state.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := keep(t, func(o *Options[*talk], h *fixture) {
					if state == Failed {
						o.Policy.Restarts = 1
					}
					if state == Starting {
						h.script = func(*fakeProgram, string) {}
					} else {
						h.failing = errors.New("no")
					}
				})
				time.Sleep(2 * time.Second)
				if state == Restarting {
					for h.Status().State != Restarting {
						time.Sleep(100 * time.Millisecond)
					}
				}
				if got := h.Status().State; got != state {
					t.Fatalf("state %v", got)
				}
				began := time.Now()
				h.close()
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
