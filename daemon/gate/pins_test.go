package gate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// shelf is a Pins that holds by name and stores what it was called with.
type shelf struct {
	held     map[string]string
	digest   byte
	facts    []Fact
	err      error
	offered  []string
	relisted []string
	left     []string
}

func (s *shelf) Listed(_ context.Context, _ *Call, offered []Offered) ([]Pinned, error) {
	if s.err != nil {
		return nil, s.err
	}
	pinned := make([]Pinned, len(offered))
	for i, o := range offered {
		s.offered = append(s.offered, o.Name+" "+string(o.Raw)+" "+o.Unfit)
		if pinned[i].Held = s.held[o.Name]; pinned[i].Held != "" {
			pinned[i].Facts = s.facts
		}
	}
	return pinned, nil
}

func (s *shelf) Of(c *Call) Pinned {
	return Pinned{Digest: [32]byte{s.digest}, Held: s.held[c.Subject], Facts: s.facts}
}
func (s *shelf) Holds(_ *Call, _, name string) bool { return s.held[name] != "" }
func (s *shelf) Relist(attachment, method string)   { s.relisted = append(s.relisted, method) }
func (s *shelf) Left(attachment string)             { s.left = append(s.left, attachment) }

func withPins(h *fixture) *shelf {
	s := &shelf{held: map[string]string{}, digest: 1}
	h.gate.Pins = s
	return s
}

const why = "the definition of this tool changed since it was accepted, and a person must review it: `tgctl tools diff files/rm`"

func TestHeldDefinitions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fixture, *shelf)
		move   Move
		record string
		gate   string
		answer string
	}{
		{"accepted", func(*fixture, *shelf) {}, Forward, "call:forward", "rule", ""},
		{"held", func(_ *fixture, s *shelf) { s.held["rm"] = why }, Deny, "call:deny", "pin",
			"Not executed. The definition of this tool changed since it was accepted, and a person must review it: `tgctl tools diff files/rm`. Tell the user; repeating the call helps only after that."},
		{"before a rule denies", func(h *fixture, s *shelf) {
			s.held["rm"], h.ruling = why, Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule}
		}, Deny, "call:deny", "pin", "tgctl tools diff"},
		{"before anybody is asked", func(h *fixture, s *shelf) {
			s.held["rm"], h.ruling = why, Ruling{Move: Ask}
		}, Deny, "call:deny", "pin", "tgctl tools diff"},
		{"what is hidden stays hidden", func(h *fixture, s *shelf) {
			s.held["rm"], h.ruling = why, Ruling{Move: Deny, Gate: "visible", Hidden: true, Code: mcp.CodeInvalidParams}
		}, Deny, "call:deny", "visible", "Unknown tool: rm"},
		{"development", func(h *fixture, s *shelf) { s.held["rm"], h.profile = why, Development }, Forward, "call:forward:WOULD_HOLD", "pin", ""},
		{"our own files are no way around it", func(h *fixture, s *shelf) {
			s.held["rm"], h.facts = why, []Fact{{Name: "ours", Detail: "x"}}
		}, Deny, "call:deny", "pin", "tgctl tools diff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture()
			s := withPins(h)
			s.facts = []Fact{{Name: "changed"}}
			tt.change(h, s)
			v, a := submitTo(h, shimX, aCall)
			defer a.Close(true)
			if v.Move != tt.move || !strings.Contains(unquoted(v.Answer), tt.answer) {
				t.Errorf("got %v %s, want %v with %q", v.Move, v.Answer, tt.move, tt.answer)
			}
			if got := h.verdicts(); got != tt.record {
				t.Errorf("records: got %q, want %q", got, tt.record)
			}
			if r := h.records[0]; r.Gate != tt.gate || !strings.Contains(strings.Join(r.Facts, " "), "changed") {
				t.Errorf("on record: gate %q, facts %q", r.Gate, r.Facts)
			}
		})
	}
}

// The policy sees the facts of the definition.
func TestRulesSeeFactsOfTheDefinition(t *testing.T) {
	h := newFixture()
	withPins(h).facts = []Fact{{Name: "smelly", Detail: "it gives orders"}}
	var seen []Fact
	p := seeing{h, &seen}
	h.gate.Policy = func() Policy { return p }
	_, a := submitTo(h, shimX, aCall)
	defer a.Close(true)
	if len(seen) != 1 || seen[0].Name != "smelly" {
		t.Errorf("facts: %v", seen)
	}
}

type seeing struct {
	*fixture
	seen *[]Fact
}

func (s seeing) Rule(ctx context.Context, c *Call, facts []Fact) (Ruling, error) {
	*s.seen = facts
	return s.fixture.Rule(ctx, c, facts)
}

