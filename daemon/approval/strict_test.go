package approval

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// A call that is submitted again joins its question only if all facts it now has were
// shown. Facts are compared by their whole name.
func TestFactsThatCameAfterTheQuestion(t *testing.T) {
	with := func(seq uint64, facts ...string) *gate.Question {
		q := asked("a", 1)
		q.Call.Seq, q.Facts = seq, nil
		for _, name := range facts {
			q.Facts = append(q.Facts, gate.Fact{Name: name, Detail: "why", Member: "table"})
		}
		return q
	}
	for _, restart := range []bool{false, true} {
		h := newFixture(t, Options{})
		h.askFor(with(1, "secret-place", "acts"))
		if restart {
			h.restart()
		}
		for _, more := range [][]string{{"secret-place", "acts", "planted"}, {"secret"}, {"acts", "secret"}, {"act"}} {
			if held, err := h.q.Ask(ctx, with(1, more...)); !errors.Is(err, gate.ErrChanged) {
				t.Errorf("restart %v: the same call with %q: %v, %v", restart, more, held, err)
			}
		}
		if id := h.askFor(with(1, "acts")).ID(); id != "A-1" {
			t.Errorf("restart %v: the same call with less asks as %s", restart, id)
		}
		if id := h.askFor(with(1, "acts", "new-place")).ID(); id != "A-1" {
			t.Errorf("restart %v: the same call to what is a new place by now asks as %s", restart, id)
		}
		if id := h.askFor(with(2, "secret")).ID(); id != "A-2" {
			t.Errorf("restart %v: an equal call with a fact of a shorter name joins %s", restart, id)
		}
		h.close()
	}
}

// A question without a timeout waits for ten minutes.
func TestDefaultTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer h.close()
		q := asked("a", 1)
		q.Ruling.Timeout = 0
		held := h.askFor(q)
		start := time.Now()
		if a := wait(t, held); a.State != "expired" || time.Since(start) != 10*time.Minute {
			t.Errorf("after %v: %+v", time.Since(start), a)
		}
	})
}

// A decision that overrules an approval has the same conditions: on Slack only an
// approver can make it, and only after being shown the question.
func TestWhoMayTakeAYesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{Approves: func(workflow, user string) bool { return workflow == "ops" && user == "U1" }})
		defer h.close()
		q := equalCall("a", 1, time.Second)
		wait(t, h.askFor(q))
		yes := Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Terms: &Terms{For: time.Hour}}
		if _, err := h.q.Decide(ctx, yes); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			name string
			d    Decision
			want error
		}{
			{"somebody else on Slack", Decision{Subject: q.Subject[:], Surface: "slack", Approver: "U2"}, gate.ErrForbidden},
			{"nobody on Slack", Decision{Subject: q.Subject[:], Surface: "slack"}, gate.ErrForbidden},
			{"an approver in a terminal", Decision{Subject: q.Subject[:], Surface: "terminal", Approver: "U1"}, gate.ErrInvalid},
			{"another subject", Decision{Subject: make([]byte, 32), Surface: "terminal"}, gate.ErrChanged},
			{"no subject", Decision{Surface: "terminal"}, gate.ErrChanged},
		} {
			test.d.ID = "A-1"
			if _, err := h.q.Decide(ctx, test.d); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", test.name, err, test.want)
			}
			if got := h.states(true); !slices.Equal(got, []string{"A-1 approved"}) {
				t.Fatalf("%s: now %q", test.name, got)
			}
			if grants, err := h.q.Grants(ctx, false); err != nil || len(grants) != 1 {
				t.Fatalf("%s: granted %+v, %v", test.name, grants, err)
			}
		}
		no := Decision{ID: "A-1", Subject: q.Subject[:], Decider: "uid 2", Surface: "slack", Approver: "U1"}
		if _, err := h.q.Decide(ctx, no); err != nil {
			t.Errorf("an approver on Slack: %v", err)
		}
		if got := h.states(true); !slices.Equal(got, []string{"A-1 rejected"}) {
			t.Errorf("now %q", got)
		}
	})
}

// The required level is checked when the approval takes effect, not only when its proof
// is checked without holding the queue's lock.
func TestAProofIsWantedWhenTheYesCounts(t *testing.T) {
	var stricter atomic.Bool
	var h *fixture
	h = newFixture(t, Options{Prover: &prover{}, Now: func() time.Time {
		if stricter.Load() { // the queue reads the clock after it has received the answer
			if e := h.q.open["A-1"]; e != nil {
				e.q.Level = string(gate.LevelPresence)
			}
		}
		return time.Now()
	}})
	defer h.close()
	q := atLevel(gate.LevelWatch, 1)
	h.askFor(q)
	stricter.Store(true)
	_, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Surface: "terminal", level: gate.LevelPresence})
	if !errors.Is(err, gate.ErrProofNeeded) {
		t.Errorf("got %v", err)
	}
	stricter.Store(false)
	if got := h.states(true); !slices.Equal(got, []string{"A-1 open"}) {
		t.Errorf("now %q", got)
	}
}

