package approval

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// pull watches and returns a function that takes the next change, as "A-1 open", or the
// final error.
func pull(t *testing.T, ctx context.Context, q *Queue) (next func() (string, error)) {
	t.Helper()
	step, stop := iter.Pull2(q.Watch(ctx))
	t.Cleanup(stop)
	return func() (string, error) {
		changed, err, ok := step()
		if !ok {
			return "", errors.New("it ended without a word")
		}
		return fmt.Sprint(changed.ID, " ", changed.State), err
	}
}

func want(t *testing.T, next func() (string, error), states ...string) {
	t.Helper()
	for _, state := range states {
		if got, err := next(); got != state || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, state)
		}
	}
}

func TestWatch(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	h.ask("a", 1)
	h.ask("a", 2)
	ended := h.ask("a", 3)
	h.q.Withdraw("a", 3)
	wait(t, ended)
	watching, cancel := context.WithCancelCause(ctx)
	next := pull(t, watching, h.q)
	want(t, next, "A-1 open", "A-2 open")
	h.ask("a", 4)
	if _, err := h.decide("A-1", true); err != nil {
		t.Fatal(err)
	}
	want(t, next, "A-4 open", "A-1 approved")

	// A slow watcher gets the last state of each question, in the order of first change.
	h.ask("a", 5)
	h.ask("a", 6)
	h.q.Withdraw("a", 5)
	want(t, next, "A-5 withdrawn", "A-6 open")

	stop := errors.New("stop")
	cancel(stop)
	if got, err := next(); !errors.Is(err, stop) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := next(); err == nil || len(h.q.watchers) != 0 {
		t.Errorf("it goes on after its end: %v, %d watchers", err, len(h.q.watchers))
	}
}

func TestWatchSeesExpiry(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	next := pull(t, ctx, h.q)
	h.ask("b", 0)
	want(t, next, "A-1 open") // it is watching from here on, however slow the machine is
	q := asked("a", 1)
	q.Ruling.Timeout = 50 * time.Millisecond
	if _, err := h.q.Ask(ctx, q); err != nil {
		t.Fatal(err)
	}
	got, err := next()
	if got == "A-2 open" {
		got, err = next()
	}
	if got != "A-2 expired" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// A watcher that does not read is dropped with an error, and does not delay others.
func TestASlowWatcher(t *testing.T) {
	h := newFixture(t, Options{Total: maxWatcherBacklog / 2, PerServer: maxWatcherBacklog / 2})
	defer h.close()
	slow, quick := pull(t, ctx, h.q), pull(t, ctx, h.q)
	h.ask("a", 0)
	want(t, slow, "A-1 open")
	want(t, quick, "A-1 open")
	h.q.Withdraw("a", 0)
	want(t, quick, "A-1 withdrawn")
	for seq := uint64(1); seq <= maxWatcherBacklog; seq++ {
		h.ask("a", seq)
		h.q.Withdraw("a", seq)
		want(t, quick, fmt.Sprintf("A-%d withdrawn", seq+1))
	}
	if got, err := slow(); !errors.Is(err, gate.ErrTooLarge) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWatchEndsWithTheQueue(t *testing.T) {
	h := newFixture(t, Options{})
	next := pull(t, ctx, h.q)
	h.ask("a", 1)
	want(t, next, "A-1 open")
	h.close()
	if got, err := next(); !errors.Is(err, gate.ErrNotRunning) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWatchersStopWhenTheyLike(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	h.ask("a", 1)
	h.ask("a", 2)
	var seen []string
	for q, err := range h.q.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, q.ID)
		break
	}
	if !slices.Equal(seen, []string{"A-1"}) || len(h.q.watchers) != 0 {
		t.Errorf("saw %q, %d watchers left", seen, len(h.q.watchers))
	}
}
