package approval

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var ctx = context.Background()

// recorder keeps the records, or fails.
type recorder struct {
	mu      sync.Mutex
	records []record.Record
	err     error
	before  func(*record.Record) // called before a record is kept
}

func (r *recorder) Record(_ context.Context, rec *record.Record, _ []byte, _ []string) error {
	if r.before != nil {
		r.before(rec)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.records = append(r.records, *rec)
	return nil
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// verdicts returns the recorded ends, as "A-1 approved".
func (r *recorder) verdicts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, rec := range r.records {
		list = append(list, rec.Approval+" "+rec.Verdict)
	}
	return list
}

// fixture is a queue on a file. It can be restarted.
type fixture struct {
	t    testing.TB
	path string
	db   *store.DB
	q    *Queue
	rec  *recorder
	o    Options
}

func newFixture(t testing.TB, o Options) *fixture {
	h := &fixture{t: t, path: filepath.Join(t.TempDir(), "state.db"), rec: &recorder{}, o: o}
	h.o.Recorder = h.rec
	h.start()
	return h
}

func (h *fixture) start() {
	h.t.Helper()
	var err error
	if h.db, err = store.Open(h.path); err != nil {
		h.t.Fatal(err)
	}
	if h.q, err = New(h.db, h.o); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) close() {
	h.t.Helper()
	if err := errors.Join(h.q.Close(), h.db.Close()); err != nil {
		h.t.Error(err)
	}
}

func (h *fixture) restart() {
	h.close()
	h.start()
}

func asked(attachment string, seq uint64) *gate.Question {
	line := []byte(fmt.Sprintf(`{"id":%d,"params":{"name":"drop","arguments":{"table":"t%d","key":"hidden"},"_meta":{"x":1}}}`, seq, seq))
	c := &gate.Call{
		Message: gate.Message{Seq: seq, ID: fmt.Sprint("c-", seq), Method: "tools/call", Subject: "drop", Line: line},
		Case:    gate.Case{Attachment: attachment, Server: "db", Agent: "claude-code", Session: "s", Launch: "l", Project: "/p", Profile: gate.Production, Patience: 24 * time.Hour},
	}
	if attachment != "a" {
		c.Session += attachment
	}
	at := func(text string) wire.Span {
		i := strings.Index(string(line), text)
		return wire.Span{Start: i, End: i + len(text)}
	}
	c.Envelope.Params = wire.Span{Start: strings.Index(string(line), `{"name"`), End: len(line) - 1}
	c.Envelope.Meta = at(`{"x":1}`)
	c.Envelope.Arguments = at(fmt.Sprintf(`{"table":"t%d","key":"hidden"}`, seq))
	return &gate.Question{
		Call: c, Subject: c.Digest(),
		Ruling: gate.Ruling{Move: gate.Ask, Reason: "why", Rule: "rule", Workflow: "ops", Timeout: time.Minute, Redact: []string{"key"}, Basis: gate.Basis{Rule: [32]byte{1}, Workflow: [32]byte{2}}},
		Facts:  []gate.Fact{{Name: "acts", Detail: "it drops", Member: "table"}},
	}
}

func (h *fixture) ask(attachment string, seq uint64) gate.Held {
	h.t.Helper()
	held, err := h.q.Ask(ctx, asked(attachment, seq))
	if err != nil {
		h.t.Fatal(err)
	}
	return held
}

func (h *fixture) decide(id string, approve bool) (Question, error) {
	h.t.Helper()
	shown, err := h.q.Get(ctx, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.q.Decide(ctx, Decision{ID: id, Subject: shown.Subject[:], Approve: approve, Note: "note", Decider: "uid 1", Surface: "terminal"})
}

func (h *fixture) states(all bool) []string {
	var list []string
	for _, q := range h.q.List(all) {
		list = append(list, q.ID+" "+string(q.State))
	}
	return list
}

func wait(t testing.TB, held gate.Held) gate.Answer {
	t.Helper()
	a, err := held.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhatAPersonIsShown(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	h.ask("a", 7)
	shown := h.q.List(false)[0]
	want := Question{
		ID: "A-1", State: store.StateOpen, Created: shown.Created, Expires: shown.Created.Add(time.Minute), Boot: shown.Boot,
		Deadline: shown.Deadline, Attachment: "a", Seq: 7, Call: "c-7", Session: "s", Agent: "claude-code", Project: "/p",
		Server: "db", Launch: "l", Direction: "agent_to_server", Method: "tools/call", Tool: "drop", Profile: "production",
		Params:  []byte(`{"name":"drop","arguments":{"table":"t7","key":"(not shown)"},"_meta":{"x":1}}`),
		Subject: asked("a", 7).Subject, Basis: asked("a", 7).Ruling.Basis, Reason: "why", Rule: "rule", Workflow: "ops", Level: "watch", Facts: []string{"acts: it drops (table)"}, Waiting: 1, Members: digests(asked("a", 7).Call),
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		approve bool
		state   string
	}{{true, "approved"}, {false, "rejected"}} {
		t.Run(test.state, func(t *testing.T) {
			h := newFixture(t, Options{})
			defer h.close()
			held := h.ask("a", 1)
			// The end is in the log before a waiting call can get it.
			h.rec.before = func(*record.Record) {
				gone, cancel := context.WithCancel(ctx)
				cancel()
				if a, err := held.Wait(gone); err == nil {
					t.Errorf("answered before it was recorded: %+v", a)
				}
			}
			ended, err := h.decide("A-1", test.approve)
			if err != nil || ended.State != store.State(test.state) || ended.Params != nil || ended.Decided.IsZero() {
				t.Errorf("decided %+v, %v", ended, err)
			}
			want := gate.Answer{ID: "A-1", Approved: test.approve, State: test.state, Note: "note", Decider: "uid 1"}
			if test.approve {
				want.Level = gate.LevelWatch
			}
			if a := wait(t, held); !cmp.Equal(a, want) {
				t.Errorf("got %+v, want %+v", a, want)
			}
			rec := h.rec.records[0]
			rec.LatencyUS = 0
			if diff := cmp.Diff(record.Record{
				Kind: record.KindDecision, Attachment: "a", Call: 1, ID: "c-1", Session: "s", Agent: "claude-code", Server: "db",
				Launch: "l", Direction: "agent_to_server", Method: "tools/call", Tool: "drop", Verdict: test.state, Gate: "ask",
				Rule: "rule", Profile: "production", Reason: "note", Approval: "A-1", Decider: "uid 1", Surface: "terminal", Level: "watch",
			}, rec); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if _, err := h.decide("A-1", !test.approve); !errors.Is(err, gate.ErrDecided) {
				t.Errorf("the second answer: %v", err)
			}
			h.restart()
			if got := h.states(true); !slices.Equal(got, []string{"A-1 " + test.state}) {
				t.Errorf("after a restart: %q", got)
			}
			if len(h.q.List(false)) != 0 {
				t.Error("it is open again")
			}
		})
	}
}

func TestAnswersThatDoNotCount(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	q := asked("a", 1)
	q.Ruling.Surfaces = []string{"terminal"}
	held, err := h.q.Ask(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		d    Decision
		want error
	}{
		{"unknown", Decision{ID: "A-2", Subject: q.Subject[:], Approve: true}, gate.ErrNotFound},
		{"no id", Decision{Subject: q.Subject[:], Approve: true}, gate.ErrNotFound},
		{"another subject", Decision{ID: "A-1", Subject: make([]byte, 32), Approve: true, Surface: "terminal"}, gate.ErrChanged},
		{"a no with another subject", Decision{ID: "A-1", Subject: make([]byte, 32)}, gate.ErrChanged},
		{"no subject", Decision{ID: "A-1", Approve: true, Surface: "terminal"}, gate.ErrChanged},
		{"a yes from elsewhere", Decision{ID: "A-1", Subject: q.Subject[:], Approve: true, Surface: "script"}, gate.ErrForbidden},
		{"a yes from nowhere", Decision{ID: "A-1", Subject: q.Subject[:], Approve: true}, gate.ErrForbidden},
	} {
		if _, err := h.q.Decide(ctx, test.d); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if got := h.states(true); !slices.Equal(got, []string{"A-1 open"}) {
		t.Errorf("now %q", got)
	}
	// A denial may come from anywhere.
	if _, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: q.Subject[:], Surface: "script"}); err != nil {
		t.Error(err)
	}
	if a := wait(t, held); a.Approved || a.State != "rejected" {
		t.Errorf("got %+v", a)
	}
}

// If many answer at once, one answer counts, and at most one later denial, before the
// call has taken the approval. A record is written for each, and every waiting call gets
// the last one.
func TestTheFirstAnswerWins(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	counted := 0
	for seq := range uint64(10) {
		held := h.ask("a", seq)
		shown, err := h.q.Get(ctx, held.ID())
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var yes, no []string // whose answers counted
		var heard sync.Map
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				ended, err := h.q.Decide(ctx, Decision{ID: shown.ID, Subject: shown.Subject[:], Approve: i%2 == 0, Decider: fmt.Sprint(i)})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil && !errors.Is(err, gate.ErrDecided):
					t.Error(err)
				case err == nil && i%2 == 0:
					yes = append(yes, ended.Decider)
				case err == nil:
					no = append(no, ended.Decider)
				}
			})
			all.Go(func() { heard.Store(wait(t, held).Decider, true) })
		}
		all.Go(func() { h.q.Withdraw("another", seq) })
		all.Wait()
		last := append(yes, no...)
		if len(yes) > 1 || len(no) > 1 || len(last) == 0 {
			t.Fatalf("yes of %q and no of %q counted", yes, no)
		}
		counted += len(last)
		heard.Range(func(name, _ any) bool {
			if name != last[len(last)-1] {
				t.Errorf("a waiter heard of %v; yes of %q and no of %q counted", name, yes, no)
			}
			return true
		})
	}
	if n := len(h.rec.verdicts()); n != counted {
		t.Errorf("%d records for %d answers", n, counted)
	}
}