// An approval holds for the call under the definition that was shown.
func TestDefinitionChangesWhileAPersonThinks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before byte
		change func(*shelf)
		move   Move
	}{
		{"nothing changed", 1, func(*shelf) {}, Forward},
		{"it is held now", 1, func(s *shelf) { s.held["rm"] = why }, Deny},
		{"another one was accepted meanwhile", 1, func(s *shelf) { s.digest = 2 }, Deny},
		{"it was not known before", 0, func(s *shelf) { s.digest = 2 }, Deny},
	} {
		h := newFixture()
		h.ruling = Ruling{Move: Ask}
		s := withPins(h)
		s.digest = tt.before
		v, a := submitTo(h, shimX, aCall)
		if v.Move != Ask {
			t.Fatalf("%s: got %v", tt.name, v.Move)
		}
		c := collect(a)
		tt.change(s)
		h.answers <- Answer{ID: "A-1", Approved: true}
		if v := <-c; v.Move != tt.move {
			t.Errorf("%s: got %v %s, want %v", tt.name, v.Move, v.Answer, tt.move)
		}
		a.Close(true)
	}
}

// What an approval is valid for depends on the definition.
func TestDigestCoversTheDefinition(t *testing.T) {
	c := Call{Message: Message{Method: "tools/call"}, Case: Case{Server: "s"}}
	plain := c.Digest()
	c.Definition[0] = 1
	if c.Digest() == plain {
		t.Error("two definitions, one digest")
	}
}

// A recorded verdict is returned again with the same text.
func TestHeldIsRepeated(t *testing.T) {
	h := newFixture()
	withPins(h).held["rm"] = why
	first, a := submitTo(h, shimX, aCall)
	a.Close(true)
	h.gate.Pins = nil
	b := h.gate.Attach(context.Background(), shimX, map[uint64]record.Record{1: *h.records[0]})
	defer b.Close(true)
	c := collect(b)
	b.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	if v := <-c; string(v.Answer) != string(first.Answer) {
		t.Errorf("got %s\nwant %s", v.Answer, first.Answer)
	}
}

func TestHeldInLists(t *testing.T) {
	const page = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","x":1}, {"name":"b"},{"name":"c"},{"name":"c"},{"name":" d"}],"nextCursor":"x"}}`
	submit := func(h *fixture, method, line string) Verdict {
		a := h.gate.Attach(context.Background(), shimX, nil)
		defer a.Close(true)
		c := collect(a)
		a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(line), Answers: method})
		return <-c
	}
	h := newFixture()
	s := withPins(h)
	s.held["a"], s.facts = why, []Fact{{Name: "changed"}, {Name: "changed"}}
	v := submit(h, "tools/list", page)
	if want := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"b"}],"nextCursor":"x"}}`; string(v.Line) != want {
		t.Errorf("got  %s\nwant %s", v.Line, want)
	}
	r := h.records[0]
	if !strings.Contains(r.Reason, `"a" (`+why) || strings.Join(r.Facts, " ") != "changed" {
		t.Errorf("on record: %q, facts %q", r.Reason, r.Facts)
	}
	want := `a {"name":"a","x":1} |b {"name":"b"} |c {"name":"c"} duplicate name|c {"name":"c"} duplicate name| d {"name":" d"} invalid name`
	if got := strings.Join(s.offered, "|"); got != want {
		t.Errorf("the pins were shown %q\nwant %q", got, want)
	}

	h.profile, h.records = Development, nil
	if v := submit(h, "tools/list", page); string(v.Line) != page || h.records[0].Would != "WOULD_HOLD" {
		t.Errorf("development: %s, %q", v.Line, h.records[0].Would)
	}
	h.profile, h.hidden, s.offered = Production, map[string]bool{"a": true}, nil
	if submit(h, "tools/list", page); strings.Contains(strings.Join(s.offered, " "), `"a"`) {
		t.Error("the pins are shown what the agent may not know of")
	}
	s.err = errors.New("disk full")
	if v := submit(h, "tools/list", page); v.Move != Deny || !strings.Contains(string(v.Answer), "disk full") {
		t.Errorf("pins that can't be kept: got %v %s", v.Move, v.Answer)
	}
	h.profile = Development
	if v := submit(h, "tools/list", page); v.Move != Forward {
		t.Errorf("pins that can't be kept, in development: got %v %s", v.Move, v.Answer)
	}
}

func TestPinsAreTold(t *testing.T) {
	h := newFixture()
	s := withPins(h)
	a := h.gate.Attach(context.Background(), shimX, nil)
	for _, method := range []string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed", "notifications/message"} {
		a.RecordMessage(context.Background(), wire.FromServer, method, []byte(`{"jsonrpc":"2.0","method":"`+method+`"}`))
	}
	a.RecordMessage(context.Background(), wire.FromAgent, "notifications/tools/list_changed", nil)
	if got := strings.Join(s.relisted, " "); got != "tools/list prompts/list resources/templates/list" {
		t.Errorf("relisted: %s", got)
	}
	for range 2 * notesInARow { // messages that are no longer recorded still count
		a.RecordMessage(context.Background(), wire.FromServer, "notifications/tools/list_changed", nil)
	}
	if len(s.relisted) != 3+2*notesInARow {
		t.Errorf("told %d times", len(s.relisted))
	}
	a.Close(false)
	if len(s.left) != 0 {
		t.Error("a shim that may come back has left")
	}
	a.Close(true)
	if len(s.left) != 1 {
		t.Error("nobody said that the shim has left")
	}
}
