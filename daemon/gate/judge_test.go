package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// fixture is a gate with test doubles for everything that it depends on.
type fixture struct {
	gate    *Gate
	profile Profile
	digest  string
	ruling  Ruling
	err     error // of the policy
	facts   []Fact
	hidden  map[string]bool
	rule    func(*Call) Ruling // replaces ruling, if set
	unable  string             // why nobody can be asked if no rule names people

	mu       sync.Mutex
	records  []*record.Record
	full     error // of the recorder
	answers  chan Answer
	asked    int
	question *Question         // the last
	refuse   error             // of the approver
	given    map[uint64]Answer // the answers that calls got, by seq
	noted    []string
}

func newFixture() *fixture {
	h := &fixture{profile: Production, digest: "set-1", ruling: Ruling{Move: Forward, Gate: "rule"}, answers: make(chan Answer, 8)}
	h.gate = &Gate{
		Policy: func() Policy { return h }, Facts: h, Approver: h, Recorder: h,
		Logger: slog.New(slog.DiscardHandler),
	}
	return h
}

func (h *fixture) Rule(_ context.Context, c *Call, _ []Fact) (Ruling, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rule != nil {
		return h.rule(c), h.err
	}
	return h.ruling, h.err
}
func (h *fixture) Visible(_ *Call, _, name string) bool { return !h.hidden[name] }
func (h *fixture) Whom(r *Ruling) {
	r.Workflow, r.Surfaces, r.Validity, r.Unable = "whoever", []string{"terminal"}, time.Minute, h.unable
}
func (h *fixture) Profile() Profile                 { return h.profile }
func (h *fixture) Digest() string                   { return h.digest }
func (h *fixture) Of(context.Context, *Call) []Fact { return h.facts }
func (h *fixture) Observe(m *Observation)           { h.note("heard " + m.Method + " " + string(m.Text)) }
func (h *fixture) Forwarded(c *Call)                { h.note("forwarded " + c.Subject) }
func (h *fixture) Forget(session, shim string)      { h.note("forgot " + session + shim) }

func (h *fixture) note(what string) { h.set(func() { h.noted = append(h.noted, what) }) }

func (h *fixture) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full != nil {
		return h.full
	}
	copied := *r
	h.records = append(h.records, &copied)
	return nil
}

func (h *fixture) Ask(_ context.Context, q *Question) (Held, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return nil, h.refuse
	}
	if _, told := h.given[q.Call.Seq]; !told {
		h.asked++
		h.question = q
	}
	return heldQuestion{h, q.Call.Seq}, nil
}

