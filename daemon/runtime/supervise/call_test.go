package supervise

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// crashing answers greetings, and exits at any other line in its first lives.
func crashing(lives int) script {
	return func(f *fakeProgram, line string) {
		if line != "hello" && f.pid < 100+lives {
			f.exit(child.State{Code: 9})
			return
		}
		answering(f, line)
	}
}

// deaf answers only greetings.
func deaf(f *fakeProgram, line string) {
	if line == "hello" {
		answering(f, line)
	}
}

func TestDo(t *testing.T) {
	for _, test := range []struct {
		name    string
		ends    bool // the call ends its own context when the life ends
		crashes int
		asked   int // how often the program was called
		want    error
		says    string
	}{
		{"answered", false, 0, 1, nil, ""},
		{"ended under one that must not be made twice", true, 1, 1, ErrEnded, `call tool of extension "x": the program ended before it answered`},
		{"ended under a call", false, 1, 2, nil, ""},
		{"twice, and no third time", false, 2, 2, ErrEnded, "call tool"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := keep(t, func(_ *Options[*talk], h *fixture) { h.script = crashing(test.crashes) })
				asked := 0
				var got string
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				err := h.Do(ctx, "tool", time.Hour, func(ctx context.Context, c *talk) (err error) {
					asked++
					if got, err = c.ask(ctx, "work"); err != nil && test.ends {
						end(ErrEnded)
					}
					return err
				})
				if !errors.Is(err, test.want) || (err != nil && !strings.Contains(err.Error(), test.says)) {
					t.Errorf("error %v, want %v and %q", err, test.want, test.says)
				}
				if err == nil && got != "work" {
					t.Errorf("answer %q", got)
				}
				if asked != test.asked {
					t.Errorf("asked %d times, want %d", asked, test.asked)
				}
				h.close()
			})
		})
	}
}

func TestDoErrorsOfTheProgramItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, nil)
		refusal := errors.New("no such tool")
		calls := 0
		err := h.Do(t.Context(), "tool", time.Hour, func(context.Context, *talk) error { calls++; return refusal })
		if err != refusal || calls != 1 {
			t.Errorf("error %v after %d calls; want it as it is after one", err, calls)
		}
		h.close()
	})
}

func TestDoTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, func(_ *Options[*talk], h *fixture) { h.script = deaf })
		began := time.Now()
		ask := func(ctx context.Context, c *talk) error { _, err := c.ask(ctx, "work"); return err }
		err := h.Do(t.Context(), "tool", 30*time.Second, ask)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 30s") || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		// The time spent waiting for a program counts.
		h.life(1).exit(child.State{})
		synctest.Wait()
		err = h.Do(t.Context(), "tool", 100*time.Millisecond, ask)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while it is restarting: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Do(ctx, "tool", time.Hour, ask); !errors.Is(err, context.Canceled) {
			t.Errorf("taken back: %v", err)
		}
		h.close()
	})
}

// A life ends during many calls: each is repeated once, and gets the connection of the next life.
func TestDoWithManyCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := keep(t, func(_ *Options[*talk], h *fixture) { h.script = deaf })
		first, err := h.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan error, 50)
		for range cap(answers) {
			go func() {
				asked := 0
				answers <- h.Do(t.Context(), "tool", time.Hour, func(ctx context.Context, c *talk) error {
					if asked++; asked == 1 {
						_, err := c.ask(ctx, "work")
						return err
					}
					if c == first {
						t.Error("the ended conversation was handed out again")
					}
					return nil
				})
			}()
		}
		synctest.Wait()
		h.life(1).exit(child.State{Code: 1})
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		h.close()
	})
}
