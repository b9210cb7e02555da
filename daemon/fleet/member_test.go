package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/sshkey"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var (
	age  = "age1" + strings.Repeat("q", 58)
	root = []byte("root metadata")
)

// device returns the public key of a machine.
func device(letter string) string { return "U" + strings.Repeat(letter, 55) }

// recorder keeps the records, or fails.
type recorder struct {
	mu      sync.Mutex
	records []record.Record
	err     error
}

func (r *recorder) Record(_ context.Context, rec *record.Record, _ []byte, _ []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	rec.Seq = uint64(len(r.records) + 1)
	r.records = append(r.records, *rec)
	return nil
}

// of returns the records of a kind.
func (r *recorder) of(kind record.Kind) []record.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.records), func(rec record.Record) bool { return rec.Kind != kind })
}

func (r *recorder) head() record.Head {
	r.mu.Lock()
	defer r.mu.Unlock()
	return record.Head{Log: "LOG", Seq: uint64(len(r.records))}
}

// fakeRules are the policy of a fleet.
type fakeRules struct {
	mu        sync.Mutex
	approvers []forms.Approver
	values    bool
	changed   chan struct{}
	joined    []byte
	refuse    error
}

func (r *fakeRules) Approvers() []forms.Approver {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.approvers)
}

func (r *fakeRules) SendsValues() bool { return r.values }

func (r *fakeRules) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *fakeRules) Join(_ Member, root []byte) error {
	r.joined = root
	return r.refuse
}

func (r *fakeRules) Leave() error {
	r.joined = nil
	return nil
}

func (r *fakeRules) set(approvers ...forms.Approver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.approvers = approvers
	close(r.changed)
	r.changed = make(chan struct{})
}

type enrolled bool

func (e enrolled) Enrolled() bool { return bool(e) }

// peer is one machine of a fleet: a membership, with the real queue.
type peer struct {
	t      *testing.T
	dir    string
	m      *Membership
	queue  *approval.Queue
	db     *store.DB
	rec    *recorder
	rules  *fakeRules
	now    time.Time
	asking Asking
	secret enrolled
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	h := &peer{t: t, dir: t.TempDir(), rec: &recorder{}, rules: &fakeRules{changed: make(chan struct{})}, now: time.Now()}
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *peer) start() {
	h.t.Helper()
	var err error
	h.m, err = Open(Options{
		Dir: h.dir, Recorder: h.rec, Head: h.rec.head, Label: "bob@desk", Presence: &h.secret, Now: func() time.Time { return h.now },
		Redact:     func(text string) string { return strings.ReplaceAll(text, "hunter2", "(secret)") },
		RedactJSON: func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "hunter2", "(secret)")) },
		Foreign:    func() Asking { return h.asking },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if h.db, err = store.Open(filepath.Join(h.dir, "state.db")); err != nil {
		h.t.Fatal(err)
	}
	if h.queue, err = approval.New(h.db, approval.Options{Recorder: h.rec, Colleagues: h.m}); err != nil {
		h.t.Fatal(err)
	}
	h.m.Use(h.queue, h.rules)
}

func (h *peer) stop() {
	if err := errors.Join(h.queue.Close(), h.db.Close()); err != nil {
		h.t.Error(err)
	}
}

// restart replaces the daemon.
func (h *peer) restart() {
	h.t.Helper()
	h.stop()
	h.start()
}

func memberOf(letter string) Member {
	sum := sha256.Sum256(root)
	return Member{Device: device(letter), Fleet: "acme", Group: "eng", Mode: forms.ModeFloor, Engine: []string{"tls://fleet.example:4222"}, Root: hex.EncodeToString(sum[:])}
}

// joined returns a machine in the fleet, whose policy names the owner of key as approver.
func joined(t *testing.T, letter string, approvers ...forms.Approver) *peer {
	t.Helper()
	h := newPeer(t)
	if err := h.m.Join(t.Context(), memberOf(letter), root, "pid 1", gate.LevelWatch); err != nil {
		t.Fatal(err)
	}
	h.rules.approvers = approvers
	return h
}

func ann(key *sshkey.Key, devices ...string) forms.Approver {
	return forms.Approver{Name: "ann", SSH: key.Line(), Age: age, Devices: devices}
}

