package gate

import (
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// recordedIn returns what a daemon reads from the audit log of the previous one.
func recordedIn(h *fixture) map[uint64]record.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[uint64]record.Record{}
	for _, r := range h.records {
		if r.Kind == record.KindCall {
			all[r.Call] = *r
		}
	}
	return all
}

// hangs is a hook that does not return until ctx ends.
type hangs struct{ began, ended chan struct{} }

func (h hangs) before(ctx context.Context, _ *Call) Hooked {
	h.began <- struct{}{}
	<-ctx.Done()
	h.ended <- struct{}{}
	return goesOn // which is ignored
}

// An agent that cancels a call while extensions are called stops them, and gets no answer.
func TestCancelWhileHooksAreAsked(t *testing.T) {
	h, book := newFixture(), &traceBook{}
	hook := hangs{make(chan struct{}, 1), make(chan struct{}, 1)}
	h.gate.Hooks, h.gate.Tracer = &script{before: hook.before}, book
	a := h.gate.Attach(context.Background(), shimX, nil)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	<-c
	<-hook.began
	if _, _, held := a.Counts(); held != 1 {
		t.Errorf("%d calls are held", held)
	}
	a.Cancel(1)
	<-hook.ended
	a.Close(false)
	select {
	case v := <-c:
		t.Errorf("a verdict on a call that was taken back: %+v", v)
	default:
	}
	if h.kinds() != "" || book.outcomes() != "1:"+OutcomeCancelled || len(h.noted) > 0 {
		t.Errorf("records %q, traces %q, memory %q", h.kinds(), book.outcomes(), h.noted)
	}
}

// A daemon that stops leaves a call that extensions are being asked about to the next daemon,
// which asks them again. A call with a verdict gets that again, without asking.
func TestHooksOverARestart(t *testing.T) {
	h := newFixture()
	hook := hangs{make(chan struct{}, 1), make(chan struct{}, 1)}
	h.gate.Hooks = &script{before: hook.before}
	ctx, stop := context.WithCancel(t.Context())
	a := h.gate.Attach(ctx, shimX, nil)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	<-c
	<-hook.began
	stop()
	a.Close(false)
	if h.kinds() != "" {
		t.Fatalf("records %q", h.kinds())
	}
	for _, test := range []struct {
		said   Hooked
		move   Move
		asked  int // total, after both daemons
		record string
	}{
		{goesOn, Forward, 1, "call:forward"},
		{Hooked{Move: Deny, By: []string{"guard"}, Reason: "no"}, Deny, 1, "call:deny:guard"},
		{changes(`{"path":"/y"}`), Forward, 2, "hook:changed:guard call:forward:guard"}, // a forwarded line is not kept
	} {
		h := newFixture()
		hooks := &script{before: says(test.said)}
		h.gate.Hooks = hooks
		var answers []string
		for range 2 {
			a := h.gate.Attach(context.Background(), shimX, recordedIn(h))
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
			v := <-c
			if v.Move == Ask {
				v = <-c
			}
			if v.Move != test.move {
				t.Errorf("%s: got %v %s", test.record, v.Move, v.Reason)
			}
			answers = append(answers, string(v.Answer)+string(v.Line)+v.Notice)
			a.Close(false)
		}
		if got := h.kinds(); got != test.record || answers[0] != answers[1] || len(hooks.all()) != test.asked {
			t.Errorf("records %q, want %q; asked %d times, want %d; told %q", got, test.record, len(hooks.all()), test.asked, answers)
		}
	}
}

// The question about a call that extensions changed is joined by the same call at the next
// daemon, and is recorded once.
func TestQuestionAboutHookedOverARestart(t *testing.T) {
	h := newFixture()
	h.ruling = Ruling{Move: Ask, Workflow: "ops"}
	h.gate.Hooks = &script{before: says(changes(`{"path":"/y"}`))}
	a := h.gate.Attach(context.Background(), shimX, nil)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	pendingFirst(t, c)
	a.Close(false)
	b := h.gate.Attach(context.Background(), shimX, recordedIn(h))
	defer b.Close(true)
	c = collect(b)
	b.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	if v := pendingFirst(t, c); v.Move != Ask || v.Approval != "A-1" {
		t.Fatalf("got %v %s", v.Move, v.Reason)
	}
	h.answers <- Answer{ID: "A-1", Approved: true, State: "approved"}
	if v := <-c; v.Move != Forward || !strings.Contains(string(v.Line), "/y") || !strings.Contains(v.Notice, "Extension guard") {
		t.Errorf("got %v %s, %q", v.Move, v.Line, v.Notice)
	}
	if got, want := h.kinds(), "hook:changed:guard call:hold:guard call:forward:guard"; got != want {
		t.Errorf("records %q, want %q", got, want)
	}
}

