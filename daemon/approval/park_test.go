package approval

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// equalCall returns a call with number seq that is equal to that of asked(attachment, 1)
// in session s, and whose agent gives up after patience.
func equalCall(attachment string, seq uint64, patience time.Duration) *gate.Question {
	q := asked("a", 1)
	q.Call.Attachment, q.Call.Seq, q.Call.Patience = attachment, seq, patience
	return q
}

func (h *fixture) askFor(q *gate.Question) gate.Held {
	h.t.Helper()
	held, err := h.q.Ask(ctx, q)
	if err != nil {
		h.t.Fatal(err)
	}
	return held
}

// Equal calls share a question; an approval is for the one that has waited longest, and a
// denial for all.
func TestEqualCallsShareAQuestion(t *testing.T) {
	for _, approve := range []bool{true, false} {
		t.Run(fmt.Sprint(approve), func(t *testing.T) {
			h := newFixture(t, Options{})
			defer func() { h.close() }()
			first, second, third := h.askFor(equalCall("a", 1, 0)), h.askFor(equalCall("a", 2, 0)), h.askFor(equalCall("b", 1, 0))
			if shown := h.q.List(false); len(shown) != 1 || shown[0].Waiting != 3 {
				t.Fatalf("open: %+v", shown)
			}
			h.q.Withdraw("a", 1) // now only the other calls ask the question
			if _, err := h.decide("A-1", approve); err != nil {
				t.Fatal(err)
			}
			want := []string{"withdrawn false", "rejected false", "rejected false"}
			if approve {
				want = []string{"spent false", "approved true", "spent false"}
			}
			for i, held := range []gate.Held{first, second, third} {
				if a := wait(t, held); !(i == 0 && a.ID == "A-1" && !a.Approved) && fmt.Sprint(a.State, " ", a.Approved) != want[i] {
					t.Errorf("call %d: %+v, want %s", i, a, want[i])
				}
			}
			h.restart()
			for seq, want := range map[uint64]bool{1: false, 2: approve} {
				if a := wait(t, h.askFor(equalCall("a", seq, 0))); a.Approved != want {
					t.Errorf("call %d submitted again after a restart: %+v", seq, a)
				}
			}
			if id := h.askFor(equalCall("a", 3, 0)).ID(); id != "A-2" {
				t.Errorf("the next equal call shares %s", id)
			}
		})
	}
}

// A question is withdrawn together with its last call.
func TestTheLastCallTakesTheQuestionAlong(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	h.askFor(equalCall("a", 1, 0))
	h.askFor(equalCall("a", 2, 0))
	h.q.Withdraw("a", 1)
	if got := h.states(true); !slices.Equal(got, []string{"A-1 open"}) {
		t.Errorf("now %q", got)
	}
	h.q.Withdraw("a", 2)
	if got := h.states(true); !slices.Equal(got, []string{"A-1 withdrawn"}) {
		t.Errorf("now %q", got)
	}
}

// A call is parked before its agent gives up. The question keeps waiting, and exactly one
// equal call gets the answer while that is valid.
func TestParking(t *testing.T) {
	for _, test := range []struct {
		name     string
		patience time.Duration
		parked   time.Duration
	}{
		{"5 seconds", 5 * time.Second, 4 * time.Second},
		{"20 seconds", 20 * time.Second, 16 * time.Second},
		{"5 minutes", 5 * time.Minute, 5*time.Minute - 5*time.Second},
		{"unknown", 0, 55 * time.Second},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, " restart ", restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newFixture(t, Options{})
					defer func() { h.close() }()
					q := equalCall("a", 1, test.patience)
					q.Ruling.Timeout, q.Ruling.Validity = time.Hour, 30*time.Second
					start := time.Now()
					if a := wait(t, h.askFor(q)); a.State != gate.StateParked || a.Approved || a.ID != "A-1" || time.Since(start) != test.parked {
						t.Fatalf("after %v: %+v", time.Since(start), a)
					}
					if restart {
						h.restart()
						h.q.WithdrawUnclaimed("the agent has left") // a parked call is not expected back
					}
					if a := wait(t, h.askFor(q)); a.State != gate.StateParked {
						t.Errorf("the same call again: %+v", a)
					}
					h.q.WithdrawAttachment("a", "the server was started anew")
					if got := h.states(false); !slices.Equal(got, []string{"A-1 open"}) {
						t.Fatalf("now %q", got)
					}
					time.Sleep(10 * time.Minute)
					if _, err := h.decide("A-1", true); err != nil {
						t.Fatal(err)
					}
					time.Sleep(29 * time.Second)
					if restart {
						h.restart()
						h.q.WithdrawUnclaimed("the agent has left")
					}
					if a := wait(t, h.askFor(equalCall("b", 1, test.patience))); !a.Approved || a.ID != "A-1" {
						t.Errorf("the repetition: %+v", a)
					}
					if id := h.askFor(equalCall("b", 2, test.patience)).ID(); id != "A-2" {
						t.Errorf("the second repetition shares %s", id)
					}
				})
			})
		}
	}
}