func TestJoining(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	first := h.ask("a", 1)
	second := h.ask("a", 1)
	if other := h.ask("b", 1); first.ID() != second.ID() || other.ID() == first.ID() {
		t.Errorf("ids %s, %s, %s", first.ID(), second.ID(), other.ID())
	}
	changed := asked("a", 1)
	changed.Subject[0]++
	if _, err := h.q.Ask(ctx, changed); !errors.Is(err, gate.ErrChanged) {
		t.Errorf("another call under the same number: %v", err)
	}
	h.restart()
	third := h.ask("a", 1)
	if third.ID() != first.ID() {
		t.Errorf("after a restart: %s", third.ID())
	}
	if _, err := first.Wait(ctx); !errors.Is(err, gate.ErrNotRunning) {
		t.Errorf("a waiter of the daemon before: %v", err)
	}
	if _, err := h.decide("A-1", true); err != nil {
		t.Fatal(err)
	}
	if a := wait(t, third); !a.Approved {
		t.Errorf("got %+v", a)
	}
	// A call that is submitted again later gets it too, from this daemon and the next.
	if a := wait(t, h.ask("a", 1)); !a.Approved || a.ID != "A-1" {
		t.Errorf("joined after the end: %+v", a)
	}
	h.restart()
	if a := wait(t, h.ask("a", 1)); !a.Approved || a.ID != "A-1" || a.Note != "note" {
		t.Errorf("joined after the end and a restart: %+v", a)
	}
	changed = asked("a", 1)
	changed.Subject[0]++
	if _, err := h.q.Ask(ctx, changed); !errors.Is(err, gate.ErrChanged) {
		t.Errorf("another call for an answered question: %v", err)
	}
	if id := h.ask("a", 2).ID(); id != "A-3" {
		t.Errorf("the next is %s", id)
	}
}

