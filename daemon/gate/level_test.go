package gate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

type enrolled bool

func (e enrolled) Enrolled() bool { return bool(e) }

func TestLevels(t *testing.T) {
	for _, test := range []struct {
		name     string
		level    Level
		presence Presence
		facts    []Fact
		want     Level
		refused  string
	}{
		{"required", LevelPresence, enrolled(true), nil, LevelPresence, ""},
		{"required and not set up", LevelPresence, enrolled(false), nil, "", "tgctl presence enrol"},
		{"required where there is no guard", LevelPresence, nil, nil, "", "tgctl presence enrol"},
		{"required, in a rehearsal", LevelPresence, Assumed, nil, LevelPresence, ""},
		{"usual", LevelUsual, enrolled(true), []Fact{{Name: "acts"}, {Name: "new-place"}}, LevelWatch, ""},
		{"usual, of high risk", LevelUsual, enrolled(true), []Fact{{Name: "acts"}, {Name: "planted"}}, LevelPresence, ""},
		{"usual, of high risk, not set up", LevelUsual, enrolled(false), []Fact{{Name: "planted"}}, LevelWatch, ""},
		{"usual, of high risk, in a rehearsal", LevelUsual, Assumed, []Fact{{Name: "planted"}}, LevelWatch, ""},
		{"any, of high risk", LevelWatch, enrolled(true), []Fact{{Name: "secret"}}, LevelWatch, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture()
			h.gate.Presence, h.facts = test.presence, test.facts
			h.ruling = Ruling{Move: Ask, Workflow: "ops", Gate: "rule", Level: test.level}
			v, a := submitTo(h, shimX, aCall)
			defer a.Close(true)
			if test.refused != "" {
				if v.Move != Deny || !strings.Contains(v.Reason, test.refused) || h.asked != 0 {
					t.Errorf("got %v (%s), asked %d times", v.Move, v.Reason, h.asked)
				}
				return
			}
			if v.Move != Ask || h.question.Ruling.Level != test.want {
				t.Errorf("got %v at %q, want %q", v.Move, h.question.Ruling.Level, test.want)
			}
		})
	}
}

// The built-in questions are of high risk.
func TestOurOwnFilesNeedPresence(t *testing.T) {
	h := newFixture()
	h.gate.Presence, h.facts = enrolled(true), []Fact{{Name: "ours", Detail: "/cfg/thoughtgate.yaml"}}
	_, a := submitTo(h, shimX, aCall)
	defer a.Close(true)
	if h.question == nil || h.question.Ruling.Level != LevelPresence {
		t.Errorf("asked %+v", h.question)
	}
}

// An approval from before presence was required is no longer enough.
func TestPresenceIsAskedForMeanwhile(t *testing.T) {
	for _, test := range []struct {
		shown Level
		move  Move
	}{{LevelWatch, Deny}, {"", Deny}, {LevelPresence, Forward}} {
		h := newFixture()
		h.gate.Presence = enrolled(true)
		h.ruling = Ruling{Move: Ask, Workflow: "ops", Gate: "rule", Level: LevelWatch}
		a := h.gate.Attach(context.Background(), shimX, nil)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
		<-c
		h.set(func() { h.ruling.Level = LevelPresence })
		h.answers <- Answer{ID: "A-1", Approved: true, Level: test.shown}
		if v := <-c; v.Move != test.move || v.Move == Deny && !strings.Contains(v.Reason, "requires a presence proof") {
			t.Errorf("a yes at %q: got %v (%s)", test.shown, v.Move, v.Reason)
		}
		a.Close(true)
	}
}

// A call that continues an approved one is asked about again if an approval now requires more.
func TestRoundsAtAHigherLevel(t *testing.T) {
	r := newRounds(t)
	defer r.a.Close(true)
	r.h.gate.Presence = enrolled(true)
	r.calls("")
	r.answers(`"requestState":"s",`)
	r.h.set(func() { r.h.facts = []Fact{{Name: "secret"}} })
	before := r.h.asked
	r.seq++
	line := `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{` + modernMeta + `,"requestState":"s","name":"rm","arguments":{"path":"/x"}}}`
	r.a.Submit(Submission{Seq: r.seq, Side: wire.FromAgent, Line: []byte(line)})
	if v := <-r.c; v.Move != Ask || r.h.asked != before+1 || r.h.question.Ruling.Level != LevelPresence {
		t.Errorf("got %v, asked %d times more", v.Move, r.h.asked-before)
	}
}

// A colleague can prove presence by a key that is touched, so nothing has to be set up here for that.
func TestPresenceOfColleagues(t *testing.T) {
	for surface, want := range map[string]Move{SurfaceColleague: Ask, "terminal": Deny} {
		h := newFixture()
		h.gate.Presence = enrolled(false)
		h.ruling = Ruling{Move: Ask, Workflow: "ops", Gate: "rule", Level: LevelPresence, Surfaces: []string{surface}}
		v, a := submitTo(h, shimX, aCall)
		a.Close(true)
		if v.Move != want {
			t.Errorf("%s: %v (%s)", surface, v.Move, v.Reason)
		}
	}
}

// What is asked says what would be executed.
func TestQuestionHasDigest(t *testing.T) {
	h := newFixture()
	h.ruling = Ruling{Move: Ask, Workflow: "ops", Gate: "rule"}
	_, a := submitTo(h, shimX, aCall)
	defer a.Close(true)
	if h.question == nil || h.question.Digest != h.question.Call.Digest() || h.question.Digest == ([32]byte{}) {
		t.Errorf("asked %+v", h.question)
	}
}

// The agent learns why its question can't be asked, or is not answered soon.
func TestNoColleague(t *testing.T) {
	r := refusedQuestion(Ruling{Move: Ask}, fmt.Errorf("%w: this machine is in no fleet", ErrNoColleague))
	if r.Move != Deny || !strings.HasPrefix(r.Reason, "only a colleague may approve it") || !strings.Contains(r.Reason, "no fleet") {
		t.Errorf("denied because %q", r.Reason)
	}
	r = unapproved(Ruling{Move: Ask}, Answer{ID: "A-1", State: StateParked, Note: "nobody is there"})
	if !r.Parked || !strings.Contains(r.Reason, "nobody is there") {
		t.Errorf("parked because %q", r.Reason)
	}
}