// An answer that no call takes in time is void.
func TestAnAnswerWaitsAsLongAsItIsValid(t *testing.T) {
	for name, later := range map[string]func(*fixture){
		"its time is up":      func(*fixture) { time.Sleep(31 * time.Second) },
		"over a restart":      func(h *fixture) { h.close(); time.Sleep(31 * time.Second); h.start() },
		"the session is over": func(h *fixture) { h.q.WithdrawSession("s", "over") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(t, Options{Boot: func() (string, time.Duration) { return "", 0 }})
				defer func() { h.close() }()
				q := equalCall("a", 1, time.Second)
				q.Ruling.Validity = 30 * time.Second
				wait(t, h.askFor(q))
				if _, err := h.decide("A-1", true); err != nil {
					t.Fatal(err)
				}
				later(h)
				if id := h.askFor(equalCall("a", 2, 0)).ID(); id != "A-2" {
					t.Errorf("the repetition shares %s", id)
				}
			})
		})
	}
}

// Waiting questions, answers and grants last by the clock of how long the machine has
// been running. They last no longer if the machine sleeps or the wall clock is set back.
// If the wall clock is set forward across a restart, they end, since nobody can tell
// then.
func TestWhatWaitsGoesByTheMachinesClock(t *testing.T) {
	for _, test := range []struct {
		name    string
		asleep  time.Duration // not seen by the clock of timers
		set     time.Duration // the wall clock, between two daemons
		restart bool
		good    bool
	}{
		{"nothing", 0, 0, false, true},
		{"a restart", 0, 0, true, true},
		{"asleep", 20 * time.Minute, 0, false, false},
		{"asleep, and a restart", 20 * time.Minute, 0, true, false},
		{"a nap", 5 * time.Minute, 0, false, true},
		{"set back", 0, -24 * time.Hour, true, true},
		{"asleep and set back", 20 * time.Minute, -24 * time.Hour, true, false},
		{"set forward", 0, 24 * time.Hour, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asleep, set atomic.Int64
				began := time.Now()
				h := newFixture(t, Options{
					Now:  func() time.Time { return time.Now().Add(time.Duration(set.Load())) },
					Boot: func() (string, time.Duration) { return "one", time.Since(began) + time.Duration(asleep.Load()) },
				})
				defer func() { h.close() }()
				q := equalCall("a", 1, time.Second)
				q.Ruling.Validity = 10 * time.Minute
				wait(t, h.askFor(q))
				_, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Terms: &Terms{For: 10 * time.Minute}})
				if err != nil {
					t.Fatal(err)
				}
				asleep.Store(int64(test.asleep))
				if test.restart {
					h.close()
					set.Store(int64(test.set))
					h.start()
				}
				if grants, err := h.q.Grants(ctx, false); err != nil || (len(grants) == 1) != test.good {
					t.Errorf("%d grants in force, %v", len(grants), err)
				}
				if id := h.askFor(equalCall("a", 2, 0)).ID(); (id == "A-1") != test.good {
					t.Errorf("the repetition is asked about as %s", id)
				}
			})
		})
	}
}

// A denial overrules an approval that no call has taken yet, and the grant given with it.
func TestANoBeatsAYesThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer func() { h.close() }()
		q := equalCall("a", 1, time.Second)
		wait(t, h.askFor(q))
		yes := Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Decider: "uid 1", Terms: &Terms{For: time.Hour}}
		if _, err := h.q.Decide(ctx, yes); err != nil {
			t.Fatal(err)
		}
		if _, err := h.q.Decide(ctx, yes); !errors.Is(err, gate.ErrDecided) {
			t.Errorf("a second yes: %v", err)
		}
		if _, err := h.decide("A-1", false); err != nil {
			t.Fatal(err)
		}
		h.restart()
		if grants, err := h.q.Grants(ctx, false); err != nil || len(grants) != 0 {
			t.Errorf("granted still: %+v, %v", grants, err)
		}
		if a := wait(t, h.askFor(equalCall("a", 2, 0))); a.Approved || a.State != "rejected" || a.Note != "note" {
			t.Errorf("the repetition: %+v", a)
		}
		if _, err := h.decide("A-1", false); !errors.Is(err, gate.ErrDecided) {
			t.Errorf("a no that is too late: %v", err)
		}
		if got := h.rec.verdicts(); !slices.Equal(got, []string{"A-1 approved", "A-1 granted", "A-1 revoked", "A-1 rejected"}) {
			t.Errorf("recorded %q", got)
		}
	})
}

