package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Which calls must be judged after which, depending on what both name.
func TestWhatACallWaitsFor(t *testing.T) {
	const project = "/p"
	named := func(paths ...string) Paths { return Paths{Named: paths} }
	missing := func(paths ...string) Paths { return Paths{Named: paths, Missing: paths} }
	with := func(p Paths, change func(*Paths)) Paths {
		change(&p)
		return p
	}
	reads := func(p Paths) Paths { return with(p, func(p *Paths) { p.Reads = true }) }
	links := func(p Paths) Paths { return with(p, func(p *Paths) { p.Links = true }) }
	twice := func(p Paths) Paths { return with(p, func(p *Paths) { p.Places = 2 }) }
	wide := func(p Paths) Paths { return with(p, func(p *Paths) { p.Wide = true }) }

	for _, tt := range []struct {
		name       string
		open, call Paths
		wait, must bool
	}{
		// An open call may create what is missing.
		{"a file below a folder", named("/p/out"), missing("/p/out/x"), true, false},
		{"a file below one that is missing", missing("/p/out"), missing("/p/out/x"), true, false},
		{"two places, one of them above it and missing", twice(missing("/p/out")), missing("/p/out/x"), true, true},
		{"two places, one of them above it and there", twice(named("/p/out")), missing("/p/out/x"), true, false},
		{"two places, one of them the same", twice(named("/p/out")), missing("/p/out"), true, true},
		{"two places, one of them below it", twice(named("/p/out/x")), missing("/p/out"), true, true},
		{"two places, both elsewhere", twice(named("/p/a", "/p/b")), missing("/p/out"), false, false},
		{"a name that begins like its own", twice(links(named("/p/out"))), missing("/p/output"), false, false},
		{"a link where the project is", links(named("/p")), missing("/p/out/x"), true, true},
		{"what only reads", reads(twice(named("/p/out"))), missing("/p/out/x"), false, false},
		{"a command", wide(Paths{}), missing("/p/out"), true, false},
		{"a command, and nothing is missing", wide(Paths{}), named("/p/out"), false, false},
		{"what is there", named("/p/out"), named("/p/out"), false, false},

		// This call may create what the open call finds missing.
		{"it links, and one that reads finds nothing there", reads(missing("/p/out/x")), links(named("/p/out")), true, true},
		{"it has two places, one of them above what is missing", missing("/p/out/x"), twice(named("/p/out")), true, true},
		{"it reads two places", missing("/p/out/x"), twice(reads(named("/p/out"))), false, false},
		{"it is a command", missing("/p/out"), wide(Paths{}), true, false},
		{"it is a command that reads", missing("/p/out"), reads(wide(Paths{})), false, false},
		{"it is a command, and nothing is missing", named("/p/out"), wide(Paths{}), false, false},

		// A tool whose name says that it links, moves or removes may do so to existing paths.
		{"a link in the place of a folder", links(named("/p/a")), named("/p/a/f"), true, true},
		{"a link in the place of the project", links(named("/p")), named("/p/a/f"), true, false},
		{"a link in the place of all", links(named("/")), named("/p/a/f"), true, false},
		{"a link elsewhere", links(named("/p/b")), named("/p/a/f"), false, false},
		{"it moves the folder around", named("/p/a/f"), links(named("/p/a")), true, true},
		{"it moves the folder around what is read", reads(named("/p/a/f")), links(named("/p/a")), false, false},
	} {
		if wait, must := tt.call.after(&tt.open, project); wait != tt.wait || must != tt.must {
			t.Errorf("%s: waits %v, must %v", tt.name, wait, must)
		}
	}
}

// register registers a call of which nothing is known yet.
func (h *fixture) register(c *Call) []*openCall {
	if !h.gate.canBeOpen(c) {
		return nil
	}
	return h.gate.registerOpenCall(c, nil)
}

// pathsOf is a Facts that knows what calls name.
type pathsOf struct {
	*fixture
	of func(context.Context, *Call) Paths
}