// call returns the question about a call that only colleagues may approve, or also others.
func call(seq uint64, surfaces ...string) *gate.Question {
	line := []byte(fmt.Sprintf(`{"id":%d,"params":{"name":"drop","arguments":{"table":"t%d","key":"hunter2"}}}`, seq, seq))
	c := &gate.Call{
		Message: gate.Message{Seq: seq, ID: fmt.Sprint("c-", seq), Method: "tools/call", Subject: "drop", Line: line},
		Case:    gate.Case{Attachment: "a", Server: "db", Agent: "claude-code", Session: "s", Launch: "l", Project: "/p", Profile: gate.Production, Patience: 24 * time.Hour, Definition: [32]byte{7}},
	}
	span := func(text string) wire.Span {
		i := strings.Index(string(line), text)
		return wire.Span{Start: i, End: i + len(text)}
	}
	c.Envelope.Params = wire.Span{Start: strings.Index(string(line), `{"name"`), End: len(line) - 1}
	c.Envelope.Arguments = span(fmt.Sprintf(`{"table":"t%d","key":"hunter2"}`, seq))
	if len(surfaces) == 0 {
		surfaces = []string{gate.SurfaceColleague}
	}
	return &gate.Question{
		Call: c, Ruling: gate.Ruling{Move: gate.Ask, Reason: "it drops a table", Rule: "thoughtgate.yaml:3", Workflow: "team", Surfaces: surfaces, Level: gate.LevelWatch, Timeout: time.Hour},
		Subject: sha256.Sum256([]byte(fmt.Sprint("subject", seq))), Digest: c.Digest(),
	}
}

// courier watches the questions of a machine, as tg-fleet does while it is connected.
func (h *peer) courier() (next func() Asked, end func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	all := make(chan Asked)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for q, err := range h.m.Watch(ctx) {
			if err != nil {
				return
			}
			select {
			case all <- q:
			case <-ctx.Done():
				return
			}
		}
	}()
	for h.m.Unreachable() != "" && h.m.Able() == nil {
		time.Sleep(time.Millisecond) // until Watch has begun in the goroutine
	}
	return func() Asked {
			h.t.Helper()
			select {
			case q := <-all:
				return q
			case <-time.After(time.Minute):
				h.t.Fatal("no question")
				return Asked{}
			}
		}, func() {
			cancel()
			<-done
		}
}

// decision returns the decision of a key on a question.
func decision(t *testing.T, key *sshkey.Key, q Asked, verdict string) Decision {
	t.Helper()
	asked, err := forms.ParseQuestion(q.Statement)
	if err != nil {
		t.Fatal(err)
	}
	s := asked.Decided(verdict, fingerprint(t, key), "because")
	return Decision{ID: q.ID, Statement: s.Encode(), Signature: key.Sign(forms.Namespace, s.Encode())}
}

func fingerprint(t *testing.T, key *sshkey.Key) string {
	t.Helper()
	k, err := forms.ParseKey(key.Line())
	if err != nil {
		t.Fatal(err)
	}
	return k.Fingerprint()
}

// ask asks and returns the held call.
func (h *peer) ask(q *gate.Question) gate.Held {
	h.t.Helper()
	held, err := h.queue.Ask(h.t.Context(), q)
	if err != nil {
		h.t.Fatal(err)
	}
	return held
}

func (h *peer) wait(held gate.Held) gate.Answer {
	h.t.Helper()
	answer, err := held.Wait(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return answer
}

func TestJoinAndLeave(t *testing.T) {
	h := newPeer(t)
	if _, err := h.m.Read("", 0); !errors.Is(err, gate.ErrNoFleet) {
		t.Errorf("read without a fleet: %v", err)
	}
	if err := h.m.Leave(t.Context(), "pid 1", gate.LevelWatch); !errors.Is(err, gate.ErrNoFleet) {
		t.Errorf("left no fleet: %v", err)
	}
	for name, f := range map[string]func(*Member){
		"device": func(m *Member) { m.Device = "x" }, "mode": func(m *Member) { m.Mode = "" }, "group": func(m *Member) { m.Group = "a.b" },
		"engine": func(m *Member) { m.Engine = nil }, "root": func(m *Member) { m.Root = strings.Repeat("a", 64) },
	} {
		as := memberOf("A")
		f(&as)
		if err := h.m.Join(t.Context(), as, root, "pid 1", gate.LevelWatch); err == nil {
			t.Errorf("joined with another %s", name)
		}
	}
	h.rec.err = errors.New("disk full")
	if err := h.m.Join(t.Context(), memberOf("A"), root, "pid 1", gate.LevelWatch); err == nil || h.rules.joined != nil {
		t.Errorf("joined without a record: %v", err)
	}
	h.rec.err = nil
	_, changed := h.m.Member()
	if err := h.m.Join(t.Context(), memberOf("A"), root, "pid 1", gate.LevelPresence); err != nil {
		t.Fatal(err)
	}
	<-changed
	if err := h.m.Join(t.Context(), memberOf("B"), root, "pid 1", gate.LevelWatch); err == nil {
		t.Error("joined twice")
	}
	h.restart()
	if m, _ := h.m.Member(); m.Device != device("A") || m.Since != 1 || m.Label != "bob@desk" {
		t.Errorf("after a restart: %+v", m)
	}
	if err := h.m.Leave(t.Context(), "pid 1", gate.LevelWatch); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if m, _ := h.m.Member(); m.Joins() || h.rules.joined != nil {
		t.Errorf("after leaving: %+v", m)
	}
	got := h.rec.of(record.KindFleet)
	if len(got) != 2 || got[0].Verdict != "joined" || got[0].Level != "presence" || got[1].Verdict != "left" || !strings.Contains(got[0].Reason, "mode floor") {
		t.Errorf("records: %+v", got)
	}
}

// A membership that can't be read is not none: the daemon would be looser than agreed.
func TestDamagedMembership(t *testing.T) {
	h := joined(t, "A")
	path := filepath.Join(h.dir, memberFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"empty": "", "cut": string(text[:20]), "another version": strings.Replace(string(text), `"v":1`, `"v":2`, 1),
		"another mode": strings.Replace(string(text), "floor", "none", 1), "a space": " " + string(text),
	} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := Open(h.m.o); err == nil {
			t.Errorf("%s: %+v", name, m.member)
		}
	}
}