// A denial overrules an approval even if the call is waiting and about to take it. A call
// that is canceled then, or whose session ends, does not take it either.
func TestANoBeatsAYesThatIsNotActedOn(t *testing.T) {
	for _, test := range []struct {
		name  string
		then  func(*fixture) error
		state string
	}{
		{"a no", func(h *fixture) error { _, err := h.decide("A-1", false); return err }, "rejected"},
		{"a restart and a no", func(h *fixture) error { h.restart(); _, err := h.decide("A-1", false); return err }, "rejected"},
		{"the session is over", func(h *fixture) error { h.q.WithdrawSession("s", "over"); return nil }, gate.StateLapsed},
		{"the agent has left", func(h *fixture) error { h.q.WithdrawAttachment("a", "left"); return nil }, gate.StateLapsed},
		{"its time is up", func(*fixture) error { time.Sleep(time.Hour); return nil }, gate.StateLapsed},
		{"a restart", func(h *fixture) error { h.restart(); return nil }, "approved"},
		{"an equal call", func(h *fixture) error { h.askFor(equalCall("a", 2, 0)); return nil }, "approved"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(t, Options{})
				defer func() { h.close() }()
				held := h.askFor(equalCall("a", 1, 0))
				if _, err := h.decide("A-1", true); err != nil {
					t.Fatal(err)
				}
				if err := test.then(h); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(test.name, "restart") { // its tg-shim attaches again
					held = h.askFor(equalCall("a", 1, 0))
				}
				if a := wait(t, held); a.State != test.state || a.Approved != (test.state == "approved") {
					t.Errorf("the call hears %+v", a)
				}
				if _, err := h.decide("A-1", false); !errors.Is(err, gate.ErrDecided) {
					t.Errorf("a no after that: %v", err)
				}
			})
		})
	}
}

// A denial is delivered to one repetition; after that the call can be asked about again.
func TestANoIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer h.close()
		wait(t, h.askFor(equalCall("a", 1, time.Second)))
		if _, err := h.decide("A-1", false); err != nil {
			t.Fatal(err)
		}
		if a := wait(t, h.askFor(equalCall("a", 2, 0))); a.State != "rejected" || a.Note != "note" {
			t.Errorf("the repetition: %+v", a)
		}
		if id := h.askFor(equalCall("a", 3, 0)).ID(); id != "A-2" {
			t.Errorf("the next shares %s", id)
		}
	})
}

// changes are all inputs of an answer: if any of them differs in the repeated call, the
// answer is not for that call.
var changes = map[string]func(*gate.Question){
	"agent":      func(q *gate.Question) { q.Call.Agent = "cursor" },
	"session":    func(q *gate.Question) { q.Call.Session = "t" },
	"no session": func(q *gate.Question) { q.Call.Session = "" },
	"server":     func(q *gate.Question) { q.Call.Server = "db2" },
	"launch":     func(q *gate.Question) { q.Call.Launch = "l2" },
	"definition": func(q *gate.Question) { q.Call.Definition[31]++ },
	"method":     func(q *gate.Question) { q.Call.Method = "prompts/get" },
	"workflow":   func(q *gate.Question) { q.Ruling.Workflow = "other" },
	"extent":     func(q *gate.Question) { q.Call.Extent = gate.Extent{"files": 1} },
	"a new fact": func(q *gate.Question) { q.Facts = append(q.Facts, gate.Fact{Name: "secret"}) },
}

