package approval

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// prover accepts one passphrase, and counts its checks.
type prover struct{ looked int }

func (p *prover) Prove(_ context.Context, proof *gate.Proof, _, _ string) error {
	p.looked++
	if string(proof.Passphrase) != "right" {
		return gate.ErrProofWrong
	}
	return nil
}

// atLevel returns a call like that of asked whose question has a level.
func atLevel(level gate.Level, seq uint64) *gate.Question {
	q := callWith(seq, `{"table":"t1","key":"k"}`)
	q.Ruling.Level = level
	return q
}

func proof(passphrase string) *gate.Proof { return &gate.Proof{Passphrase: []byte(passphrase)} }

func TestWhoeverMayAnswer(t *testing.T) {
	for _, test := range []struct {
		name   string
		level  gate.Level
		d      Decision
		err    error
		looked int
		record string
	}{
		{"a yes without a proof", gate.LevelPresence, Decision{Approve: true}, gate.ErrProofNeeded, 0, ""},
		{"a wrong one", gate.LevelPresence, Decision{Approve: true, Proof: proof("wrong")}, gate.ErrProofWrong, 1, ""},
		{"the right one", gate.LevelPresence, Decision{Approve: true, Proof: proof("right")}, nil, 1, "approved presence"},
		{"a no", gate.LevelPresence, Decision{}, nil, 0, "rejected watch"},
		{"a no with a wrong one", gate.LevelPresence, Decision{Proof: proof("wrong")}, nil, 0, "rejected watch"},
		{"a yes that needs none", gate.LevelWatch, Decision{Approve: true}, nil, 0, "approved watch"},
		{"and comes with one", gate.LevelWatch, Decision{Approve: true, Proof: proof("wrong")}, nil, 0, "approved watch"},
		{"a level that nobody settled", gate.LevelUsual, Decision{Approve: true}, nil, 0, "approved watch"},
		{"a proof for what can't be granted", gate.LevelPresence, Decision{Approve: true, Proof: proof("right"), Terms: &Terms{}}, gate.ErrInvalid, 0, ""},
		{"a proof for another question than was shown", gate.LevelPresence, Decision{Approve: true, Proof: proof("right"), Subject: []byte("x")}, gate.ErrChanged, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &prover{}
			h := newFixture(t, Options{Prover: p})
			defer h.close()
			q := atLevel(test.level, 1)
			h.askFor(q)
			d := test.d
			d.ID, d.Decider, d.Surface = "A-1", "uid 1", "terminal"
			if d.Subject == nil {
				d.Subject = q.Subject[:]
			}
			_, err := h.q.Decide(ctx, d)
			if !errors.Is(err, test.err) || p.looked != test.looked {
				t.Errorf("got %v, %d proofs looked at; want %v, %d", err, p.looked, test.err, test.looked)
			}
			got := ""
			if len(h.rec.records) > 0 {
				got = h.rec.records[0].Verdict + " " + h.rec.records[0].Level
			}
			if got != test.record {
				t.Errorf("recorded %q, want %q", got, test.record)
			}
			if test.err != nil && !slices.Equal(h.states(true), []string{"A-1 open"}) {
				t.Errorf("now %q", h.states(true))
			}
		})
	}
}