func (h *fixture) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// verdicts returns the records of verdicts in short form.
func (h *fixture) verdicts() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, r := range h.records {
		s := string(r.Kind) + ":" + r.Verdict
		if r.Would != "" {
			s += ":" + r.Would
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

type heldQuestion struct {
	h   *fixture
	seq uint64
}

func (heldQuestion) ID() string { return "A-1" }
func (q heldQuestion) Wait(ctx context.Context) (Answer, error) {
	var answer Answer
	told := false
	q.h.set(func() { answer, told = q.h.given[q.seq] })
	if told {
		return answer, nil
	}
	select {
	case a := <-q.h.answers:
		q.h.set(func() {
			if q.h.given == nil {
				q.h.given = map[uint64]Answer{}
			}
			q.h.given[q.seq] = a
		})
		return a, nil
	case <-ctx.Done():
		return Answer{ID: "A-1", State: "withdrawn"}, context.Cause(ctx)
	}
}

const aCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"rm","arguments":{"path":"/x"}}}`

// collect binds a sink and returns the channel of its verdicts.
func collect(a *Attachment) <-chan Verdict {
	c := make(chan Verdict, 16)
	a.Bind(func(v Verdict) { c <- v })
	return c
}

func submitTo(h *fixture, shim Shim, line string) (Verdict, *Attachment) {
	a := h.gate.Attach(context.Background(), shim, nil)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(line)})
	return <-c, a
}

var shimX = Shim{Attachment: "0123456789abcdef", Server: "files"}

func TestVerdicts(t *testing.T) {
	full := errors.New("no space left on device")
	for _, tt := range []struct {
		name   string
		change func(*fixture)
		shim   Shim
		move   Move
		record string
		answer string // part of what the agent is told
	}{
		{name: "forward", move: Forward, record: "call:forward"},
		{
			name: "deny",
			change: func(h *fixture) {
				h.ruling = Ruling{Move: Deny, Gate: "rule", Rule: `"rm" (t.yaml:3)`, Reason: "no deleting", Code: mcp.CodeRule}
			},
			move: Deny, record: "call:deny", answer: `Not executed. Denied by rule "rm" (t.yaml:3): no deleting. Repeating the call will not help`,
		},
		{
			name: "hidden",
			change: func(h *fixture) {
				h.ruling = Ruling{Move: Deny, Gate: "visible", Hidden: true, Code: mcp.CodeInvalidParams}
			},
			move: Deny, record: "call:deny", answer: "Unknown tool: rm",
		},
		{
			name:   "an accident is a refusal",
			change: func(h *fixture) { h.err = errors.New("policy p1: type error") },
			move:   Deny, record: "call:deny", answer: "policy p1: type error",
		},
		{name: "ask", change: func(h *fixture) { h.ruling = Ruling{Move: Ask, Workflow: "ops"} }, move: Ask, record: "call:hold"},
		{
			name:   "nobody can be asked",
			change: func(h *fixture) { h.ruling, h.refuse = Ruling{Move: Ask}, fmt.Errorf("file: %w", ErrFull) },
			move:   Deny, record: "call:deny", answer: "Too many calls are waiting",
		},
		{
			name:   "nobody can be asked in that way",
			change: func(h *fixture) { h.ruling = Ruling{Move: Ask, Unable: "presence is required"} },
			move:   Deny, record: "call:deny", answer: "A person must approve it, and the question could not be asked (presence is required)",
		},
		{
			name:   "our own files are asked about whatever the rules say",
			change: func(h *fixture) { h.facts = []Fact{{Name: "ours", Detail: "/cfg/thoughtgate.yaml"}} },
			move:   Ask, record: "call:hold",
		},
		{
			name: "of whoever is asked where no rule says",
			change: func(h *fixture) {
				h.facts, h.unable = []Fact{{Name: "ours", Detail: "/cfg/thoughtgate.yaml"}}, "presence is required"
			},
			move: Deny, record: "call:deny", answer: "A person must approve it, and the question could not be asked (presence is required)",
		},
		{
			name:   "nothing is forwarded unrecorded",
			change: func(h *fixture) { h.full = full },
			move:   Deny, answer: "could not be recorded (no space left on device)",
		},
		{
			name:   "nor in development",
			change: func(h *fixture) { h.full, h.profile = full, Development },
			move:   Deny, answer: "could not be recorded",
		},
		{
			name:   "EC-STDIO-033: development forwards a denial and says so",
			change: func(h *fixture) { h.profile, h.ruling = Development, Ruling{Move: Deny, Gate: "permit"} },
			move:   Forward, record: "call:forward:WOULD_BLOCK",
		},
		{
			name:   "development answers yes at once",
			change: func(h *fixture) { h.profile, h.ruling = Development, Ruling{Move: Ask} },
			move:   Forward, record: "call:forward:WOULD_ASK",
		},
		{
			name:   "a shim tightens",
			change: func(h *fixture) { h.profile, h.ruling = Development, Ruling{Move: Deny, Code: mcp.CodeRule} },
			shim:   Shim{Requested: Production}, move: Deny, record: "call:deny", answer: "Not executed",
		},
		{
			name:   "a shim does not loosen",
			change: func(h *fixture) { h.ruling = Ruling{Move: Deny, Code: mcp.CodeRule} },
			shim:   Shim{Requested: Development}, move: Deny, record: "call:deny", answer: "Not executed",
		},
		{
			name:   "a session may be looser than the set",
			change: func(h *fixture) { h.ruling = Ruling{Move: Deny, Code: mcp.CodeRule} },
			shim:   Shim{Limit: Development}, move: Forward, record: "call:forward:WOULD_BLOCK",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture()
			if tt.change != nil {
				tt.change(h)
			}
			shim := tt.shim
			shim.Attachment, shim.Server = shimX.Attachment, shimX.Server
			v, a := submitTo(h, shim, aCall)
			defer a.Close(true)
			if v.Move != tt.move {
				t.Errorf("move: got %v, want %v (%s)", v.Move, tt.move, v.Reason)
			}
			if got := h.verdicts(); got != tt.record {
				t.Errorf("records: got %q, want %q", got, tt.record)
			}
			if !strings.Contains(unquoted(v.Answer), tt.answer) {
				t.Errorf("answer: got %s, want %s in it", v.Answer, tt.answer)
			}
			if v.Move == Forward && string(v.Line) != aCall {
				t.Errorf("line: got %s", v.Line)
			}
			if v.Move == Deny && !json.Valid(v.Answer) {
				t.Errorf("answer is no JSON: %s", v.Answer)
			}
		})
	}
}

func unquoted(b []byte) string { return strings.ReplaceAll(string(b), `\"`, `"`) }

func TestAfterTheAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer Answer
		change func(*fixture) // while the question waits
		move   Move
		record string
		told   string
	}{
		{name: "yes", answer: Answer{Approved: true}, move: Forward, record: "call:hold call:forward"},
		{name: "no", answer: Answer{State: "rejected", Note: "not today"}, move: Deny, record: "call:hold call:deny", told: "A person denied it (A-1): not today. Repeating the call will not help"},
		{name: "nobody", answer: Answer{State: "expired"}, move: Deny, record: "call:hold call:deny", told: "Nobody answered A-1 in time"},
		{
			name: "the gates are asked again after a yes", answer: Answer{Approved: true},
			change: func(h *fixture) { h.ruling = Ruling{Move: Deny, Gate: "rule", Rule: "new", Code: mcp.CodeRule} },
			move:   Deny, record: "call:hold call:deny", told: "Denied by rule new",
		},
		{
			name: "another workflow would be asked now", answer: Answer{Approved: true},
			change: func(h *fixture) { h.ruling = Ruling{Move: Ask, Workflow: "other"} },
			move:   Deny, record: "call:hold call:deny", told: "the workflow for it changed meanwhile",
		},
		{
			name: "a yes that can't be recorded", answer: Answer{Approved: true},
			change: func(h *fixture) { h.full = errors.New("disk full") },
			move:   Deny, record: "call:hold", told: "could not be recorded",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture()
			h.ruling = Ruling{Move: Ask, Workflow: "ops", Gate: "rule"}
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
			if v := <-c; v.Move != Ask || v.Approval != "A-1" {
				t.Fatalf("first word: got %+v", v)
			}
			if tt.change != nil {
				h.set(func() { tt.change(h) })
			}
			tt.answer.ID = "A-1"
			h.answers <- tt.answer
			v := <-c
			if v.Move != tt.move || !strings.Contains(unquoted(v.Answer), tt.told) {
				t.Errorf("got %v %s, want %v with %q", v.Move, v.Answer, tt.move, tt.told)
			}
			if got := h.verdicts(); got != tt.record {
				t.Errorf("records: got %q, want %q", got, tt.record)
			}
		})
	}
}

func TestEarlierDaemon(t *testing.T) {
	h := newFixture()
	h.ruling = Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule}
	first, a := submitTo(h, shimX, aCall)
	a.Close(true)
	earlier := map[uint64]record.Record{1: *h.records[0]}

	h.ruling = Ruling{Move: Forward} // what the next daemon would decide
	b := h.gate.Attach(context.Background(), shimX, earlier)
	defer b.Close(true)
	c := collect(b)
	b.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	if v := <-c; v.Move != Deny || string(v.Answer) != string(first.Answer) {
		t.Errorf("got %v %s, want the recorded verdict %s", v.Move, v.Answer, first.Answer)
	}
	if n := len(h.records); n != 1 {
		t.Errorf("it was recorded %d times", n)
	}
}

func TestCancelWithdraws(t *testing.T) {
	h := newFixture()
	h.ruling = Ruling{Move: Ask}
	a := h.gate.Attach(context.Background(), shimX, nil)
	c := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	<-c
	a.Cancel(1)
	a.Close(false) // waits for held lines: there are none
	select {
	case v := <-c:
		t.Errorf("a verdict on a call that was taken back: %+v", v)
	default:
	}
}

func TestLists(t *testing.T) {
	const page = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}, {"name":"b"},{"name":"c"},{"name":"c"},{"name":"d\u200b"}],"nextCursor":"x"}}`
	for _, tt := range []struct {
		name    string
		hidden  []string
		profile Profile
		want    string
	}{
		{"a name that comes twice, or is not seen whole, names nothing", nil, Production, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}, {"name":"b"}],"nextCursor":"x"}}`},
		{"hidden", []string{"a"}, Production, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"b"}],"nextCursor":"x"}}`},
		{"an emptied page keeps its cursor", []string{"a", "b"}, Production, `{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"x"}}`},
		{"development changes nothing", []string{"a"}, Development, page},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newFixture()
			h.profile, h.hidden = tt.profile, map[string]bool{}
			for _, name := range tt.hidden {
				h.hidden[name] = true
			}
			a := h.gate.Attach(context.Background(), shimX, nil)
			defer a.Close(true)
			c := collect(a)
			a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(page), Answers: "tools/list"})
			if v := <-c; v.Move != Forward || string(v.Line) != tt.want {
				t.Errorf("got  %v %s\nwant %s", v.Move, v.Line, tt.want)
			}
			if got, want := h.records[0].Digest, hexOf(sha256.Sum256([]byte(tt.want))); got != want {
				t.Errorf("the record is of %s, what passes of %s", got, want)
			}
		})
	}
}

