package approval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// callWith returns a call with these raw arguments, in session s of project /p.
func callWith(seq uint64, arguments string) *gate.Question {
	q := asked("a", seq)
	line := []byte(`{"id":1,"params":{"name":"drop","arguments":` + arguments + `}}`)
	at := strings.Index(string(line), `"arguments":`) + len(`"arguments":`)
	q.Call.Line = line
	q.Call.Envelope = wire.Envelope{
		Params:    wire.Span{Start: strings.Index(string(line), `{"name"`), End: len(line) - 1},
		Arguments: wire.Span{Start: at, End: at + len(arguments)},
	}
	q.Call.Definition[0] = 1
	q.Call.Extent = gate.Extent{"files": 2}
	q.Subject = q.Call.Digest()
	return q
}

func (h *fixture) grant(terms Terms) (*Grant, error) {
	h.t.Helper()
	held := h.askFor(callWith(1, `{"table":"t1","key":"k"}`))
	shown, err := h.q.Get(ctx, held.ID())
	if err != nil {
		h.t.Fatal(err)
	}
	ended, err := h.q.Decide(ctx, Decision{ID: shown.ID, Subject: shown.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Terms: &terms})
	return ended.Given, err
}

func (h *fixture) use(q *gate.Question) string {
	h.t.Helper()
	used, err := h.q.Use(ctx, q)
	if err != nil {
		h.t.Fatal(err)
	}
	if used == nil {
		return ""
	}
	if used.Approval != "A-1" || used.Decider != "uid 1" {
		h.t.Errorf("used %+v", used)
	}
	return used.ID
}

func TestWhatAGrantCovers(t *testing.T) {
	same := `{"table":"t1","key":"k"}`
	for _, test := range []struct {
		name      string
		terms     Terms
		arguments string
		change    func(*gate.Question)
		covered   bool
	}{
		{"equal arguments", Terms{}, same, nil, true},
		{"other arguments", Terms{}, `{"table":"t2","key":"k"}`, nil, false},
		{"a blank more", Terms{}, `{"table":"t1", "key":"k"}`, nil, false},
		{"any arguments", Terms{Match: MatchTool}, `{"table":"t2"}`, nil, true},
		{"one that is equal", Terms{Match: MatchSome, Args: []string{"table"}}, `{"key":"z","table":"t1"}`, nil, true},
		{"one that is not", Terms{Match: MatchSome, Args: []string{"table"}}, `{"table":"t2","key":"k"}`, nil, false},
		{"one that is missing", Terms{Match: MatchSome, Args: []string{"table"}}, `{"key":"k"}`, nil, false},
		{"another session", Terms{}, same, func(q *gate.Question) { q.Call.Session = "t" }, false},
		{"another session of the project", Terms{Scope: InProject}, same, func(q *gate.Question) { q.Call.Session = "t" }, true},
		{"another project", Terms{Scope: InProject}, same, func(q *gate.Question) { q.Call.Session, q.Call.Project = "t", "/q" }, false},
		{"a shim that only says so", Terms{Scope: InProject}, same, func(q *gate.Question) { q.Call.Session = "" }, false},
		{"wherever", Terms{Scope: Always}, same, func(q *gate.Question) { q.Call.Session, q.Call.Project = "", "/q" }, true},
		{"another agent", Terms{Scope: Always}, same, func(q *gate.Question) { q.Call.Agent = "cursor" }, false},
		{"one whose agent is its own word", Terms{Scope: Always}, same, func(q *gate.Question) { q.Call.Claimed = true }, false},
		{"one whose project is its own word", Terms{Scope: InProject}, same, func(q *gate.Question) { q.Call.Claimed = true }, false},
		{"one that was granted in its own session", Terms{}, same, func(q *gate.Question) { q.Call.Claimed = true }, true},
		{"another server", Terms{Scope: Always}, same, func(q *gate.Question) { q.Call.Server = "db2" }, false},
		{"another launch", Terms{Scope: Always}, same, func(q *gate.Question) { q.Call.Launch = "l2" }, false},
		{"another tool", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Call.Subject = "create" }, false},
		{"another method", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Call.Method = "prompts/get" }, false},
		{"another definition", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Call.Definition[0] = 2 }, false},
		{"no definition", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Call.Definition[0] = 0 }, false},
		{"another workflow", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Ruling.Workflow = "strict" }, false},
		{"another rule", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Ruling.Basis.Rule[0]++ }, false},
		{"the rule in another place", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Ruling.Rule = "further down" }, true},
		{"the workflow says something else", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Ruling.Basis.Workflow[0]++ }, false},
		{"more that is true of it", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Facts = append(q.Facts, gate.Fact{Name: "secret"}) }, false},
		{"less that is true of it", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Facts = nil }, true},
		{"as much as it destroyed", Terms{}, same, func(q *gate.Question) { q.Call.Extent = gate.Extent{"files": 2} }, true},
		{"less than it destroyed", Terms{}, same, func(q *gate.Question) { q.Call.Extent = gate.Extent{"files": 1} }, true},
		{"nothing that it destroys", Terms{}, same, func(q *gate.Question) { q.Call.Extent = nil }, true},
		{"more than it destroyed", Terms{}, same, func(q *gate.Question) { q.Call.Extent = gate.Extent{"files": 400} }, false},
		{"something else that it destroys", Terms{}, same, func(q *gate.Question) { q.Call.Extent = gate.Extent{"commits": 1} }, false},
		{"our own files", Terms{Match: MatchTool}, same, func(q *gate.Question) { q.Facts = []gate.Fact{{Name: "ours"}} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t, Options{})
			defer func() { h.close() }()
			test.terms.For = time.Hour
			g, err := h.grant(test.terms)
			if err != nil || g == nil || g.ID != "G-1" {
				t.Fatalf("%+v, %v", g, err)
			}
			for _, restart := range []bool{false, true} {
				if restart {
					h.restart()
				}
				q := callWith(2, test.arguments)
				if test.change != nil {
					test.change(q)
				}
				if got := h.use(q) != ""; got != test.covered {
					t.Errorf("restart %v: covered %v, want %v", restart, got, test.covered)
				}
			}
		})
	}
}