func TestLimits(t *testing.T) {
	h := newFixture(t, Options{PerServer: 2, Total: 3})
	defer h.close()
	other := func(seq uint64) error {
		q := asked("a", seq)
		q.Call.Server = "fs"
		_, err := h.q.Ask(ctx, q)
		return err
	}
	h.ask("a", 1)
	h.ask("a", 2)
	if _, err := h.q.Ask(ctx, asked("a", 3)); !errors.Is(err, gate.ErrFull) {
		t.Errorf("the third for one server: %v", err)
	}
	if err := other(4); err != nil {
		t.Error(err)
	}
	if err := other(5); !errors.Is(err, gate.ErrFull) {
		t.Errorf("the fourth in all: %v", err)
	}
	h.ask("a", 1) // joining takes no place
	h.q.Withdraw("a", 1)
	if err := other(5); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	h.q.SetLimits(0, 0, 0)
	h.ask("a", 3)
}

// Waiting calls are limited in their total size, however few they are.
func TestLimitOfBytes(t *testing.T) {
	h := newFixture(t, Options{Bytes: 1000})
	defer h.close()
	long := func(seq uint64, n int) *gate.Question {
		q := asked("a", seq)
		line := q.Call.Line
		q.Call.Line = append(line[:len(line)-2:len(line)-2], `,"pad":"`+strings.Repeat("x", n)+`"}}`...)
		q.Call.Envelope.Params.End = len(q.Call.Line) - 1
		q.Call.Envelope.Meta = wire.Span{}
		q.Subject = q.Call.Digest()
		return q
	}
	if _, err := h.q.Ask(ctx, long(1, 2000)); err != nil {
		t.Errorf("one alone: %v", err)
	}
	if _, err := h.q.Ask(ctx, long(2, 1)); !errors.Is(err, gate.ErrFull) {
		t.Errorf("the second: %v", err)
	}
	h.q.Withdraw("a", 1)
	for seq := range uint64(2) {
		if _, err := h.q.Ask(ctx, long(3+seq, 300)); err != nil {
			t.Errorf("what fits: %v", err)
		}
	}
	if _, err := h.q.Ask(ctx, long(5, 300)); !errors.Is(err, gate.ErrFull) {
		t.Errorf("what does not fit: %v", err)
	}
}

