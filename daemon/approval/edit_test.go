package approval

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func (h *fixture) edit(id, arguments string) error {
	h.t.Helper()
	shown, err := h.q.Get(ctx, id)
	if err != nil {
		h.t.Fatal(err)
	}
	ended, err := h.q.Decide(ctx, Decision{ID: id, Subject: shown.Subject[:], Approve: true, Decider: "uid 1", Edit: []byte(arguments)})
	if err == nil && !ended.Edited {
		h.t.Errorf("%s is not said to be edited", id)
	}
	return err
}

// shownWhole returns a call all of whose arguments are shown.
func shownWhole(seq uint64, arguments string) *gate.Question {
	q := callWith(seq, arguments)
	q.Ruling.Redact = nil
	return q
}

// A parked call is sent with the arguments that a person wrote meanwhile, also by another
// daemon; then they are erased from the disk.
func TestOtherArgumentsWaitForTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer func() { h.close() }()
		q := shownWhole(1, `{"a":1}`)
		q.Call.Patience = time.Second
		wait(t, h.askFor(q))
		if err := h.edit("A-1", `{"a":"rosebud"}`); err != nil {
			t.Fatal(err)
		}
		h.restart()
		again := shownWhole(2, `{"a":1}`)
		if a := wait(t, h.askFor(again)); !a.Approved || string(a.Edit) != `{"a":"rosebud"}` {
			t.Errorf("the repetition: %+v", a)
		}
		if a := wait(t, h.askFor(again)); !a.Approved || string(a.Edit) != `{"a":"rosebud"}` {
			t.Errorf("the same, over another stream: %+v", a)
		}
		h.restart()
		for _, name := range []string{h.path, h.path + "-wal"} {
			if content, err := os.ReadFile(name); err == nil && bytes.Contains(content, []byte("rosebud")) {
				t.Errorf("%s has the arguments still", name)
			}
		}
		// If the new arguments are gone, the original ones must not be sent.
		if a, err := h.askFor(again).Wait(ctx); err == nil {
			t.Errorf("with another daemon: %+v", a)
		}
	})
}

func TestWhatCannotBeEdited(t *testing.T) {
	for name, change := range map[string]func(*gate.Question){
		"hidden arguments":   func(q *gate.Question) { q.Ruling.Redact = []string{"a"} },
		"another method":     func(q *gate.Question) { q.Call.Method = "prompts/get" },
		"what a server asks": func(q *gate.Question) { q.Call.Side = wire.FromServer },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, Options{})
			defer h.close()
			q := shownWhole(1, `{"a":1}`)
			change(q)
			h.askFor(q)
			if err := h.edit("A-1", `{"a":2}`); !errors.Is(err, gate.ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	h := newFixture(t, Options{})
	defer h.close()
	h.askFor(shownWhole(1, `{"a":1}`))
	if err := h.edit("A-1", "{\n}"); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("a line end: %v", err)
	}
}