// What a tool of the agent itself does follows from its arguments: a call of which anything is true
// that a person may want to know is approved alone, and no grant for others covers it.
func TestAGrantIsNotWiderThanWhatWasShown(t *testing.T) {
	facts := []string{
		gate.FactSecret, gate.FactSecretPlace, gate.FactOpaque, gate.FactRemote, gate.FactPlanted, gate.FactPrompted, gate.FactActs, gate.FactSends,
		gate.FactNewPlace, gate.FactOutside, gate.FactUnlisted, gate.FactDestroys, gate.FactUploads, gate.FactInstalls, gate.FactNetworkCode, gate.NoUndo, "later",
	}
	for tool, argument := range map[string]string{agenthook.Shell: "command", agenthook.Read: "path", agenthook.Write: "path", agenthook.Fetch: "url"} {
		own := func(seq uint64, value string, facts ...string) *gate.Question {
			q := callWith(seq, fmt.Sprintf(`{"cwd":"/p",%q:%q}`, argument, value))
			q.Call.Server, q.Call.Subject, q.Call.Extent, q.Facts = agenthook.Server, tool, nil, nil
			q.Subject = q.Call.Digest()
			for _, name := range facts {
				q.Facts = append(q.Facts, gate.Fact{Name: name})
			}
			return q
		}
		for _, terms := range []Terms{{Match: MatchTool}, {Match: MatchSome, Args: []string{"cwd"}}} {
			terms.For = time.Hour
			h := newFixture(t, Options{})
			decide := func(q *gate.Question, terms Terms) error {
				id := h.askFor(q).ID()
				_, err := h.q.Decide(ctx, Decision{ID: id, Subject: q.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Terms: &terms})
				return err
			}
			if err := decide(own(1, "a", gate.FactSteered), terms); err != nil {
				t.Fatal(err)
			}
			if h.use(own(2, "b")) == "" || h.use(own(3, "b", gate.FactSteered, gate.Undo)) == "" {
				t.Errorf("%s, match %s: a harmless call is not covered", tool, terms.Match)
			}
			for i, fact := range facts {
				if h.use(own(4, fact, fact)) != "" {
					t.Errorf("%s, match %s: a call with %s is covered", tool, terms.Match, fact)
				}
				for _, v := range h.q.grants { // as if somebody had altered it
					v.g.Facts = facts
				}
				if h.use(own(5, fact, fact)) != "" {
					t.Errorf("%s, match %s: a call with %s is covered by an altered grant", tool, terms.Match, fact)
				}
				seq := uint64(10 + i)
				if err := decide(own(seq, fact, fact), terms); !errors.Is(err, gate.ErrInvalid) || !strings.Contains(fmt.Sprint(err), fact) {
					t.Errorf("%s, match %s: an approval of a call with %s was widened: %v", tool, terms.Match, fact, err)
				} else if err := decide(own(seq, fact, fact), Terms{For: time.Hour}); err != nil {
					t.Errorf("%s with %s: the same call can't be granted: %v", tool, fact, err)
				}
			}
			h.close()
		}
	}
}