// Each waiting call counts its bytes and takes a place, and so does a question without
// waiting calls.
func TestWhatTakesRoom(t *testing.T) {
	waits := func() *asker { return &asker{state: store.AskerWaits} }
	for name, test := range map[string]struct {
		e        entry
		longest  int // of a call that fits
		noPlaces int // no place is left if this is the total
	}{
		"one waits":  {entry{size: 300, asks: []*asker{waits()}}, 700, 1},
		"two wait":   {entry{size: 300, asks: []*asker{waits(), waits()}}, 400, 2},
		"none waits": {entry{size: 300}, 700, 1},
	} {
		q := &Queue{open: map[string]*entry{"A-1": &test.e}}
		q.SetLimits(100, 100, 1000)
		for n, fits := range map[int]bool{test.longest: true, test.longest + 1: false} {
			if err := q.checkLimits(&gate.Call{Message: gate.Message{Line: make([]byte, n)}, Case: gate.Case{Server: "s"}}); (err == nil) != fits {
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
		}
		for n, fits := range map[int]bool{test.noPlaces: false, test.noPlaces + 1: true} {
			q.SetLimits(100, n, 1000)
			if err := q.checkLimits(&gate.Call{Case: gate.Case{Server: "s"}}); (err == nil) != fits {
				t.Errorf("%s, %d places: %v", name, n, err)
			}
		}
	}
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Options{})
		defer h.close()
		short := asked("a", 1)
		short.Ruling.Timeout = 10 * time.Second
		first, err := h.q.Ask(ctx, short)
		if err != nil {
			t.Fatal(err)
		}
		second := h.ask("a", 2)
		start := time.Now()
		if a := wait(t, first); a.Approved || a.State != "expired" || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %+v", time.Since(start), a)
		}
		if _, err := h.decide("A-1", true); !errors.Is(err, gate.ErrDecided) {
			t.Errorf("a yes that is late: %v", err)
		}
		if a := wait(t, second); a.State != "expired" || time.Since(start) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(start), a)
		}
		if got := h.rec.verdicts(); !slices.Equal(got, []string{"A-1 expired", "A-2 expired"}) {
			t.Errorf("recorded %q", got)
		}
	})
}