func (p pathsOf) Paths(ctx context.Context, c *Call) Paths { return p.of(ctx, c) }

func (p pathsOf) FactsAndPaths(ctx context.Context, c *Call) ([]Fact, Paths) {
	return p.Of(ctx, c), p.of(ctx, c)
}

// openFixture returns a gate for which each call names the folder /p/out, and a call that puts
// something there names two paths.
func openFixture() *fixture {
	h := newFixture()
	h.gate.Open = new(OpenCalls)
	h.gate.Facts = pathsOf{h, func(context.Context, *Call) Paths {
		return Paths{Named: []string{"/p/out"}, Missing: []string{"/p/out"}, Places: 2}
	}}
	return h
}

func beginCall(t *testing.T, h *fixture, session, attachment string, seq uint64, method, params string) *Call {
	t.Helper()
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, seq, method, params)
	c, err := h.gate.Read(Shim{Attachment: attachment, Session: session, Server: "files"}, Submission{Seq: seq, Side: wire.FromAgent, Line: line})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// All calls of a session that may be executed are open, of whatever kind. An attachment
// without a session is on its own.
func TestWhichCallsAreOpen(t *testing.T) {
	const tool, resource = `{"name":"put","arguments":{}}`, `{"uri":"file:///p/out"}`
	h := openFixture()
	for i, step := range []struct {
		session, attachment string
		seq                 uint64
		method, params      string
		before              int
	}{
		{"", "a", 1, "tools/call", tool, 0},
		{"", "a", 2, "tools/call", tool, 1},
		{"", "b", 1, "tools/call", tool, 0}, // another one without a session
		{"s", "a", 1, "tools/call", tool, 0},
		{"s", "b", 1, "tools/call", tool, 1},
		{"s", "b", 1, "tools/call", tool, 1}, // again, as when it is judged again
		{"s", "a", 2, "tools/list", `{}`, 0},
		{"s", "a", 3, "resources/read", resource, 2},
		{"s", "a", 4, "prompts/get", `{"name":"p"}`, 3},
		{"s", "a", 5, "tools/call", tool, 4},
		{"other", "c", 1, "tools/call", tool, 0},
	} {
		if n := len(h.register(beginCall(t, h, step.session, step.attachment, step.seq, step.method, step.params))); n != step.before {
			t.Errorf("step %d: %d calls are open before it, want %d", i, n, step.before)
		}
	}
	// Each call ends separately.
	h.gate.removeOpenCalls(&Shim{Session: "s", Attachment: "b"}, func(o *openCall) bool { return o.seq == 3 })
	if n := len(h.register(beginCall(t, h, "s", "d", 1, "tools/call", tool))); n != 5 {
		t.Errorf("after another attachment's call of that number: %d calls are open", n)
	}
	h.gate.removeOpenCalls(&Shim{Session: "s", Attachment: "a"}, func(o *openCall) bool { return o.seq == 3 })
	if n := len(h.register(beginCall(t, h, "s", "d", 2, "tools/call", tool))); n != 5 {
		t.Errorf("after the end of one of six: %d calls are open", n)
	}
}

// A call that waits reads what an earlier one names even if that one has ended and new ones have
// begun.
func TestOpenCallsAreNotReusedWhileRead(t *testing.T) {
	h := openFixture()
	h.gate.Facts = pathsOf{h, func(_ context.Context, c *Call) Paths { return Paths{Named: []string{fmt.Sprint("/p/", c.Seq)}} }}
	begin := func(seq uint64) []*openCall {
		return h.register(beginCall(t, h, "s", "a", seq, "tools/call", `{"name":"put","arguments":{}}`))
	}
	end := func(seq uint64) {
		h.gate.removeOpenCalls(&Shim{Session: "s", Attachment: "a"}, func(o *openCall) bool { return o.seq == seq })
	}
	begin(1)
	end(1) // nobody has seen it
	begin(2)
	seen := begin(3)
	end(2)
	end(3)
	begin(4)
	begin(5)
	if len(seen) != 1 || seen[0].seq != 2 {
		t.Fatalf("%d calls are open before the third", len(seen))
	}
	if p := h.gate.pathsOf(seen[0]); !slices.Equal(p.Named, []string{"/p/2"}) {
		t.Errorf("the second call names %v", p.Named)
	}
}

