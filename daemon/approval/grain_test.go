package approval

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// shellCall returns a call of the agent's shell whose arguments have more beside the command.
func shellCall(seq uint64, command, more string, grain *gate.Grain, facts ...string) *gate.Question {
	q := callWith(seq, `{"command":"`+command+`","cwd":"/p"`+more+`}`)
	q.Call.Server, q.Call.Subject, q.Call.Extent, q.Call.Grain, q.Facts = agenthook.Server, agenthook.Shell, nil, grain, nil
	q.Subject = q.Call.Digest()
	for _, name := range facts {
		q.Facts = append(q.Facts, gate.Fact{Name: name})
	}
	return q
}

func (h *fixture) grantShell(q *gate.Question, terms Terms) error {
	id := h.askFor(q).ID()
	_, err := h.q.Decide(ctx, Decision{ID: id, Subject: q.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Terms: &terms})
	return err
}

var (
	push  = &gate.Grain{Program: "git", Verb: "push", Folder: "/p"}
	list  = &gate.Grain{Program: "ls", Folder: "/p"}
	alone = &gate.Grain{Alone: "it is two commands"}
)

func TestWhatAGrainCovers(t *testing.T) {
	for _, test := range []struct {
		name    string
		next    *gate.Question
		covered bool
	}{
		{"the same", shellCall(2, "a", `,"x":1`, push), true},
		{"another command with the verb", shellCall(2, "b", `,"x":1`, push), true},
		{"another description and timeout", shellCall(2, "b", `,"x":1,"description":"d","timeout":7,"timeout_ms":8`, push), true},
		{"below", shellCall(2, "b", `,"x":1`, &gate.Grain{Program: "git", Verb: "push", Folder: "/p/q"}), true},
		{"steered", shellCall(2, "b", `,"x":1`, push, gate.FactSteered), true},
		{"elsewhere", shellCall(2, "b", `,"x":1`, &gate.Grain{Program: "git", Verb: "push", Folder: "/pq"}), false},
		{"another verb", shellCall(2, "b", `,"x":1`, &gate.Grain{Program: "git", Verb: "pull", Folder: "/p"}), false},
		{"another program", shellCall(2, "b", `,"x":1`, list), false},
		{"more than one command", shellCall(2, "b", `,"x":1`, alone), false},
		{"no grain", shellCall(2, "b", `,"x":1`, nil), false},
		{"no grain, and the same command", shellCall(2, "a", `,"x":1`, nil), false},
		{"something to ask about", shellCall(2, "b", `,"x":1`, push, gate.FactOutside), false},
		{"an argument that differs", shellCall(2, "b", `,"x":2`, push), false},
		{"an argument more", shellCall(2, "b", `,"x":1,"dangerouslyDisableSandbox":true`, push), false},
		{"an argument less", shellCall(2, "b", ``, push), false},
		{"an argument instead", shellCall(2, "b", `,"y":1`, push), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t, Options{})
			defer func() { h.close() }()
			if err := h.grantShell(shellCall(1, "a", `,"x":1`, push), Terms{For: time.Hour, Match: MatchVerb}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := h.use(test.next) != ""; got != test.covered {
					t.Errorf("covered %v, want %v", got, test.covered)
				}
				h.restart()
			}
			for _, v := range h.q.grants { // as if somebody had altered it
				v.g.Grain = nil
			}
			test.next.Call.Seq = 9
			if h.use(test.next) != "" {
				t.Error("a grant without a grain covers it")
			}
		})
	}
}

func TestGrainsThatAreNotGranted(t *testing.T) {
	for _, test := range []struct {
		asked       *gate.Question
		match, says string // "" if it is granted
	}{
		{shellCall(1, "a", "", push), MatchVerb, ""},
		{shellCall(1, "a", "", push, gate.FactSteered), MatchVerb, ""},
		{shellCall(1, "a", "", list), MatchProgram, ""},
		{shellCall(1, "a", "", list), MatchVerb, "use --match program"},
		{shellCall(1, "a", "", push), MatchProgram, "use --match verb"},
		{shellCall(1, "a", "", alone), MatchVerb, "it is two commands; grant it with the same arguments only"},
		{shellCall(1, "a", "", alone), MatchProgram, "it is two commands"},
		{shellCall(1, "a", "", push, gate.FactSecretPlace), MatchVerb, "the fact secret-place holds for this very command"},
		{shellCall(1, "a", "", push, gate.FactOurs), MatchVerb, "own files"},
		{shellCall(1, "a", "", nil), MatchVerb, "only a command line of the agent's own shell"},
		{shellCall(1, "a", "", push), "grain", "must be tool, args, some, verb or program"},
	} {
		h := newFixture(t, Options{})
		err := h.grantShell(test.asked, Terms{For: time.Hour, Match: test.match})
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, gate.ErrInvalid) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%+v %v, match %s: %v; want %q", test.asked.Call.Grain, test.asked.Facts, test.match, err, test.says)
		}
		h.close()
	}
}

func TestAGrainExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer func() { h.close() }()
		if err := h.grantShell(shellCall(1, "a", "", push), Terms{For: time.Hour, Match: MatchVerb}); err != nil {
			t.Fatal(err)
		}
		for _, r := range h.rec.records {
			if r.Grant != "" && !strings.Contains(r.Reason, "any number of calls of git push in /p and below, in the session, until") {
				t.Errorf("recorded %q", r.Reason)
			}
		}
		if h.use(shellCall(2, "b", "", push)) == "" {
			t.Error("it asks")
		}
		time.Sleep(time.Hour)
		if h.use(shellCall(3, "b", "", push)) != "" {
			t.Error("it is in force still")
		}
	})
}