// A question's time passes while no daemon runs, and setting the clock does not extend
// it.
func TestExpiryOverARestart(t *testing.T) {
	const timeout = time.Minute
	for _, test := range []struct {
		name   string
		slept  time.Duration // between the two daemons
		set    time.Duration // by how much the clock was set meanwhile
		reboot bool
		noBoot bool
		want   time.Duration // how long the question waits after the restart; 0: not at all
	}{
		{"at once", 0, 0, false, false, timeout},
		{"later", 40 * time.Second, 0, false, false, 20 * time.Second},
		{"too late", 61 * time.Second, 0, false, false, 0},
		{"clock set back", 40 * time.Second, -time.Hour, false, false, 20 * time.Second},
		{"clock set back, too late", 61 * time.Second, -time.Hour, false, false, 0},
		{"clock set forward", 10 * time.Second, time.Hour, false, false, 0},
		{"rebooted", 40 * time.Second, 0, true, false, 20 * time.Second},
		{"rebooted, clock set back", 40 * time.Second, -time.Hour, true, false, timeout},
		{"no such clock", 40 * time.Second, 0, false, true, 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var set, running time.Duration
				id, began := "one", time.Now()
				h := newFixture(t, Options{
					// The clock was set between two daemons; within one it is monotonic.
					Now: func() time.Time { return time.Now().Add(set) },
					Boot: func() (string, time.Duration) {
						if test.noBoot {
							return "", 0
						}
						return id, time.Since(began) - running
					},
				})
				h.ask("a", 1)
				h.close()
				time.Sleep(test.slept)
				set = test.set
				if test.reboot {
					id, running = "two", time.Since(began)
				}
				h.start()
				defer func() { h.close() }()
				start := time.Now()
				a := wait(t, h.ask("a", 1))
				if open := time.Since(start); open != test.want || a.State != "expired" {
					t.Errorf("open for %v, want %v: %+v", open, test.want, a)
				}
			})
		})
	}
}

// The clock of timers stops while the machine sleeps; a question must not last longer for
// that.
func TestExpiryOverSleep(t *testing.T) {
	var slept atomic.Int64
	h := newFixture(t, Options{Boot: func() (string, time.Duration) { return "one", time.Duration(slept.Load()) }})
	defer h.close()
	held := h.ask("a", 1)
	shown := h.q.List(false)[0]
	slept.Store(int64(time.Hour))
	if _, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: shown.Subject[:], Approve: true}); !errors.Is(err, gate.ErrDecided) {
		t.Errorf("a yes after an hour asleep: %v", err)
	}
	if a := wait(t, held); a.State != "expired" {
		t.Errorf("got %+v", a)
	}
}

func TestTheMachinesOwnClock(t *testing.T) {
	id, up := store.Boot()
	again, later := store.Boot()
	if id != again || later < up {
		t.Errorf("%q %v, then %q %v", id, up, again, later)
	}
}

func TestWithdrawal(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	taken, left, stays := h.ask("a", 1), h.ask("a", 2), h.ask("b", 1)

	// The agent canceled the call.
	gone, cancel := context.WithCancelCause(ctx)
	cancel(fmt.Errorf("cancelled: %w", gate.ErrWithdrawn))
	if _, err := taken.Wait(gone); !errors.Is(err, gate.ErrWithdrawn) {
		t.Errorf("got %v", err)
	}
	if a := wait(t, taken); a.State != "withdrawn" || a.Approved {
		t.Errorf("got %+v", a)
	}
	// Stopping the daemon, or a deadline, withdraws nothing.
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		gone, cancel := context.WithCancelCause(ctx)
		cancel(cause)
		if _, err := stays.Wait(gone); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	}
	h.q.WithdrawAttachment("a", "the agent has left")
	if a := wait(t, left); a.State != "withdrawn" || a.Note != "the agent has left" {
		t.Errorf("got %+v", a)
	}
	h.q.Withdraw("nobody", 1)
	if got := h.states(true); !slices.Equal(got, []string{"A-3 open", "A-2 withdrawn", "A-1 withdrawn"}) {
		t.Errorf("now %q", got)
	}
	if got := h.rec.verdicts(); !slices.Equal(got, []string{"A-1 withdrawn", "A-2 withdrawn"}) {
		t.Errorf("recorded %q", got)
	}
}