func TestNotesAreBounded(t *testing.T) {
	h := newFixture()
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	counted := &counts{}
	a.meter = counted
	for range 10 * notesInARow {
		a.Refused(context.Background(), wire.FromServer, "not JSON", []byte("x"))
	}
	if n := len(h.records); n != notesInARow {
		t.Errorf("%d notes on record, want %d", n, notesInARow)
	}
	a.notes.since = a.notes.since.Add(-2 * notesRefill)
	a.Refused(context.Background(), wire.FromServer, "WOULD_DROP: not JSON", []byte("x"))
	if want := 10 * notesInARow; counted.n != want || counted.kind != wire.KindJSON {
		t.Errorf("%d refused lines were counted, the last as %q; want %d as %q", counted.n, counted.kind, want, wire.KindJSON)
	}
	if got := h.records[notesInARow].Reason; !strings.HasPrefix(got, fmt.Sprint(9*notesInARow)) {
		t.Errorf("what was left out: got %q", got)
	}
	// What development passes is not a denial, and is not counted as one.
	r := h.records[notesInARow+1]
	if r.Verdict != "forward" || r.Would != "WOULD_DROP" || !r.Forwarded || r.Reason != "not JSON" {
		t.Errorf("let pass: verdict %q, would %q, forwarded %v, reason %q", r.Verdict, r.Would, r.Forwarded, r.Reason)
	}
}