// Other arguments must be one line, and need an approval without a grant.
func TestWhatOtherArgumentsGoWith(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	q := shownWhole(1, `{"a":1}`)
	h.askFor(q)
	for name, change := range map[string]func(*Decision){
		"a grant":           func(d *Decision) { d.Terms = &Terms{For: time.Hour} },
		"a no":              func(d *Decision) { d.Approve = false },
		"a line feed":       func(d *Decision) { d.Edit = []byte("{\n}") },
		"a carriage return": func(d *Decision) { d.Edit = []byte("{\r}") },
	} {
		d := Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Surface: "terminal", Edit: []byte(`{"a":2}`)}
		change(&d)
		if _, err := h.q.Decide(ctx, d); !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := h.states(true); !slices.Equal(got, []string{"A-1 open"}) {
		t.Errorf("now %q", got)
	}
}

// A grant that could not have been given, from an altered file, approves nothing.
func TestGrantsThatNobodyGave(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*store.Grant)
		ask     func(*gate.Question)
		covered bool
	}{
		{"one that could be", func(*store.Grant) {}, func(*gate.Question) {}, true},
		{"for our own files", func(g *store.Grant) { g.Facts = append(g.Facts, "ours") },
			func(q *gate.Question) { q.Facts = append(q.Facts, gate.Fact{Name: "ours"}) }, false},
		{"for all that destroys", func(g *store.Grant) { g.Server, g.Facts = agenthook.Server, append(g.Facts, "destroys") },
			func(q *gate.Question) {
				q.Call.Server, q.Facts = agenthook.Server, append(q.Facts, gate.Fact{Name: "destroys"})
			}, false},
		{"for a session that is none", func(g *store.Grant) { g.Scope, g.Session = InSession, "" },
			func(q *gate.Question) { q.Call.Session = "" }, false},
		{"for a project without a session", func(g *store.Grant) { g.Scope, g.Session = InProject, "" },
			func(q *gate.Question) { q.Call.Session = "" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t, Options{})
			defer func() { h.close() }()
			if _, err := h.grant(Terms{For: time.Hour, Scope: Always, Match: MatchTool}); err != nil {
				t.Fatal(err)
			}
			grants, err := h.q.Grants(ctx, false)
			if err != nil || len(grants) != 1 {
				t.Fatalf("%+v, %v", grants, err)
			}
			altered := grants[0]
			if _, err := h.q.Revoke(ctx, altered.ID, "uid 1"); err != nil {
				t.Fatal(err)
			}
			test.change(&altered)
			if err := h.db.AddGrant(ctx, &altered); err != nil {
				t.Fatal(err)
			}
			h.restart()
			q := callWith(2, `{"table":"t1","key":"k"}`)
			test.ask(q)
			if got := h.use(q) != ""; got != test.covered {
				t.Errorf("covered %v, want %v", got, test.covered)
			}
		})
	}
}

// A call that a grant approved before the daemon died is not approved again after the
// grant was revoked, even if the revoking daemon has died too.
func TestATakenBackGrantIsNotRecalled(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	g, err := h.grant(Terms{For: time.Hour, Match: MatchTool})
	if err != nil {
		t.Fatal(err)
	}
	used := callWith(2, `{"n":1}`)
	if h.use(used) != g.ID {
		t.Fatal("it lets nothing through")
	}
	if _, err := h.q.Revoke(ctx, g.ID, "uid 1"); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if got := h.use(used); got != "" {
		t.Errorf("taken back, and still let through by %s", got)
	}
}

// Deadlines are measured on the clock of the boot in which they were set: the running
// time of another boot is irrelevant.
func TestTheClockOfAnotherBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, up := "one", time.Minute
		began := time.Now()
		h := newFixture(t, Options{Boot: func() (string, time.Duration) { return id, up + time.Since(began) }})
		defer func() { h.close() }()
		h.ask("a", 1)
		h.close()
		id, up = "two", 1000*time.Hour
		time.Sleep(20 * time.Second)
		h.start()
		start := time.Now()
		if a := wait(t, h.ask("a", 1)); a.State != "expired" || time.Since(start) != 40*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), a)
		}
		if got := h.rec.verdicts(); len(got) != 1 || !strings.Contains(got[0], "expired") {
			t.Errorf("recorded %q", got)
		}
	})
}