// An approval is void after any change: in everything that surrounds the call, and in
// each byte of it.
func TestAnyChangeVoidsAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{PerServer: 10_000, Total: 10_000})
		defer h.close()
		wait(t, h.askFor(equalCall("a", 1, time.Second)))
		if _, err := h.decide("A-1", true); err != nil {
			t.Fatal(err)
		}
		seq := uint64(1)
		void := func(name string, change func(*gate.Question)) {
			seq++
			q := equalCall("a", seq, 0)
			change(q)
			q.Subject = q.Call.Digest()
			held, err := h.q.Ask(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if held.ID() == "A-1" {
				t.Fatalf("%s: the yes is for it still", name)
			}
			h.q.Withdraw("a", seq)
		}
		for name, change := range changes {
			void(name, change)
		}
		line := equalCall("a", 1, 0).Call.Line
		for i := strings.Index(string(line), `{"name"`); i < len(line)-1; i++ {
			for _, b := range []byte{line[i] ^ 1, line[i] ^ 0x80, ' '} {
				if b != line[i] {
					void(fmt.Sprintf("byte %d is %q", i, b), func(q *gate.Question) { q.Call.Line[i] = b })
				}
			}
		}
		// Control: what may differ between repetitions does not void it.
		q := equalCall("a", 1_000_000, 0)
		q.Call.ID, q.Call.Envelope.ID = "another", wire.Span{}
		q.Facts[0].Detail = "in other words"
		q.Subject = q.Call.Digest()
		if a := wait(t, h.askFor(q)); !a.Approved || a.ID != "A-1" {
			t.Errorf("the repetition: %+v", a)
		}
	})
}

// An attachment without a session shares with no other, and its questions end with it.
func TestWithoutASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer h.close()
		alone := func(attachment string, seq uint64) *gate.Question {
			q := equalCall(attachment, seq, time.Second)
			q.Call.Session = ""
			return q
		}
		wait(t, h.askFor(alone("a", 1)))
		if id := h.askFor(alone("b", 1)).ID(); id != "A-2" {
			t.Errorf("another shim shares %s", id)
		}
		if id := h.askFor(alone("a", 2)).ID(); id != "A-1" {
			t.Errorf("the same shim is asked as %s", id)
		}
		h.q.WithdrawAttachment("a", "the agent has left")
		if got := h.states(false); !slices.Equal(got, []string{"A-2 open"}) {
			t.Errorf("now %q", got)
		}
	})
}

// Waiting calls take places like questions do, and questions can't be asked faster than a
// person can answer.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{PerServer: 2, Total: 4})
		defer h.close()
		h.askFor(equalCall("a", 1, 0))
		h.askFor(equalCall("a", 2, 0))
		if _, err := h.q.Ask(ctx, equalCall("a", 3, 0)); !errors.Is(err, gate.ErrFull) {
			t.Errorf("a third equal call: %v", err)
		}
		h.q.WithdrawAttachment("a", "gone")
		for seq := uint64(10); seq < 10+burstFactor*2-1; seq++ {
			h.ask("a", seq)
			h.q.Withdraw("a", seq)
		}
		if _, err := h.q.Ask(ctx, asked("a", 100)); !errors.Is(err, gate.ErrBurst) {
			t.Errorf("one too soon: %v", err)
		}
		other := asked("a", 101)
		other.Call.Server = "fs"
		h.askFor(other)
		time.Sleep(burstSpan)
		h.ask("a", 102)
	})
}

// EC-STDIO-021: a question that reaches nobody, because the surface that its workflow
// names does not exist, ends as a denial when it expires.
func TestAQuestionThatReachesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer h.close()
		q := asked("a", 1)
		q.Ruling.Surfaces = []string{"slack"}
		held := h.askFor(q)
		shown := h.q.List(false)[0]
		if _, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: shown.Subject[:], Approve: true, Surface: "terminal"}); !errors.Is(err, gate.ErrForbidden) {
			t.Errorf("a yes from elsewhere: %v", err)
		}
		start := time.Now()
		if a := wait(t, held); a.Approved || a.State != string(store.StateExpired) || time.Since(start) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(start), a)
		}
	})
}

// An answer says how much was shown to be destroyed, also to a call that was submitted again to another
// daemon and would destroy more by now: the gate compares.
func TestAnApprovalSaysHowMuchWasShown(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	h.askFor(callWith(1, `{}`))
	h.restart()
	again := callWith(1, `{}`)
	again.Call.Extent = gate.Extent{"files": 400}
	held := h.askFor(again)
	if _, err := h.decide(held.ID(), true); err != nil {
		t.Fatal(err)
	}
	if a := wait(t, held); !a.Approved || !maps.Equal(a.Extent, gate.Extent{"files": 2}) {
		t.Errorf("got %+v", a)
	}
}