// An approval does not hold for a call that current extensions would see and have not seen,
// nor with a person's arguments that they do not accept.
func TestHooksAndAYes(t *testing.T) {
	edit := []byte(`{"path":"/z"}`)
	refuses := func(_ context.Context, c *Call) Hooked {
		if strings.Contains(string(c.Arguments()), "/z") {
			return Hooked{Move: Deny, By: []string{"guard"}, Reason: "not there"}
		}
		return goesOn
	}
	rewrites := func(_ context.Context, c *Call) Hooked {
		if strings.Contains(string(c.Arguments()), "/z") {
			return changes(`{"path":"/zz"}`)
		}
		return goesOn
	}
	for _, test := range []struct {
		name   string
		before func(context.Context, *Call) Hooked // when it is asked about
		then   func(*script)
		edit   []byte
		move   Move
		reason string
		asked  int
	}{
		{"nothing new", says(goesOn), func(*script) {}, nil, Forward, "", 1},
		{"installed meanwhile", nil, func(s *script) { s.install(); s.before = says(goesOn) }, nil, Deny, "the extensions changed meanwhile", 0},
		{"another one installed", says(goesOn), (*script).install, nil, Deny, "the extensions changed meanwhile", 1},
		{"removed", says(goesOn), func(s *script) { s.install(); s.before = nil }, nil, Forward, "", 1},
		{"other arguments", says(goesOn), func(*script) {}, edit, Forward, "", 2},
		{"other arguments, refused", refuses, func(*script) {}, edit, Deny, "not there", 2},
		{"other arguments, changed", rewrites, func(*script) {}, edit, Deny, "extension guard would change the arguments that a person set", 2},
		{"other arguments after hooks'", says(changes(`{"path":"/y"}`)), func(s *script) { s.before = says(goesOn) }, edit, Forward, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture()
			h.ruling = Ruling{Move: Ask, Workflow: "ops"}
			hooks := &script{before: test.before}
			h.gate.Hooks = hooks
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
			v := <-c
			if test.before != nil {
				v = <-c
			}
			if v.Move != Ask || v.Approval != "A-1" {
				t.Fatalf("at first: got %v %s", v.Move, v.Reason)
			}
			test.then(hooks)
			h.answers <- Answer{ID: "A-1", Approved: true, State: "approved", Decider: "uid 1", Edit: test.edit}
			v = <-c
			if v.Move != test.move || !strings.Contains(v.Reason, test.reason) {
				t.Fatalf("got %v %q", v.Move, v.Reason)
			}
			if got := len(hooks.all()); got != test.asked {
				t.Errorf("hooks were asked %d times, want %d", got, test.asked)
			}
			if test.edit != nil && v.Move == Forward {
				if !strings.Contains(string(v.Line), "/z") || !strings.Contains(v.Notice, "A person changed") {
					t.Errorf("got %s, %q", v.Line, v.Notice)
				}
				if last := h.records[len(h.records)-1]; len(last.Extensions) > 0 || last.Reason != "with arguments changed by uid 1" {
					t.Errorf("recorded %q by %q", last.Reason, last.Extensions)
				}
			}
		})
	}
}

// A parked call that is repeated is shown to extensions again.
func TestRepetitionsAreHooked(t *testing.T) {
	h := newFixture()
	h.ruling = Ruling{Move: Ask, Workflow: "ops"}
	hooks := &script{before: says(goesOn)}
	h.gate.Hooks = hooks
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	c := collect(a)
	for seq := range uint64(3) {
		a.Submit(Submission{Seq: seq + 1, Side: wire.FromAgent, Line: []byte(aCall)})
		if v := pendingFirst(t, c); v.Approval != "A-1" {
			t.Fatalf("got %v %s", v.Move, v.Reason)
		}
		h.answers <- Answer{ID: "A-1", State: StateParked}
		if v := <-c; v.Move != Deny {
			t.Fatalf("got %v", v.Move)
		}
	}
	if n := len(hooks.all()); n != 3 {
		t.Errorf("asked %d times", n)
	}
}