// No decision without a valid proof approves a question that needs one, also after
// restarts; a denial never needs one.
func TestNoYesWithoutAProof(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := &prover{}
		h := newFixture(t, Options{Prover: p})
		defer func() { h.close() }()
		if rapid.Bool().Draw(r, "no prover") {
			h.close()
			h.o.Prover = nil
			h.start()
		}
		q := atLevel(gate.LevelPresence, 1)
		if rapid.Bool().Draw(r, "surfaces") {
			q.Ruling.Surfaces = []string{"terminal", "script"}
		}
		h.askFor(q)
		for range rapid.IntRange(1, 6).Draw(r, "decisions") {
			if rapid.Bool().Draw(r, "restart") {
				h.restart()
			}
			d := Decision{
				ID: "A-1", Subject: q.Subject[:], Approve: true, level: rapid.SampledFrom([]gate.Level{"", gate.LevelWatch, gate.LevelPresence}).Draw(r, "level"),
				Surface: rapid.SampledFrom([]string{"", "terminal", "script", "desktop", "slack", "presence"}).Draw(r, "surface"),
				Note:    rapid.String().Draw(r, "note"), Decider: rapid.String().Draw(r, "decider"),
			}
			if rapid.Bool().Draw(r, "proof") {
				d.Proof = &gate.Proof{
					Passphrase: []byte(rapid.SampledFrom([]string{"", "wrong", "Right", "right "}).Draw(r, "passphrase")),
					Code:       []byte(rapid.SampledFrom([]string{"", "right", "123456"}).Draw(r, "code")),
				}
			}
			if rapid.Bool().Draw(r, "grant") {
				d.Terms = &Terms{For: time.Hour, Scope: Always, Match: MatchTool}
			} else if rapid.Bool().Draw(r, "edit") {
				d.Edit = []byte(`{"table":"t2"}`)
			}
			if ended, err := h.q.Decide(ctx, d); err == nil {
				r.Fatalf("%+v is an answer: %+v", d, ended)
			}
			if got := h.states(true); !slices.Equal(got, []string{"A-1 open"}) {
				r.Fatalf("after %+v: %q", d, got)
			}
		}
		if grants, err := h.q.Grants(ctx, true); err != nil || len(grants) > 0 {
			r.Fatalf("granted %+v, %v", grants, err)
		}
		if _, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: q.Subject[:]}); err != nil {
			r.Fatalf("a no: %v", err)
		}
	})
}

// Equal calls share a question only if an approval needs the same level.
func TestLevelsAreNotJoined(t *testing.T) {
	h := newFixture(t, Options{Prover: &prover{}})
	defer func() { h.close() }()
	for i, level := range []gate.Level{gate.LevelWatch, gate.LevelPresence, gate.LevelWatch, gate.LevelPresence} {
		if i == 2 {
			h.restart()
		}
		h.askFor(atLevel(level, uint64(i+1)))
	}
	if got := h.states(false); !slices.Equal(got, []string{"A-1 open", "A-2 open"}) {
		t.Errorf("asked %q", got)
	}
}

// A grant approves calls at no higher level than that of its approval.
func TestGrantsOfALevel(t *testing.T) {
	for _, test := range []struct {
		given, asked gate.Level
		covered      bool
	}{
		{gate.LevelWatch, gate.LevelWatch, true},
		{gate.LevelWatch, gate.LevelPresence, false},
		{gate.LevelPresence, gate.LevelPresence, true},
		{gate.LevelPresence, gate.LevelWatch, true},
	} {
		t.Run(string(test.given)+" "+string(test.asked), func(t *testing.T) {
			h := newFixture(t, Options{Prover: &prover{}})
			defer func() { h.close() }()
			q := atLevel(test.given, 1)
			h.askFor(q)
			ended, err := h.q.Decide(ctx, Decision{
				ID: "A-1", Subject: q.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Proof: proof("right"),
				Terms: &Terms{For: time.Hour, Scope: Always},
			})
			if err != nil || ended.Given.Level != string(test.given) {
				t.Fatalf("%+v, %v", ended.Given, err)
			}
			h.restart()
			if got := h.use(atLevel(test.asked, 2)) != ""; got != test.covered {
				t.Errorf("covered %v, want %v", got, test.covered)
			}
		})
	}
}