// A person who is asked again because a call destroys more than with the grant learns that.
func TestAGrantThatCoversLess(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	destroys := func(seq uint64, n int) *gate.Question {
		q := callWith(seq, `{}`)
		q.Call.Extent = gate.Extent{"files": n}
		q.Facts = []gate.Fact{{Name: gate.FactDestroys, Detail: fmt.Sprintf("deletes %d files", n)}}
		return q
	}
	shown, err := h.q.Get(ctx, h.askFor(destroys(1, 2)).ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.q.Decide(ctx, Decision{ID: shown.ID, Subject: shown.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Terms: &Terms{For: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	for n, want := range map[int]string{2: "why", 400: "why; approved before (G-1) when it destroyed less: deletes 2 files"} {
		q := destroys(uint64(n), n)
		if covered := h.use(q) != ""; covered != (n == 2) || q.Ruling.Reason != want {
			t.Errorf("%d files: covered %v, %q; want %q", n, covered, q.Ruling.Reason, want)
		}
	}
}

// A grant, whatever arguments it is for, covers only calls with the same other params.
func TestAGrantCoversNothingElseBesideTheArguments(t *testing.T) {
	with := func(seq uint64, agent, beside string) *gate.Question {
		g := &gate.Gate{}
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"drop","arguments":{"table":"t1"}%s}}`, seq, beside)
		c, err := g.Read(gate.Shim{Attachment: "a", Session: "s", Agent: agent, Server: "db"}, gate.Submission{Seq: seq, Line: line})
		if err != nil {
			t.Fatal(err)
		}
		q := asked("a", seq)
		q.Call, q.Subject = c, c.Digest()
		return q
	}
	const claude = "claude-code"
	for _, match := range []Terms{{}, {Match: MatchTool}, {Match: MatchSome, Args: []string{"table"}}} {
		for _, test := range []struct {
			agent, asked, comes string
			covered             bool
		}{
			{claude, ``, ``, true},
			{claude, ``, `,"_meta":{"progressToken":7,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`, true},
			{claude, `,"_meta":{"progressToken":7}`, `,"_meta":{"progressToken":"x8"}`, true},
			{claude, `,"_meta":{"a":1,"progressToken":7}`, `,"_meta":{"a":1}`, true},
			{claude, `,"_meta":{"claudecode/toolUseId":"toolu_1"}`, `,"_meta":{"claudecode/toolUseId":"toolu_2"}`, true},
			{"cursor", `,"_meta":{"claudecode/toolUseId":"toolu_1"}`, `,"_meta":{"claudecode/toolUseId":"toolu_2"}`, false},
			{claude, `,"_meta":{"claudecode/toolUseId":"toolu_1"}`, `,"_meta":{"claudecode/toolUseId":"toolu_1 and more"}`, false},
			{claude, ``, `,"_meta":{"a":1}`, false},
			{claude, `,"_meta":{"a":1}`, ``, false},
			{claude, `,"_meta":{"a":1}`, `,"_meta":{"a":2}`, false},
			{claude, `,"_meta":{"progressToken":7}`, `,"_meta":{"progressToken":{"any":"thing"}}`, false},
			{claude, `,"_meta":{"progressToken":7}`, `,"_meta":{"progressToken":"a sentence"}`, false},
			{claude, ``, `,"task":{"ttl":1}`, false},
			{claude, `,"task":{"ttl":1}`, `,"task":{"ttl":2}`, false},
			{claude, ``, `,"destination":"prod"`, false},
			{claude, `,"destination":"test"`, `,"destination":"prod"`, false},
			{claude, ``, `,"inputResponses":{"a":{"action":"accept"}}`, false},
			{claude, ``, `,"requestState":"s"`, false},
		} {
			h := newFixture(t, Options{})
			h.askFor(with(1, test.agent, test.asked))
			shown := h.q.List(false)[0]
			match.For = time.Hour
			if _, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: shown.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Terms: &match}); err != nil {
				t.Fatal(err)
			}
			for seq := uint64(2); seq < 4; seq++ {
				if got := h.use(with(seq, test.agent, test.comes)) != ""; got != test.covered {
					t.Errorf("match %q, %s: asked with %q, a call with %q: covered %v", match.Match, test.agent, test.asked, test.comes, got)
				}
				h.restart()
			}
			h.close()
		}
	}
}

// Grants and approvals of a release that did not check the other params approve nothing.
func TestAnEarlierReleasesYes(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	g, err := h.grant(Terms{For: time.Hour, Match: MatchTool})
	if err != nil {
		t.Fatal(err)
	}
	old := *g
	old.Beside = nil
	if err := h.db.AddGrant(ctx, &old); err != nil {
		t.Fatal(err)
	}
	if _, err := h.q.Revoke(ctx, g.ID, "uid 1"); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if got := h.use(callWith(2, `{"table":"t1","key":"k"}`)); got != "" {
		t.Errorf("it lets a call through: %s", got)
	}
	all, err := h.q.Grants(ctx, true)
	if err != nil || len(all) != 2 || !strings.Contains(all[0].End, "give it again") {
		t.Errorf("%+v, %v", all, err)
	}
	// A question of that release can be answered, but without a grant.
	q := callWith(3, `{}`)
	q.Subject = [32]byte{3}
	h.askFor(q)
	e := h.q.open["A-2"]
	e.q.Members[""] = e.q.Members[""][:32]
	if _, err := h.q.Decide(ctx, Decision{ID: "A-2", Subject: q.Subject[:], Approve: true, Terms: &Terms{For: time.Hour}}); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("granted: %v", err)
	}
}

func TestWhatCannotBeGranted(t *testing.T) {
	for name, test := range map[string]struct {
		terms  Terms
		change func(*gate.Question)
	}{
		"no time":                 {Terms{}, nil},
		"too long":                {Terms{For: 30*24*time.Hour + 1}, nil},
		"a scope nobody knows":    {Terms{For: time.Hour, Scope: "forever"}, nil},
		"a match nobody knows":    {Terms{For: time.Hour, Match: "all"}, nil},
		"an argument not there":   {Terms{For: time.Hour, Match: MatchSome, Args: []string{"x"}}, nil},
		"the empty argument":      {Terms{For: time.Hour, Match: MatchArgs, Args: []string{""}}, nil},
		"no argument":             {Terms{For: time.Hour, Match: MatchSome}, nil},
		"our own files":           {Terms{For: time.Hour, Scope: Always}, func(q *gate.Question) { q.Facts = []gate.Fact{{Name: "ours"}} }},
		"what destroys, widely":   {Terms{For: time.Hour, Match: MatchTool}, func(q *gate.Question) { q.Call.Server, q.Facts = agenthook.Server, []gate.Fact{{Name: "destroys"}} }},
		"code of the network":     {Terms{For: time.Hour, Match: MatchSome, Args: []string{"table"}}, func(q *gate.Question) { q.Call.Server, q.Facts = agenthook.Server, []gate.Fact{{Name: "network-code"}} }},
		"a session without one":   {Terms{For: time.Hour}, func(q *gate.Question) { q.Call.Session = "" }},
		"a project without a one": {Terms{For: time.Hour, Scope: InProject}, func(q *gate.Question) { q.Call.Session = "" }},
		"what a server asks":      {Terms{For: time.Hour, Scope: Always}, func(q *gate.Question) { q.Call.Side = wire.FromServer }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, Options{})
			defer h.close()
			q := callWith(1, `{"table":"t1"}`)
			if test.change != nil {
				test.change(q)
			}
			h.askFor(q)
			_, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Terms: &test.terms})
			if !errors.Is(err, gate.ErrInvalid) {
				t.Errorf("got %v", err)
			}
			if got := h.states(true); !slices.Equal(got, []string{"A-1 open"}) {
				t.Errorf("now %q", got)
			}
			if grants, err := h.q.Grants(ctx, true); err != nil || len(grants) != 0 {
				t.Errorf("granted %+v, %v", grants, err)
			}
		})
	}
}

// A grant ends once, by use, by time, by a person or by a change, and its end is
// recorded.
func TestAGrantEnds(t *testing.T) {
	same := func(seq uint64) *gate.Question { return callWith(seq, `{"table":"t1","key":"k"}`) }
	for verdict, end := range map[string]func(*testing.T, *fixture){
		"used up": func(t *testing.T, h *fixture) {
			for seq := uint64(2); seq < 4; seq++ {
				if h.use(same(seq)) == "" {
					t.Errorf("call %d asks", seq)
				}
			}
		},
		"expired": func(_ *testing.T, h *fixture) { time.Sleep(time.Hour) },
		"revoked": func(t *testing.T, h *fixture) {
			if g, err := h.q.Revoke(ctx, "G-1", "uid 2"); err != nil || g.End != "revoked by uid 2" {
				t.Errorf("%+v, %v", g, err)
			}
		},
		"void": func(t *testing.T, h *fixture) {
			q := same(2)
			q.Call.Definition[0] = 9
			if h.use(q) != "" {
				t.Error("another definition is covered")
			}
		},
	} {
		t.Run(verdict, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(t, Options{})
				defer func() { h.close() }()
				if _, err := h.grant(Terms{For: time.Hour, Times: 2}); err != nil {
					t.Fatal(err)
				}
				end(t, h)
				for range 2 {
					if h.use(same(9)) != "" {
						t.Error("it is in force still")
					}
					if _, err := h.q.Revoke(ctx, "G-1", "uid 2"); !errors.Is(err, gate.ErrNotFound) {
						t.Errorf("revoked again: %v", err)
					}
					if grants, err := h.q.Grants(ctx, true); err != nil || len(grants) != 1 || grants[0].End == "" {
						t.Errorf("%+v, %v", grants, err)
					}
					h.restart()
				}
				var got []string
				for _, r := range h.rec.records {
					if r.Grant != "" {
						got = append(got, fmt.Sprint(r.Kind, " ", r.Grant, " ", r.Approval, " ", r.Verdict, " ", r.Profile))
					}
				}
				if want := []string{"grant G-1 A-1 granted production", "grant G-1 A-1 " + verdict + " production"}; !slices.Equal(got, want) {
					t.Errorf("recorded %q, want %q", got, want)
				}
			})
		})
	}
}

// A grant that can't be recorded is not given; the approval it came with counts once.
func TestAGrantThatCannotBeRecorded(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	full := errors.New("no space left on device")
	h.askFor(callWith(1, `{}`))
	shown := h.q.List(false)[0]
	h.rec.fail(full)
	_, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: shown.Subject[:], Approve: true, Terms: &Terms{For: time.Hour}})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if h.use(callWith(2, `{}`)) != "" {
		t.Error("it is granted")
	}
}

// Grants are stored as digests that reveal nothing about the arguments.
func TestGrantsKeepNoArguments(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	one, err := h.grant(Terms{For: time.Hour, Match: MatchSome, Args: []string{"key"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(one.Members["key"]) != 32 || slices.Equal(one.Members["key"], digests(callWith(1, `{"key":"k"}`).Call)["key"]) {
		t.Errorf("kept %x", one.Members["key"])
	}
}

// A call that is submitted again while the daemon runs counts once; if it has facts by
// then that the grant does not cover, a person is asked.
func TestACallThatComesAgainIsNotCountedTwice(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	g, err := h.grant(Terms{For: time.Hour, Times: 2, Match: MatchTool})
	if err != nil {
		t.Fatal(err)
	}
	first, second := callWith(2, `{"n":1}`), callWith(3, `{"n":2}`)
	for _, q := range []*gate.Question{first, first, second} {
		if got := h.use(q); got != g.ID {
			t.Errorf("call %d is let through by %q", q.Call.Seq, got)
		}
	}
	more := *second
	more.Facts = append(slices.Clone(second.Facts), gate.Fact{Name: "secret"})
	stricter := *second
	stricter.Ruling.Level = gate.LevelPresence
	for range 2 {
		for _, q := range []*gate.Question{&more, &stricter} {
			if got := h.use(q); got != "" {
				t.Errorf("more is asked of it, and it is let through by %s", got)
			}
		}
		h.restart()
	}
	if got := h.use(second); got != g.ID {
		t.Errorf("as it was, it is let through by %q", got)
	}
}

// A call that is submitted again because the daemon died before recording it counts once,
// even if it was the last one that the grant approves. A different call with its number
// is not approved, and a revoked grant approves nothing.
func TestACallThatComesAgainCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer func() { h.close() }()
		g, err := h.grant(Terms{For: time.Hour, Times: 2, Match: MatchTool})
		if err != nil {
			t.Fatal(err)
		}
		first, last := callWith(2, `{"n":1}`), callWith(3, `{"n":2}`)
		if h.use(first) != g.ID || h.use(last) != g.ID {
			t.Fatal("it lets nothing through")
		}
		h.restart()
		if got := h.use(callWith(2, `{"n":3}`)); got != "" {
			t.Errorf("another call of that number is let through by %s", got)
		}
		for _, again := range []*gate.Question{first, last} {
			if got := h.use(again); got != g.ID {
				t.Errorf("call %d comes again, and is let through by %q", again.Call.Seq, got)
			}
			if got := h.use(again); got != "" {
				t.Errorf("call %d comes a third time, and is let through by %q", again.Call.Seq, got)
			}
		}
		if all, err := h.q.Grants(ctx, true); err != nil || len(all) != 1 || all[0].Used != 2 {
			t.Errorf("grants %+v, %v; want one that was used twice", all, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer func() { h.close() }()
		g, err := h.grant(Terms{For: time.Hour, Match: MatchTool})
		if err != nil {
			t.Fatal(err)
		}
		used := callWith(2, `{"n":1}`)
		h.use(used)
		h.restart()
		if _, err := h.q.Revoke(ctx, g.ID, "uid 1"); err != nil {
			t.Fatal(err)
		}
		if got := h.use(used); got != "" {
			t.Errorf("taken back, and still let through by %s", got)
		}
	})
}