// A call that is not kept, or was changed since, may name anything.
func TestOpenCallsThatMayNameAnything(t *testing.T) {
	h := openFixture()
	big := `{"name":"put","arguments":{"a":"` + strings.Repeat("x", maxOpenBytes*2/3) + `"}}`
	h.register(beginCall(t, h, "long", "a", 1, "tools/call", big))
	h.register(beginCall(t, h, "long", "a", 2, "tools/call", big))
	changed := beginCall(t, h, "changed", "a", 1, "tools/call", `{"name":"put"}`)
	changed.hooks = &hooked{}
	changed.hooks.Changed = []byte(`{}`)
	h.register(changed)
	for i := range uint64(mostOpen + 3) {
		h.register(beginCall(t, h, "many", "a", i+1, "tools/call", `{"name":"put"}`))
	}
	for session, want := range map[string][]bool{"long": {false, true}, "changed": {true}, "many": {true, false}} {
		open := h.register(beginCall(t, h, session, "b", 1, "tools/call", `{"name":"put"}`))
		var wide []bool
		for _, o := range open[:min(len(open), 2)] {
			wide = append(wide, h.gate.pathsOf(o).Wide)
		}
		if !slices.Equal(wide, want) || len(open) > mostOpen {
			t.Errorf("%s: of %d open calls the first may name anything: %v, want %v", session, len(open), wide, want)
		}
	}
	// What was sent after the many does not affect the call that stands for the oldest.
	h.gate.removeOpenCalls(&Shim{Session: "many", Attachment: "a"}, func(o *openCall) bool { return o.seq > 9 })
	if open := h.register(beginCall(t, h, "many", "c", 1, "tools/call", `{"name":"put"}`)); len(open) == 0 || !h.gate.pathsOf(open[0]).Wide {
		t.Errorf("the oldest are forgotten: %d are open", len(open))
	}

	synctest.Test(t, func(t *testing.T) {
		endless := pathsOf{h, func(ctx context.Context, _ *Call) Paths {
			<-ctx.Done()
			return Paths{}
		}}
		g := Gate{Facts: endless}
		if !g.pathsOf(&openCall{call: new(Call)}).Wide {
			t.Error("what could not be looked at in time may not name anything")
		}
	})
}

// A call that must be answered first is waited for as long as judging may take, any other
// until it has been open for that long. Without the former, the waiting call is denied.
func TestHowLongACallWaits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sure    bool
		answer  time.Duration // after which it is answered; 0 for never
		took    time.Duration
		refused bool
	}{
		{"it may link, and is never answered", true, 0, judgeTimeout, true},
		{"it may link, and is answered", true, 3 * time.Second, 3 * time.Second, false},
		{"it does not, and is never answered", false, 0, judgeTimeout - 2*time.Second, false},
		{"it does not, and is answered", false, time.Second, time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &openCall{begun: time.Now(), answered: make(chan struct{})}
				time.Sleep(2 * time.Second) // of the bubble's clock
				start := time.Now()
				if tt.answer > 0 {
					time.AfterFunc(tt.answer, func() { close(o.answered) })
				}
				all, sure := []*openCall{o}, []*openCall(nil)
				if tt.sure {
					sure = all
				}
				err := awaitAnswers(t.Context(), all, sure)
				if took := time.Since(start); took != tt.took || (err != nil) != tt.refused {
					t.Errorf("it waited %v, then %v", took, err)
				}
			})
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("taken back"))
	o := &openCall{begun: time.Now(), answered: make(chan struct{})}
	if err := awaitAnswers(ctx, []*openCall{o}, []*openCall{o}); err != nil {
		t.Errorf("nobody waits: %v", err)
	}
}