// A daemon that is killed between storing that a call was canceled and ending its
// question leaves a question without calls.
func TestQuestionThatNobodyAsks(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	h.ask("a", 1)
	err := h.db.PutAsker(ctx, &store.Asker{Attachment: "a", Seq: 1, Question: "A-1", Since: time.Now(), State: store.AskerGone})
	if err != nil {
		t.Fatal(err)
	}
	h.restart()
	h.q.WithdrawUnclaimed("the agent has left")
	if got := h.states(true); !slices.Equal(got, []string{"A-1 withdrawn"}) {
		t.Errorf("now %q", got)
	}
}

func TestUnclaimedQuestionsAreWithdrawn(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	h.ask("a", 1)
	h.ask("a", 2)
	h.restart()
	h.ask("a", 2)
	h.ask("a", 3)
	h.q.WithdrawUnclaimed("the agent did not come back")
	if got := h.states(true); !slices.Equal(got, []string{"A-3 open", "A-2 open", "A-1 withdrawn"}) {
		t.Errorf("now %q", got)
	}
}

// An approval remains for the call that waits for it when questions without waiting calls
// are withdrawn.
func TestYesOnItsWayIsNotWithdrawn(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	held := h.ask("a", 1)
	if _, err := h.decide("A-1", true); err != nil {
		t.Fatal(err)
	}
	h.q.WithdrawUnclaimed("the agent did not come back")
	if a := wait(t, held); !a.Approved {
		t.Errorf("got %+v", a)
	}
}

// An end that can't be recorded becomes a denial, whatever the answer was.
func TestAnEndThatCannotBeRecorded(t *testing.T) {
	h := newFixture(t, Options{})
	defer h.close()
	held, other := h.ask("a", 1), h.ask("a", 2)
	full := errors.New("no space left on device")
	h.rec.fail(full)
	ended, err := h.decide("A-1", true)
	if !errors.Is(err, full) || ended.State != store.StateRejected {
		t.Errorf("decided %+v, %v", ended, err)
	}
	if a := wait(t, held); a.Approved || a.State != "rejected" || !strings.Contains(a.Note, "could not be recorded") {
		t.Errorf("got %+v", a)
	}
	h.q.Withdraw("a", 2)
	if a := wait(t, other); a.State != "withdrawn" {
		t.Errorf("got %+v", a)
	}
	h.rec.fail(nil)
	if _, err := h.decide("A-1", true); !errors.Is(err, gate.ErrDecided) {
		t.Errorf("decided again: %v", err)
	}
}

// A question that can't be stored is not asked.
func TestAQuestionThatCannotBeKept(t *testing.T) {
	h := newFixture(t, Options{})
	if err := h.db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.q.Ask(ctx, asked("a", 1)); err == nil {
		t.Error("asked without a file")
	}
	if len(h.q.List(false)) != 0 {
		t.Error("it is open")
	}
	if err := h.q.Close(); err != nil {
		t.Error(err)
	}
}

func TestAfterClose(t *testing.T) {
	h := newFixture(t, Options{})
	held := h.ask("a", 1)
	shown := h.q.List(false)[0]
	h.close()
	if _, err := held.Wait(ctx); !errors.Is(err, gate.ErrNotRunning) {
		t.Errorf("wait: %v", err)
	}
	if _, err := h.q.Ask(ctx, asked("a", 2)); !errors.Is(err, gate.ErrNotRunning) {
		t.Errorf("ask: %v", err)
	}
	if _, err := h.q.Decide(ctx, Decision{ID: "A-1", Subject: shown.Subject[:], Approve: true}); !errors.Is(err, gate.ErrNotRunning) {
		t.Errorf("decide: %v", err)
	}
	h.q.WithdrawAttachment("a", "late")
	h.start()
	defer h.close()
	if got := h.states(false); !slices.Equal(got, []string{"A-1 open"}) {
		t.Errorf("the next daemon finds %q", got)
	}
}