// Nothing from before the join leaves, and values only if both the user and the policy say so.
func TestRead(t *testing.T) {
	h := newPeer(t)
	for range 5 {
		if err := h.rec.Record(t.Context(), &record.Record{Kind: record.KindCall}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	as := memberOf("A")
	as.Values = true
	if err := h.m.Join(t.Context(), as, root, "pid 1", gate.LevelWatch); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		log          string
		from, begins uint64
		err          error
	}{{"", 0, 6, nil}, {"", 1, 6, nil}, {"LOG", 6, 6, nil}, {"LOG", 7, 7, nil}, {"LOG", 8, 0, ErrBeyond}, {"OTHER", 1, 0, gate.ErrNotFound}} {
		if r, err := h.m.Read(c.log, c.from); !errors.Is(err, c.err) || r.From != c.begins || r.Values {
			t.Errorf("Read(%q, %d) = %+v, %v", c.log, c.from, r, err)
		}
	}
	h.rules.values = true
	if r, err := h.m.Read("", 0); err != nil || !r.Values {
		t.Errorf("with values: %+v, %v", r, err)
	}
	if seq, sends := h.m.Sent("LOG"); seq != 6 || !sends {
		t.Errorf("Sent = %d, %v; want the records before 7", seq, sends)
	}
	if seq, _ := h.m.Sent("OTHER"); seq != 0 {
		t.Errorf("of another log %d were sent", seq)
	}
}

// A machine without an engine gives records to a collector, or to nobody, as its user has agreed.
func TestWithoutEngine(t *testing.T) {
	for otlp, want := range map[string]string{"": "no records leave; policy from https://policy.example/acme/", "https://logs.example/v1/logs": "records leave without values, to https://logs.example/v1/logs"} {
		h := newPeer(t)
		as := memberOf("A")
		as.Engine, as.Policy, as.OTLP, as.Values = nil, "https://policy.example/acme/", otlp, otlp == ""
		if err := h.m.Join(t.Context(), as, root, "pid 1", gate.LevelWatch); err != nil {
			t.Fatal(err)
		}
		h.restart()
		h.rules.values = true
		if _, err := h.m.Read("", 0); (err == nil) != (otlp != "") || err != nil && !errors.Is(err, gate.ErrForbidden) {
			t.Errorf("%q: read: %v", otlp, err)
		}
		if _, sends := h.m.Sent("LOG"); sends != (otlp != "") {
			t.Errorf("%q: the log keeps what was not sent: %v", otlp, sends)
		}
		if s, _ := h.m.State(); s.Values {
			t.Errorf("%q: values leave", otlp)
		}
		if got := h.rec.of(record.KindFleet)[0].Reason; !strings.Contains(got, want) {
			t.Errorf("the record says %q; want %q", got, want)
		}
	}
	for name, change := range map[string]func(*Member){
		"an engine, too":  func(m *Member) { m.Policy = "https://policy.example/" },
		"records alone":   func(m *Member) { m.OTLP = "https://logs.example/v1/logs" },
		"a plain address": func(m *Member) { m.Engine, m.Policy = nil, "http://policy.example/" },
	} {
		as := memberOf("A")
		change(&as)
		if err := newPeer(t).m.Join(t.Context(), as, root, "pid 1", gate.LevelWatch); !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("joined with %s: %v", name, err)
		}
	}
}