// The development profile holds nothing up. In production a call waits, and is denied if too
// many calls already wait.
func TestWhoHasToWait(t *testing.T) {
	for profile, waits := range map[Profile]bool{Development: false, Production: true} {
		h := openFixture()
		h.profile = profile
		a := h.gate.Attach(context.Background(), Shim{Attachment: "a", Session: "s", Server: "files"}, nil)
		a.mustWait(beginCall(t, h, "s", "a", 1, "tools/call", `{"name":"put"}`))
		c := beginCall(t, h, "s", "a", 2, "tools/call", `{"name":"put"}`)
		all, sure := a.mustWait(c)
		if (len(all) == 1) != waits || (len(sure) == 1) != waits || c.Waited != waits {
			t.Errorf("%s: it waits for %d calls, surely for %d", profile, len(all), len(sure))
		}
		a.Close(true)
	}
	synctest.Test(t, func(t *testing.T) {
		h := openFixture()
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		verdicts := make(chan Verdict, maxHooked+9)
		a.Bind(func(v Verdict) { verdicts <- v })
		for seq := range uint64(maxHooked + 2) {
			a.Submit(Submission{Seq: seq + 1, Side: wire.FromAgent, Line: []byte(aCall)})
		}
		synctest.Wait()
		got := map[Move]int{}
		for range len(verdicts) {
			v := <-verdicts
			got[v.Move]++
			if v.Move == Deny && !strings.Contains(v.Reason, "too many calls wait") {
				t.Errorf("refused: %s", v.Reason)
			}
		}
		if got[Forward] != 1 || got[Ask] != maxHooked || got[Deny] != 1 {
			t.Errorf("%d go on, %d wait, %d are refused", got[Forward], got[Ask], got[Deny])
		}
	})
}

// An approved call, with the agent's arguments or a person's, waits for calls that came
// meanwhile, and is denied if those are not answered.
func TestAnApprovedCallWaits(t *testing.T) {
	for name, edit := range map[string][]byte{"as it was": nil, "with other arguments": []byte(`{"path":"/p/out"}`)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openFixture()
				h.gate.Facts = pathsOf{h, func(_ context.Context, c *Call) Paths {
					if name != "as it was" && !strings.Contains(string(c.Line), "/p/out") {
						return Paths{}
					}
					return Paths{Named: []string{"/p/out"}, Missing: []string{"/p/out"}, Places: 2}
				}}
				h.ruling = Ruling{Move: Ask, Gate: "rule", Workflow: "ops"}
				a := h.gate.Attach(context.Background(), shimX, nil)
				defer a.Close(true)
				verdicts := collect(a)
				a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
				if v := <-verdicts; v.Move != Ask {
					t.Fatalf("got %v %s", v.Move, v.Reason)
				}
				other := beginCall(t, h, "", shimX.Attachment, 2, "tools/call", `{"name":"put","arguments":{"path":"/p/out"}}`)
				h.register(other)
				h.answers <- Answer{ID: "A-1", Approved: true, State: "approved", Edit: edit}
				if v := <-verdicts; v.Move != Deny || !strings.Contains(v.Reason, "was not answered within") {
					t.Errorf("got %v %s", v.Move, v.Reason)
				}
			})
		})
	}
}

// A call that waits for one that may link and is never answered is denied.
func TestACallThatWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openFixture()
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		verdicts := collect(a)
		for seq, want := range []Move{Forward, Ask, Deny} {
			if seq < 2 {
				a.Submit(Submission{Seq: uint64(seq + 1), Side: wire.FromAgent, Line: []byte(aCall)})
			}
			if v := <-verdicts; v.Move != want {
				t.Errorf("verdict %d: got %v %s", seq, v.Move, v.Reason)
			}
		}
	})
}