// When the secret is removed, what depends on it is revoked for good, and nothing else.
func TestVoid(t *testing.T) {
	for _, grants := range []bool{false, true} {
		h := newFixture(t, Options{Prover: &prover{}})
		say := func(id string, q *gate.Question, terms *Terms) {
			if _, err := h.q.Decide(ctx, Decision{ID: id, Subject: q.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Proof: proof("right"), Terms: terms}); err != nil {
				t.Fatal(err)
			}
		}
		granted := atLevel(gate.LevelWatch, 1)
		h.askFor(granted)
		say("A-1", granted, &Terms{For: time.Hour, Scope: Always})
		// One approved question waits for a repetition, one waits for an answer, and one
		// needs no secret.
		parked := callWith(2, `{"table":"parked"}`)
		parked.Ruling.Level = gate.LevelPresence
		waits := h.askFor(parked)
		if a, err := h.q.park(ctx, waits.(*held).a); err != nil || a.State != gate.StateParked {
			t.Fatal(a, err)
		}
		say("A-2", parked, nil)
		h.askFor(atLevel(gate.LevelPresence, 3))
		h.askFor(callWith(4, `{"table":"other"}`))
		if err := h.q.Void(ctx, "uid 2", "presence was removed", grants); err != nil {
			t.Fatal(err)
		}
		for _, restart := range []bool{false, true} {
			if restart {
				h.restart()
			}
			if got := h.states(true); !slices.Equal(got, []string{"A-4 open", "A-3 withdrawn", "A-2 rejected", "A-1 approved"}) {
				t.Errorf("restart %v: now %q", restart, got)
			}
			left, err := h.q.Grants(ctx, false)
			if err != nil || (len(left) == 0) != grants {
				t.Errorf("restart %v, grants %v: left %+v, %v", restart, grants, left, err)
			}
		}
		again := callWith(5, `{"table":"parked"}`)
		again.Ruling.Level = gate.LevelPresence
		if a := wait(t, h.askFor(again)); a.Approved || a.State != string(store.StateRejected) {
			t.Errorf("the repetition: %+v", a)
		}
		h.close()
	}
}

// A page that the workflow does not list stands for a terminal that it does, with a secret, and for nothing else.
func TestApprovalOnAPage(t *testing.T) {
	for _, test := range []struct {
		name     string
		surfaces []string
		level    gate.Level
		d        Decision
		err      error
		looked   int
		record   string
	}{
		{"listed", []string{"terminal", "page"}, gate.LevelWatch, Decision{Approve: true}, nil, 0, "approved watch"},
		{"listed, of a question that needs a secret", []string{"page"}, gate.LevelPresence, Decision{Approve: true}, gate.ErrProofNeeded, 0, ""},
		{"not listed", []string{"terminal", "script"}, gate.LevelWatch, Decision{Approve: true}, gate.ErrProofNeeded, 0, ""},
		{"not listed, a wrong secret", []string{"terminal", "script"}, gate.LevelWatch, Decision{Approve: true, Proof: proof("wrong")}, gate.ErrProofWrong, 1, ""},
		{"not listed, the secret", []string{"terminal", "script"}, gate.LevelWatch, Decision{Approve: true, Proof: proof("right")}, nil, 1, "approved presence"},
		{"the secret for another question than was shown", []string{"terminal"}, gate.LevelWatch, Decision{Approve: true, Proof: proof("right"), Subject: []byte("x")}, gate.ErrChanged, 0, ""},
		{"neither page nor terminal", []string{"slack"}, gate.LevelWatch, Decision{Approve: true, Proof: proof("right")}, gate.ErrForbidden, 0, ""},
		{"a script's question", []string{"script", "desktop"}, gate.LevelWatch, Decision{Approve: true, Proof: proof("right")}, gate.ErrForbidden, 0, ""},
		{"any surface", nil, gate.LevelWatch, Decision{Approve: true}, gate.ErrProofNeeded, 0, ""},
		{"a denial", []string{"slack"}, gate.LevelPresence, Decision{}, nil, 0, "rejected watch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &prover{}
			h := newFixture(t, Options{Prover: p})
			defer h.close()
			q := atLevel(test.level, 1)
			q.Ruling.Surfaces = test.surfaces
			h.askFor(q)
			d := test.d
			d.ID, d.Decider, d.Surface = "A-1", "uid 1", "page"
			if d.Subject == nil {
				d.Subject = q.Subject[:]
			}
			_, err := h.q.Decide(ctx, d)
			if !errors.Is(err, test.err) || p.looked != test.looked {
				t.Errorf("got %v, %d proofs looked at; want %v, %d", err, p.looked, test.err, test.looked)
			}
			got := ""
			if len(h.rec.records) > 0 {
				got = h.rec.records[0].Verdict + " " + h.rec.records[0].Level
			}
			if got != test.record {
				t.Errorf("recorded %q, want %q", got, test.record)
			}
		})
	}
}