// However fast a courier reads, records leave at a bounded rate, and the first ones at once.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		start := time.Now()
		for range 3 * paceRate / (64 << 10) {
			if err := p.Wait(t.Context(), 64<<10); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took < 2900*time.Millisecond || took > 3100*time.Millisecond {
			t.Errorf("the bytes of 3 s have left after %v", took)
		}
		start = time.Now()
		if err := p.Wait(t.Context(), paceStep/2); err != nil || time.Since(start) > 0 {
			t.Errorf("a few bytes after %v, %v", time.Since(start), err)
		}
	})
}

// A decision that counts: approved by a plain key, by a touched one, and denied.
func TestColleagueDecides(t *testing.T) {
	plain, touch := sshkey.New(t), sshkey.NewTouch(t, true)
	h := joined(t, "A", ann(plain), forms.Approver{Name: "eve", SSH: touch.Line(), Age: age})
	next, end := h.courier()
	defer end()
	for i, c := range []struct {
		key      *sshkey.Key
		verdict  string
		approved bool
		level    string
	}{{plain, forms.Approve, true, "account"}, {touch, forms.Approve, true, "touch"}, {plain, forms.Deny, false, "account"}} {
		held := h.ask(call(uint64(i + 1)))
		q := next()
		if strings.Contains(string(q.Shown)+string(q.Statement), "hunter2") || len(q.Recipients) != 2 {
			t.Errorf("what leaves: %s %s for %v", q.Statement, q.Shown, q.Recipients)
		}
		if got, err := h.m.Decide(t.Context(), decision(t, c.key, q, c.verdict)); err != nil || (got == "approved") != c.approved {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
		if answer := h.wait(held); answer.Approved != c.approved || answer.Note != "because" {
			t.Errorf("%d: the call gets %+v", i, answer)
		}
		if e := next(); e.ID != q.ID || e.End == "" {
			t.Errorf("the courier is told %+v", e)
		}
		all := h.rec.of(record.KindDecision)
		r := all[len(all)-1]
		if r.Level != c.level || r.Surface != gate.SurfaceColleague || !strings.Contains(r.Decider, fingerprint(t, c.key)) || r.Approver == "" {
			t.Errorf("%d: recorded %+v", i, r)
		}
	}
}

// Whatever the engine or the courier does with decisions, none of it is an approval.
func TestLyingCourier(t *testing.T) {
	key, other := sshkey.New(t), sshkey.New(t)
	h := joined(t, "A", ann(key))
	b := joined(t, "B", ann(key))
	next, end := h.courier()
	defer end()
	nextOfB, endOfB := b.courier()
	defer endOfB()
	held := h.ask(call(1))
	q := next()
	b.ask(call(1))
	qOfB := nextOfB()
	h.ask(call(2))
	q2 := next()
	change := func(f func(*forms.Statement)) Decision {
		asked, _ := forms.ParseQuestion(q.Statement)
		f(asked)
		s := asked.Decided(forms.Approve, fingerprint(t, key), "")
		return Decision{ID: q.ID, Statement: s.Encode(), Signature: key.Sign(forms.Namespace, s.Encode())}
	}
	good := decision(t, key, q, forms.Approve)
	denied := decision(t, key, q, forms.Deny)
	moved := decision(t, key, q2, forms.Approve)
	moved.ID = q.ID
	for name, d := range map[string]Decision{
		"forged by another key":   decision(t, other, q, forms.Approve),
		"another signer's name":   {ID: q.ID, Statement: good.Statement, Signature: other.Sign(forms.Namespace, good.Statement)},
		"another namespace":       {ID: q.ID, Statement: good.Statement, Signature: key.Sign("file", good.Statement)},
		"no signature":            {ID: q.ID, Statement: good.Statement},
		"of another question":     moved,
		"of another machine":      {ID: q.ID, Statement: decision(t, key, qOfB, forms.Approve).Statement, Signature: decision(t, key, qOfB, forms.Approve).Signature},
		"a denial turned":         {ID: q.ID, Statement: good.Statement, Signature: denied.Signature},
		"another digest":          change(func(s *forms.Statement) { s.Digest = strings.Repeat("a", 64) }),
		"another subject":         change(func(s *forms.Statement) { s.Subject = strings.Repeat("a", 64) }),
		"shown another call":      change(func(s *forms.Statement) { s.Shown = strings.Repeat("a", 64) }),
		"another server":          change(func(s *forms.Statement) { s.Server = "files" }),
		"another tool":            change(func(s *forms.Statement) { s.Tool = "list" }),
		"another definition":      change(func(s *forms.Statement) { s.Definition = "" }),
		"another nonce":           change(func(s *forms.Statement) { s.Nonce = strings.Repeat("0", 32) }),
		"a longer life":           change(func(s *forms.Statement) { s.Expires += 3600 }),
		"another group":           change(func(s *forms.Statement) { s.Group = "ops" }),
		"another device":          change(func(s *forms.Statement) { s.Device = device("B") }),
		"without need of a touch": change(func(s *forms.Statement) { s.Touch = true }),
		"the question itself":     {ID: q.ID, Statement: q.Statement, Signature: key.Sign(forms.Namespace, q.Statement)},
		"no statement":            {ID: q.ID, Signature: good.Signature},
		"a statement of 1 MiB":    {ID: q.ID, Statement: make([]byte, 1<<20), Signature: good.Signature},
	} {
		if got, err := h.m.Decide(t.Context(), d); !errors.Is(err, gate.ErrForbidden) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, id := range []string{"", "A-1", "A-1-zzzzzzzz", "A-99-00000000", "../x", strings.Repeat("a", 1000)} {
		d := good
		d.ID = id
		if got, err := h.m.Decide(t.Context(), d); err == nil {
			t.Errorf("the id %.20q: %q", id, got)
		}
	}
	if list := h.queue.List(false); len(list) != 2 {
		t.Fatalf("a lie has ended a question: %+v", list)
	}
	if n := len(h.rec.of(record.KindDenied)); n == 0 || n > maxRefusals {
		t.Errorf("%d refusals are recorded", n)
	}
	if got, err := h.m.Decide(t.Context(), good); err != nil || got != "approved" {
		t.Fatalf("the true one: %q, %v", got, err)
	}
	if !h.wait(held).Approved {
		t.Error("the call is not approved")
	}
	for name, d := range map[string]Decision{"replayed": good, "the other verdict, late": denied} {
		if got, err := h.m.Decide(t.Context(), d); !errors.Is(err, gate.ErrDecided) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A rejection beats an approval that no call has taken; nothing beats a rejection.
func TestTwoVerdicts(t *testing.T) {
	one, two := sshkey.New(t), sshkey.New(t)
	for name, verdicts := range map[string][2]string{"approval first": {forms.Approve, forms.Deny}, "rejection first": {forms.Deny, forms.Approve}} {
		h := joined(t, "A", ann(one), forms.Approver{Name: "bob", SSH: two.Line(), Age: age})
		next, end := h.courier()
		asked := call(1)
		asked.Call.Patience = time.Millisecond // its agent does not wait
		held := h.ask(asked)
		q := next()
		if answer := h.wait(held); answer.State != gate.StateParked {
			t.Fatalf("%s: not parked: %+v", name, answer)
		}
		_, first := h.m.Decide(t.Context(), decision(t, one, q, verdicts[0]))
		if verdicts[0] == forms.Approve {
			h.restart() // the approval waits for the repeated call over a restart
		}
		_, second := h.m.Decide(t.Context(), decision(t, two, q, verdicts[1]))
		if first != nil || (second == nil) != (verdicts[1] == forms.Deny) {
			t.Errorf("%s: %v, then %v", name, first, second)
		}
		again := call(1)
		again.Call.Seq = 2
		if answer := h.wait(h.ask(again)); answer.Approved {
			t.Errorf("%s: approved: %+v", name, answer)
		}
		end()
	}
}

// Who is no approver now, or asks about their own machine, decides nothing. What needs a touch is
// not approved without one; anybody may deny it.
func TestWhoMayDecide(t *testing.T) {
	key, touched, untouched := sshkey.New(t), sshkey.NewTouch(t, true), sshkey.NewTouch(t, false)
	h := joined(t, "A", ann(key))
	next, end := h.courier()
	defer end()
	h.ask(call(1))
	q := next()
	if got, err := h.m.Decide(t.Context(), decision(t, key, q, forms.Approve)); err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	h.rules.set(ann(key, device("A")), forms.Approver{Name: "bob", SSH: sshkey.New(t).Line(), Age: age})
	next, end2 := h.courier()
	defer end2()
	h.ask(call(2))
	q = next()
	if len(q.Recipients) != 1 {
		t.Errorf("asked are %v", q.Recipients)
	}
	if got, err := h.m.Decide(t.Context(), decision(t, key, q, forms.Approve)); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("of their own machine: %q, %v", got, err)
	}
	h.rules.set()
	if got, err := h.m.Decide(t.Context(), decision(t, key, q, forms.Approve)); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("revoked: %q, %v", got, err)
	}
	h.rules.set(ann(key), forms.Approver{Name: "t", SSH: touched.Line(), Age: age}, forms.Approver{Name: "u", SSH: untouched.Line(), Age: age})
	next, end3 := h.courier()
	defer end3()
	next() // question 2 still waits
	grave := func(seq uint64) Asked {
		asked := call(seq)
		asked.Ruling.Level = gate.LevelPresence
		h.ask(asked)
		return next()
	}
	q = grave(3)
	for name, key := range map[string]*sshkey.Key{"a plain key": key, "an untouched key": untouched} {
		if got, err := h.m.Decide(t.Context(), decision(t, key, q, forms.Approve)); !errors.Is(err, gate.ErrForbidden) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := h.m.Decide(t.Context(), decision(t, touched, q, forms.Approve)); err != nil || got != "approved" {
		t.Errorf("touched: %q, %v", got, err)
	}
	next() // its end
	if got, err := h.m.Decide(t.Context(), decision(t, key, grave(4), forms.Deny)); err != nil || got != "rejected" {
		t.Errorf("a denial: %q, %v", got, err)
	}
}

func TestExpired(t *testing.T) {
	key := sshkey.New(t)
	h := joined(t, "A", ann(key))
	next, end := h.courier()
	defer end()
	h.ask(call(1))
	q := next()
	h.now = h.now.Add(2 * time.Hour) // the clock of signatures; that of the queue can't be set
	if got, err := h.m.Decide(t.Context(), decision(t, key, q, forms.Approve)); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("expired: %q, %v", got, err)
	}
}

// Nobody on this machine answers as a colleague, and a workflow must name colleagues.
func TestOnlyColleagues(t *testing.T) {
	key := sshkey.New(t)
	h := joined(t, "A", ann(key))
	next, end := h.courier()
	defer end()
	held := h.ask(call(1))
	next()
	q, err := h.queue.Get(t.Context(), held.ID())
	if err != nil {
		t.Fatal(err)
	}
	for _, surface := range []string{gate.SurfaceColleague, "terminal", "script", "page", "slack"} {
		d := approval.Decision{ID: q.ID, Subject: q.Subject[:], Approve: true, Surface: surface, Decider: "pid 7"}
		if got, err := h.queue.Decide(t.Context(), d); !errors.Is(err, gate.ErrForbidden) {
			t.Errorf("approved from %s: %+v, %v", surface, got, err)
		}
	}
	d := approval.Decision{ID: q.ID, Subject: q.Subject[:], Surface: "terminal", Decider: "pid 7"}
	if got, err := h.queue.Decide(t.Context(), d); err != nil || got.State != store.StateRejected {
		t.Errorf("denied here: %+v, %v", got, err)
	}
	next() // its end
	h.ask(call(2, "terminal"))
	h.ask(call(3, "terminal", gate.SurfaceColleague))
	q3 := next()
	if !strings.HasPrefix(q3.ID, "A-3-") {
		t.Errorf("a question that is not for colleagues leaves: %+v", q3)
	}
	if got, err := h.m.Decide(t.Context(), Decision{ID: "A-2-00000000"}); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("a question that is not for colleagues: %q, %v", got, err)
	}
}

// Where nobody can answer, the agent learns that at once: there is no fleet or no approver, or no
// connection; then the question waits until there is one.
func TestNobodyReachable(t *testing.T) {
	key := sshkey.New(t)
	h := newPeer(t)
	if _, err := h.queue.Ask(t.Context(), call(1)); !errors.Is(err, gate.ErrNoColleague) || !strings.Contains(err.Error(), "no fleet") {
		t.Errorf("without a fleet: %v", err)
	}
	if err := h.m.Join(t.Context(), memberOf("A"), root, "pid 1", gate.LevelWatch); err != nil {
		t.Fatal(err)
	}
	if _, err := h.queue.Ask(t.Context(), call(1)); !errors.Is(err, gate.ErrNoColleague) || !strings.Contains(err.Error(), "names no approver") {
		t.Errorf("without an approver: %v", err)
	}
	h.rules.set(ann(key))
	answer := h.wait(h.ask(call(2)))
	if answer.State != gate.StateParked || !strings.Contains(answer.Note, "not connected") {
		t.Errorf("without a connection: %+v", answer)
	}
	next, end := h.courier()
	defer end()
	if got, err := h.m.Decide(t.Context(), decision(t, key, next(), forms.Approve)); err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	again := call(2)
	again.Call.Seq = 22
	if answer := h.wait(h.ask(again)); !answer.Approved {
		t.Errorf("repeated: %+v", answer)
	}
}

// A question of another machine stands in the queue of this one. What a person answers is signed
// there, and counts where it was asked.
func TestAsk(t *testing.T) {
	key := sshkey.New(t)
	a, b := joined(t, "A", ann(key)), joined(t, "B")
	next, end := a.courier()
	defer end()
	held := a.ask(call(1))
	q := next()
	got := make(chan Answer, 1)
	go func() {
		answer, err := b.m.Ask(t.Context(), Foreign{Device: device("A"), Statement: q.Statement, Shown: q.Shown, Expires: q.Expires, Key: key.Line()})
		if err != nil {
			t.Error(err)
		}
		got <- answer
	}()
	foreign := b.waits(1)[0]
	if foreign.Device != device("A") || !strings.Contains(foreign.Agent, "claude-code of bob@desk") || !strings.Contains(foreign.Reason, device("A")) || !strings.Contains(foreign.Reason, fingerprint(t, key)) || foreign.Server != "db" || !strings.Contains(string(foreign.Params), `"t1"`) || foreign.Waiting != 1 {
		t.Errorf("shown: %+v", foreign)
	}
	for name, d := range map[string]approval.Decision{
		"a grant": {Terms: &approval.Terms{For: time.Hour, Match: approval.MatchTool, Scope: approval.Always}}, "other arguments": {Edit: []byte(`{}`)},
	} {
		d.ID, d.Subject, d.Approve, d.Surface, d.Decider = foreign.ID, foreign.Subject[:], true, "terminal", "pid 9"
		if _, err := b.queue.Decide(t.Context(), d); !errors.Is(err, gate.ErrInvalid) || !strings.Contains(err.Error(), "only be approved as it is") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.queue.Decide(t.Context(), approval.Decision{ID: foreign.ID, Subject: foreign.Subject[:], Approve: true, Note: "ok", Surface: "terminal", Decider: "pid 9"}); err != nil {
		t.Fatal(err)
	}
	answer := <-got
	if !answer.Approved {
		t.Fatalf("%+v", answer)
	}
	if r := b.rec.of(record.KindDecision)[0]; r.Server != "" || !strings.Contains(r.Reason, device("A")) || !strings.Contains(r.Reason, "drop on db") || r.Verdict != "approved" {
		t.Errorf("recorded here: %+v", r)
	}
	if end, err := a.m.Decide(t.Context(), Decision{ID: q.ID, Statement: answer.Statement, Signature: key.Sign(forms.Namespace, answer.Statement)}); err != nil || end != "approved" {
		t.Fatalf("%q, %v", end, err)
	}
	if answer := a.wait(held); !answer.Approved || answer.Note != "ok" {
		t.Errorf("%+v", answer)
	}
	b.restart() // nothing of it is left to be asked
	if list := b.queue.List(false); len(list) != 0 {
		t.Errorf("waits still: %+v", list)
	}
}

// waits returns the questions that wait once there are n.
func (h *peer) waits(n int) []store.Question {
	h.t.Helper()
	for range 10_000 {
		if list := h.queue.List(false); len(list) == n {
			return list
		}
		time.Sleep(time.Millisecond) // Ask runs in another goroutine
	}
	h.t.Fatalf("%d questions do not come to wait", n)
	return nil
}

// A lie about a question is refused, or leads to a decision that no machine takes.
func TestAskRefused(t *testing.T) {
	key := sshkey.New(t)
	a, b := joined(t, "A", ann(key)), joined(t, "B")
	next, end := a.courier()
	defer end()
	asked := call(1)
	asked.Ruling.Level = gate.LevelPresence
	a.ask(asked)
	grave := next()
	a.ask(call(2))
	q := next()
	good := Foreign{Device: device("A"), Statement: q.Statement, Shown: q.Shown, Expires: q.Expires, Key: key.Line()}
	change := func(f func(*Foreign)) Foreign {
		changed := good
		f(&changed)
		return changed
	}
	for name, f := range map[string]Foreign{
		"shown another call": change(func(f *Foreign) { f.Shown = grave.Shown }),
		"of another machine": change(func(f *Foreign) { f.Device = device("C") }),
		"no statement":       change(func(f *Foreign) { f.Statement = nil }),
		"no key":             change(func(f *Foreign) { f.Key = "" }),
		"expired":            change(func(f *Foreign) { f.Expires = time.Now().Add(-time.Minute) }),
		"a key that can't":   {Device: device("A"), Statement: grave.Statement, Shown: grave.Shown, Expires: grave.Expires, Key: key.Line()},
		"a decision":         change(func(f *Foreign) { f.Statement = decision(t, key, q, forms.Approve).Statement }),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if answer, err := b.m.Ask(ctx, f); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
		cancel()
	}
	soon, cancelSoon := context.WithTimeout(t.Context(), time.Minute)
	defer cancelSoon()
	if answer, err := a.m.Ask(soon, good); !errors.Is(err, gate.ErrForbidden) {
		t.Errorf("of its own: %+v, %v", answer, err)
	}
	if list := b.queue.List(false); len(list) != 0 {
		t.Errorf("waits: %+v", list)
	}
	// The end of the request withdraws it, and the same question is not asked twice at once.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := b.m.Ask(ctx, good)
		done <- err
	}()
	b.waits(1)
	if _, err := b.m.Ask(t.Context(), good); !errors.Is(err, gate.ErrDecided) {
		t.Errorf("twice: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.waits(0)
	// Neither does it outlive the daemon that was asked.
	go func() {
		_, err := b.m.Ask(t.Context(), good)
		done <- err
	}()
	b.waits(1)
	b.restart()
	if err := <-done; !errors.Is(err, gate.ErrNotRunning) {
		t.Error(err)
	}
	b.queue.WithdrawUnclaimed("the agent has left")
	b.waits(0)
}

// Questions of others are bounded, and keep none of this machine's away.
func TestAskFlood(t *testing.T) {
	h := joined(t, "B")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	key := sshkey.New(t)
	shown := forms.Shown{V: forms.ShownVersion, From: "mallory", Facts: []string{}, Params: "{}"}
	ask := func(letter string, i int) (Answer, error) {
		nonce := forms.NewNonce()
		s := forms.Statement{
			V: forms.StatementVersion, Fleet: "acme", Group: "eng", Device: device(letter), Question: forms.QuestionName(fmt.Sprint("A-", i), nonce), Nonce: nonce,
			Digest: forms.Digest(nil), Subject: forms.Digest(nil), Server: "db", Method: "tools/call", Shown: forms.Digest(shown.Encode()), Expires: time.Now().Add(time.Hour).Unix(),
		}
		return h.m.Ask(ctx, Foreign{Device: device(letter), Statement: s.Encode(), Shown: shown.Encode(), Key: key.Line()})
	}
	const many = 40
	refused := make(chan error, many)
	var asking sync.WaitGroup
	for i := range many {
		asking.Go(func() {
			if _, err := ask("C", i); ctx.Err() == nil {
				refused <- err
			}
		})
	}
	for range many - 16 {
		select {
		case err := <-refused:
			if !errors.Is(err, gate.ErrFull) && !errors.Is(err, gate.ErrBurst) {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("more than 16 questions of one machine wait")
		}
	}
	asking.Go(func() { _, _ = ask("D", 1) }) // another machine has room
	h.waits(17)
	if _, err := h.queue.Ask(t.Context(), call(1, "terminal")); err != nil {
		t.Errorf("a question of this machine: %v", err)
	}
	cancel()
	asking.Wait()
}

// The workflow of this machine says what a person proves for others.
func TestForeignLevel(t *testing.T) {
	for name, c := range map[string]struct {
		asking Asking
		secret enrolled
		want   string
	}{
		"nothing said":           {Asking{}, false, "watch"},
		"nothing said, a secret": {Asking{}, true, "presence"},
		"any":                    {Asking{Level: gate.LevelWatch}, true, "watch"},
		"presence":               {Asking{Level: gate.LevelPresence}, false, "presence"},
	} {
		h := newPeer(t)
		h.asking, h.secret = c.asking, c.secret
		q := h.m.question(&forms.Statement{}, &forms.Shown{}, h.asking)
		if q.Level != c.want {
			t.Errorf("%s: %s; want %s", name, q.Level, c.want)
		}
	}
}

// What is no JSON is shown as text; hostile texts stay short.
func TestShownParams(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, `{"a":1,"a":2}`: `{"arguments":"{\"a\":1,\"a\":2}"}`, "": `{"arguments":""}`, `[1]`: `{"arguments":"[1]"}`,
	} {
		if got := string(paramsOf(&forms.Shown{Params: text})); got != want {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	if got := clip(strings.Repeat("é", 100), 11); len(got) > 11+len("…") || !strings.HasPrefix(got, "ééééé…") {
		t.Errorf("clipped to %q", got)
	}
	q := newPeer(t).m.question(&forms.Statement{Tool: strings.Repeat("x", 1<<20)}, &forms.Shown{Facts: make([]string, 1000), From: strings.Repeat("y", 1<<20)}, Asking{})
	if len(q.Tool)+len(q.Agent)+len(q.Reason) > 8<<10 || len(q.Facts) > maxFacts {
		t.Error("hostile texts are long")
	}
}