// Server messages that nobody waits for are counted together after a while. Each call still
// has its own record.
func TestUnknownNotificationsAreCountedTogether(t *testing.T) {
	for name, line := range map[string]string{
		"unknown notification": `{"jsonrpc":"2.0","method":"notifications/nonsense","params":{"x":"y"}}`,
		"refused ask":          `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture()
			h.rule = func(c *Call) Ruling {
				if c.Side == wire.FromServer {
					return Ruling{Move: Deny, Gate: "rule", Reason: "no"}
				}
				return Ruling{Move: Forward, Gate: "rule"}
			}
			a := h.gate.Attach(context.Background(), shimX, nil)
			verdicts := map[Move]int{}
			a.Bind(func(v Verdict) { verdicts[v.Move]++ })
			seq := uint64(0)
			submit := func(side wire.Side, line string) {
				seq++
				a.Submit(Submission{Seq: seq, Side: side, Line: []byte(line)})
			}
			for i := range 10 * notesInARow {
				submit(wire.FromServer, line)
				if i%notesInARow == 0 {
					submit(wire.FromAgent, aCall)
				}
			}
			kinds := map[string]int{}
			for _, r := range h.records {
				kinds[string(r.Kind)+" "+r.Verdict+" "+r.Direction]++
			}
			if kinds["call forward agent_to_server"] != 10 || kinds["call deny server_to_agent"] != notesInARow || len(h.records) != notesInARow+10 {
				t.Errorf("records: %v", kinds)
			}
			if verdicts[Deny] != 10*notesInARow || verdicts[Forward] != 10 {
				t.Errorf("verdicts: %v", verdicts)
			}
			a.Close(true)
			last := h.records[len(h.records)-1]
			if last.Kind != record.KindRefused || last.Server != shimX.Server || !strings.HasPrefix(last.Reason, fmt.Sprint(9*notesInARow, " more unknown notifications")) {
				t.Errorf("the last record is %s: %s", last.Kind, last.Reason)
			}
		})
	}
}

// counts counts refused lines.
type counts struct {
	unmetered
	n    int
	kind string // of the last
}

func (c *counts) Refused(kind string) { c.n, c.kind = c.n+1, kind }

// What servers say is remembered before anybody can act on it, and what agents send only when
// it was forwarded.
func TestFactsAreTold(t *testing.T) {
	h := newFixture()
	a := h.gate.Attach(context.Background(), Shim{Attachment: "0123456789abcdef", Session: "s", Server: "files"}, nil)
	verdicts := make(chan Verdict, 8)
	a.Bind(func(v Verdict) {
		h.note(v.Move.String())
		verdicts <- v
	})
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`
	ask := `{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"messages":[]}}`
	waits := `{"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","inputRequests":{}}}`
	passed := `{"jsonrpc":"2.0","id":4,"result":{}}`
	a.Submit(Submission{Seq: 1, Side: wire.FromServer, Line: []byte(list), Answers: "tools/list"})
	a.Submit(Submission{Seq: 2, Side: wire.FromServer, Line: []byte(ask)})
	a.Submit(Submission{Seq: 3, Side: wire.FromServer, Line: []byte(waits), Answers: "tools/call", Modern: true})
	a.ObserveMessage(wire.FromServer, "tools/call", []byte(passed), 0)
	a.Submit(Submission{Seq: 4, Side: wire.FromAgent, Line: []byte(aCall)})
	h.set(func() { h.ruling = Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule} })
	a.Submit(Submission{Seq: 5, Side: wire.FromAgent, Line: []byte(aCall)})
	h.set(func() { h.ruling = Ruling{Move: Ask, Gate: "rule"} })
	a.Submit(Submission{Seq: 6, Side: wire.FromAgent, Line: []byte(aCall)})
	h.answers <- Answer{ID: "A-1", Approved: true, State: "approved"}
	for range 7 { // each, and twice for the one that was asked about
		<-verdicts
	}
	a.Close(true)
	want := []string{
		"heard tools/list " + list, "forward",
		"heard sampling/createMessage " + ask, "forward",
		"heard tools/call " + waits, "forward",
		"heard tools/call " + passed,
		"forwarded rm", "forward",
		"deny",
		"ask", "forwarded rm", "forward",
	}
	if got := h.noted; !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A verdict that a previous daemon recorded is returned again, and the call is added to the
// memory, which was lost with that daemon.
func TestRecordedVerdictsAreRemembered(t *testing.T) {
	h := newFixture()
	digest := sha256.Sum256([]byte(aCall))
	earlier := map[uint64]record.Record{1: {Verdict: "forward", Digest: hex.EncodeToString(digest[:])}}
	a := h.gate.Attach(context.Background(), shimX, earlier)
	verdicts := collect(a)
	a.Submit(Submission{Seq: 1, Side: wire.FromAgent, Line: []byte(aCall)})
	if v := <-verdicts; v.Move != Forward || !slices.Equal(h.noted, []string{"forwarded rm"}) {
		t.Errorf("got %v, noted %q", v.Move, h.noted)
	}
}
