package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// world is a test fixture with everything that an approval depends on: the real gate, policies and
// questions, and an agent, a server and a clock simulated by the test.
type world struct {
	dir  string
	gate *gate.Gate
	set  *policy.Set
	db   *store.DB
	q    *approval.Queue

	yaml, cedar string
	shim        gate.Shim
	line        string
	asleep      atomic.Int64 // offset of the clock that nobody can set
	closed      bool

	mu      sync.Mutex // guards the fields below
	pin     gate.Pinned
	facts   []gate.Fact
	hooks   []gate.Hooked                // what the installed extensions answer for the call
	onHook  func(*gate.Call) gate.Hooked // used instead of hooks, if set
	records []record.Record
	onYes   func() // called when an approval is recorded, before the call can know of it
}

const (
	voidYAML = `schema: 1
sources:
  - {id: notes}
governance:
  rules:
    - {match: "write_*", action: policy, description: "read it twice"}
approval:
  ops: {destination: {type: local}, timeout: 10m, validity: 10m, surfaces: [terminal, script]}
`
	voidCedar = `@id("writes") @approval("ops") permit (principal, action, resource) when { context.facts.contains("acts") };
`
	voidLine = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_note","arguments":{"name":"plan","text":"ship it"},"_meta":` + voidMeta + `}}`
	voidMeta = `{"x":1,"progressToken":1,"claudecode/toolUseId":"toolu_01","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
)

func newWorld(dir string) (*world, error) {
	w := &world{
		dir: dir, yaml: voidYAML, cedar: voidCedar, line: voidLine,
		pin: gate.Pinned{Digest: [32]byte{1}}, facts: []gate.Fact{{Name: "acts", Detail: "it writes"}},
		shim: gate.Shim{Attachment: "first", Session: "s", Agent: "claude-code", Project: "/p", Cwd: "/p", Server: "notes", Launch: "l", Patience: time.Hour},
	}
	w.gate = &gate.Gate{
		Policy: func() gate.Policy { w.mu.Lock(); defer w.mu.Unlock(); return w.set },
		Facts:  w, Pins: shelf{w}, Recorder: w, Hooks: extensions{w}, Logger: slog.New(slog.DiscardHandler),
	}
	if err := w.reload(); err != nil {
		return nil, err
	}
	return w, w.open()
}

// newState returns the state database of a new daemon. Creating it is most of the work for a new
// world.
var newState = sync.OnceValues(func() ([]byte, error) {
	dir, remove, err := tempdir.Make("", "state")
	if err != nil {
		return nil, err
	}
	defer remove()
	path := filepath.Join(dir, "state.db")
	db, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func (w *world) open() (err error) {
	path := filepath.Join(w.dir, "state.db")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		state, err := newState()
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, state, 0o600); err != nil {
			return err
		}
	}
	if w.db, err = store.Open(path); err != nil {
		return err
	}
	w.q, err = approval.New(w.db, approval.Options{
		Recorder: w, Boot: func() (string, time.Duration) { return "one", time.Since(started) + time.Duration(w.asleep.Load()) },
	})
	w.gate.Approver, w.gate.Grants, w.closed = w.q, w.q, false
	return err
}

var started = time.Now()

func (w *world) close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	return errors.Join(w.q.Close(), w.db.Close())
}

// reload puts the configuration and policies of the world in force.
func (w *world) reload() error {
	err := errors.Join(os.WriteFile(filepath.Join(w.dir, config.FileName), []byte(w.yaml), 0o600),
		os.MkdirAll(filepath.Join(w.dir, "policies"), 0o700), os.WriteFile(filepath.Join(w.dir, "policies/w.cedar"), []byte(w.cedar), 0o600))
	if err != nil {
		return err
	}
	cfg, ds := config.Load(filepath.Join(w.dir, config.FileName), func(string) string { return "" })
	if cfg == nil {
		return fmt.Errorf("%v", ds)
	}
	set, ds := policy.Load(cfg)
	if set == nil {
		return fmt.Errorf("%v", ds)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = set
	return nil
}

// rewrites returns a change of the configuration or the policies. The change has no effect if
// another one has removed its text, or if both together are invalid: then the set in force stays.
func rewrites(old, with string) func(*world) error {
	return func(w *world) error {
		yaml, cedar := w.yaml, w.cedar
		w.yaml, w.cedar = strings.Replace(yaml, old, with, 1), strings.Replace(cedar, old, with, 1)
		if err := w.reload(); err != nil {
			w.yaml, w.cedar = yaml, cedar
		}
		return nil
	}
}

// sets returns a change of what the gate is told about a call.
func sets(change func(*world)) func(*world) error {
	return func(w *world) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		change(w)
		return nil
	}
}

func (w *world) Of(_ context.Context, c *gate.Call) []gate.Fact {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.facts)
}
func (*world) Observe(*gate.Observation) {}
func (*world) Forwarded(*gate.Call)      {}
func (*world) Forget(string, string)     {}
func (w *world) pinned() gate.Pinned     { w.mu.Lock(); defer w.mu.Unlock(); return w.pin }
func (w *world) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	w.mu.Lock()
	w.records = append(w.records, *r)
	then := w.onYes
	w.mu.Unlock()
	if then != nil && r.Kind == record.KindDecision && r.Verdict == "approved" {
		then()
	}
	return nil
}

// shelf implements gate.Pins for a world. It is a separate type because its Of differs from that of
// facts.
type shelf struct{ *world }

func (s shelf) Of(*gate.Call) gate.Pinned { return s.pinned() }
func (s shelf) Listed(context.Context, *gate.Call, []gate.Offered) ([]gate.Pinned, error) {
	return nil, nil
}
func (shelf) Relist(string, string)                   {}
func (shelf) Left(string)                             {}
func (s shelf) Holds(*gate.Call, string, string) bool { return s.pinned().Held != "" }

// extensions implements gate.Hooks for a world.
type extensions struct{ *world }

func (e extensions) Revision() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return uint64(len(e.hooks))
}

func (e extensions) Who(*gate.Call, bool) []string { return nil }

func (e extensions) Wants(_ *gate.Call, after bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !after && slices.ContainsFunc(e.hooks, func(h gate.Hooked) bool { return h.Move != 0 })
}

func (e extensions) Before(_ context.Context, c *gate.Call) gate.Hooked {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.onHook != nil {
		return e.onHook(c)
	}
	all := gate.Hooked{Move: gate.Forward}
	for _, h := range e.hooks {
		switch {
		case h.Move == gate.Deny:
			return h
		case h.Changed != nil:
			all = h
		}
	}
	return all
}

func (e extensions) After(context.Context, *gate.Call, []byte) gate.Hooked { return gate.Hooked{} }

// installs returns a change that installs one more extension, which answers h for the call. If h is
// zero, the extension does not want to see the call.
func installs(h gate.Hooked) func(*world) error {
	return sets(func(w *world) { w.hooks = append(w.hooks, h) })
}

// Moments between an approval and the write.
const (
	held     = 'h' // the call is held; the change is made once the approval is recorded
	parked   = 'p' // the call was parked and is repeated by another process
	upgraded = 'r' // nobody gets the answer, and then the daemon is replaced
	asked    = 'q' // the daemon is replaced before somebody answers
)

// change is something that can change between an approval and the write.
type change struct {
	at string // moments at which it can happen
	do func(*world) error
}

// voids are changes that each void an approval, and that together, in any order, never restore the
// original state.
var voids = map[string]change{
	"an argument":         {"prq", lines("ship it", "ship him")},
	"a blank":             {"prq", lines(`"name":"plan"`, `"name": "plan"`)},
	"the order":           {"prq", lines(`"name":"plan","text":"ship it"`, `"text":"ship it","name":"plan"`)},
	"an argument more":    {"prq", lines(`"text"`, `"force":true,"text"`)},
	"_meta":               {"prq", lines(`"x":1`, `"x":2`)},
	"_meta less":          {"prq", lines(`"x":1,`, ``)},
	"a task":              {"prq", lines(`"_meta"`, `"task":{"ttl":1},"_meta"`)},
	"a member more":       {"prq", lines(`"_meta"`, `"destination":"prod","_meta"`)},
	"answers of a user":   {"prq", lines(`"_meta"`, `"inputResponses":{"a":{}},"_meta"`)},
	"another's name":      {"prq", lines(`toolu_0`, `say it to eve`)},
	"the tool":            {"prq", lines("write_note", "write_memo")},
	"the definition":      {"hprq", sets(func(w *world) { w.pin.Digest[1]++ })},
	"no definition":       {"hprq", sets(func(w *world) { w.pin.Digest = [32]byte{} })},
	"a held definition":   {"hprq", sets(func(w *world) { w.pin.Held = "it has changed" })},
	"more is true":        {"hprq", sets(func(w *world) { w.facts = append(w.facts, gate.Fact{Name: "secret"}) })},
	"our own files":       {"hprq", sets(func(w *world) { w.facts = append(w.facts, gate.Fact{Name: "ours"}) })},
	"the command":         {"prq", sets(func(w *world) { w.shim.Launch = "l2" })},
	"the folder":          {"prq", sets(func(w *world) { w.shim.Cwd = "/q" })},
	"the server":          {"prq", sets(func(w *world) { w.shim.Server = "notes2" })},
	"the agent":           {"p", sets(func(w *world) { w.shim.Agent = "cursor" })},
	"the session":         {"p", sets(func(w *world) { w.shim.Session = "t" })},
	"no session":          {"p", sets(func(w *world) { w.shim.Session = "" })},
	"a rule that denies":  {"hprq", rewrites("  rules:\n", "  rules:\n    - {match: write_note, action: deny}\n")},
	"a rule that asks":    {"hprq", rewrites("  rules:\n", "  rules:\n    - {match: write_note, action: approve, approval: ops}\n")},
	"the rule's words":    {"hprq", rewrites("read it twice", "read it")},
	"the rule's policy":   {"hprq", rewrites("action: policy,", "action: policy, policy_id: p,")},
	"a forbid":            {"hprq", rewrites("@id", "forbid (principal, action, resource);\n@id")},
	"no permit":           {"hprq", rewrites("(principal, action, resource) when { context.facts", `(principal == ThoughtGate::Agent::"cursor", action, resource) when { context.facts`)},
	"the policy":          {"hprq", rewrites(`contains("acts")`, `contains("acts") || false`)},
	"a policy that fails": {"hprq", rewrites("@id", `permit (principal, action, resource) when { 9223372036854775807 + 1 == context.time.hour };`+"\n@id")},
	"presence":            {"hprq", rewrites("ops: {", "ops: {require: presence, ")},
	"the surfaces":        {"hprq", rewrites("[terminal, script]", "[terminal]")},
	"the deciders":        {"hprq", rewrites("ops: {destination: {type: local}", "ops: {destination: {type: slack, channel: C0123ABCD, approvers: [U0123ABCD], bot_token_env: A, app_token_env: B}")},
	"what is not shown":   {"hprq", rewrites("ops: {", "ops: {redact_fields: [text], ")},
	"the workflow's name": {"hprq", func(w *world) error {
		w.cedar = strings.Replace(w.cedar, `"ops"`, `"two"`, 1)
		return rewrites("  ops:", "  two:")(w)
	}},
	"a server switched off": {"hprq", rewrites("{id: notes}", "{id: notes, enabled: false}")},
	"a tool hidden":         {"hprq", rewrites("{id: notes}", "{id: notes, expose: {mode: blocklist, tools: [write_note]}}")},
	"the session's end":     {"p", func(w *world) error { w.q.WithdrawSession("s", "over"); return nil }},
	"a no": {"p", func(w *world) error {
		if err := w.decide(false); !errors.Is(err, gate.ErrDecided) { // too late if it had expired
			return err
		}
		return nil
	}},
	"an extension that refuses": {"hprq", installs(gate.Hooked{Move: gate.Deny, By: []string{"guard"}})},
	"an extension that changes": {"hprq", installs(gate.Hooked{Move: gate.Forward, Changed: []byte(`{"name":"plan","text":"..."}`), By: []string{"guard"}})},
	"an extension too late":     {"h", installs(gate.Hooked{Move: gate.Forward})},
	"time":                      {"p", sets(func(w *world) { w.asleep.Add(int64(11 * time.Minute)) })},
	"time, over a restart":      {"p", func(w *world) error { w.asleep.Add(int64(11 * time.Minute)); return w.restart() }},
}

// neutral are changes that do not affect an approval.
var neutral = map[string]change{
	"nothing":           {"hprq", func(*world) error { return nil }},
	"an extension":      {"prq", installs(gate.Hooked{Move: gate.Forward})}, // it is called
	"an idle extension": {"hprq", installs(gate.Hooked{})},
	"lines above":       {"hprq", rewrites("schema: 1\n", "schema: 1\n\n# a note\n")},
	"another rule":      {"hprq", rewrites("  rules:\n", "  rules:\n    - {match: \"delete_*\", action: deny}\n")},
	"another workflow":  {"hprq", rewrites("approval:\n", "approval:\n  zwei: {destination: {type: local}}\n")},
	"another policy":    {"hprq", rewrites("@id", `@id("reads") permit (principal, action == ThoughtGate::Action::"resources/read", resource);`+"\n@id")},
	"less is true":      {"hprq", sets(func(w *world) { w.facts[0].Detail = "in other words" })},
	"the token":         {"prq", lines(`"progressToken":1`, `"progressToken":2`)},
	"the trace":         {"prq", lines(`b7ad6b7169203331`, `00f067aa0ba902b7`)},
	"the agent's name":  {"prq", lines(`toolu_01`, `toolu_02`)},
	"a restart":         {"p", (*world).restart},
	"some time":         {"p", sets(func(w *world) { w.asleep.Add(int64(time.Minute)) })},
}

func lines(old, with string) func(*world) error {
	return sets(func(w *world) { w.line = strings.Replace(w.line, old, with, 1) })
}

func (w *world) restart() error { return errors.Join(w.close(), w.open()) }

func (w *world) decide(approve bool) error {
	ended, err := w.q.Get(context.Background(), "A-1")
	if err != nil {
		return err
	}
	_, err = w.q.Decide(context.Background(), approval.Decision{
		ID: "A-1", Subject: ended.Subject[:], Approve: approve, Decider: "uid 1", Surface: "terminal",
	})
	return err
}

// attach attaches as w.shim, and returns the channel of its verdicts.
func (w *world) attach(earlier map[uint64]record.Record) (*gate.Attachment, chan gate.Verdict) {
	a, verdicts := w.gate.Attach(context.Background(), w.shim, earlier), make(chan gate.Verdict, 16)
	a.Bind(told(verdicts))
	return a, verdicts
}

// told passes on verdicts, except the notice that extensions are called.
func told(verdicts chan<- gate.Verdict) func(gate.Verdict) {
	return func(v gate.Verdict) {
		if v.Move != gate.Ask || v.Approval != "" {
			verdicts <- v
		}
	}
}

func (w *world) submit(a *gate.Attachment, seq uint64) {
	a.Submit(gate.Submission{Seq: seq, Side: wire.FromAgent, Line: []byte(w.line)})
}

// play has a call asked about, approved and written, with changes made between the approval and the
// write, and returns the verdict that the shim gets.
func (w *world) play(moment rune, changes []change) (gate.Verdict, error) {
	var failed error
	apply := func() {
		for _, c := range changes {
			failed = errors.Join(failed, c.do(w))
		}
	}
	if moment == parked {
		w.shim.Patience = time.Millisecond
	}
	a, verdicts := w.attach(nil)
	defer func() { a.Close(true) }()
	w.submit(a, 1)
	v := <-verdicts
	if moment == parked && v.Move == gate.Ask {
		v = <-verdicts
	}
	if want := map[bool]gate.Move{true: gate.Deny, false: gate.Ask}[moment == parked]; v.Move != want || v.Approval != "A-1" {
		return v, fmt.Errorf("at first: %v %s", v.Move, v.Reason)
	}
	switch moment {
	case held:
		w.onYes = apply
		failed = errors.Join(w.decide(true), failed)
	case parked:
		failed = w.decide(true)
		apply()
		w.shim.Attachment, w.shim.Patience = "second", time.Hour
		a.Close(true)
		a, verdicts = w.attach(nil)
		w.submit(a, 1)
	case upgraded:
		a.Bind(nil)
		failed = w.decide(true)
		for n := 1; n > 0; _, _, n = a.Counts() { // until the answer is taken, with no call to notify
			time.Sleep(time.Microsecond)
		}
		a.Close(false)
		failed = errors.Join(failed, w.restart())
		apply()
		a, verdicts = w.attach(w.earlier())
		w.submit(a, 1)
	case asked:
		a.Close(false)
		failed = w.restart()
		apply()
		a, verdicts = w.attach(w.earlier())
		w.submit(a, 1)
		if v := <-verdicts; v.Move != gate.Ask || v.Approval != "A-1" {
			return v, failed
		}
		failed = errors.Join(w.decide(true), failed)
	}
	return <-verdicts, failed
}

// earlier returns what is recorded of the first attachment.
func (w *world) earlier() map[uint64]record.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[uint64]record.Record{}
	for _, r := range w.records {
		if r.Kind == record.KindCall {
			all[r.Call] = r
		}
	}
	return all
}

// forwards returns how many records say that a call was forwarded.
func (w *world) forwards() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.records {
		if r.Kind == record.KindCall && r.Verdict == "forward" {
			n++
		}
	}
	return n
}

// voided checks the result of a call with changes of which some void the approval.
func voided(t interface{ Errorf(string, ...any) }, dir string, moment rune, names []string) {
	w, err := newWorld(dir)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Errorf("%v", err)
		}
	}()
	want, changes := gate.Forward, []change{}
	for _, name := range names {
		c, voids := voids[name]
		if !voids {
			c = neutral[name]
		} else {
			want = gate.Deny
		}
		changes = append(changes, c)
	}
	v, err := w.play(moment, changes)
	goesOn := v.Move == gate.Forward
	if err != nil || goesOn != (want == gate.Forward) || v.Move == gate.Ask && v.Approval == "A-1" {
		t.Errorf("at %c, with %q: %v %s (%s), %v", moment, names, v.Move, v.Reason, v.Approval, err)
	}
	otherBytes := slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains([]string{"the token", "the trace", "the agent's name"}, name)
	})
	if n := w.forwards(); goesOn && n != 1 && !otherBytes {
		t.Errorf("at %c, with %q: %d records that it went on", moment, names, n)
	}
}

// possible returns the names of the changes that can be made at a moment.
func possible(moment rune, of ...map[string]change) []string {
	var names []string
	for _, changes := range of {
		for name, c := range changes {
			if strings.ContainsRune(c.at, moment) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Any relevant change between a person's approval and the write voids the approval, at whatever
// moment it happens. An irrelevant change does not.
//
//gotest:plain it is about what is decided, and not about when
func TestAnyChangeBeforeTheWriteVoidsAYes(t *testing.T) {
	for _, moment := range "hprq" {
		for _, name := range possible(moment, voids, neutral) {
			t.Run(fmt.Sprintf("%c/%s", moment, name), func(t *testing.T) {
				t.Parallel()
				voided(t, t.TempDir(), moment, []string{name})
			})
		}
	}
	for name := range maps.Keys(voids) {
		if _, twice := neutral[name]; twice {
			t.Errorf("%q is in both", name)
		}
	}
}

// No change compensates for another.
//
//gotest:plain it is about what is decided, and not about when
func TestChangesTogetherVoidAYes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		moment := rapid.SampledFrom([]rune("hprq")).Draw(r, "moment")
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(possible(moment, voids, neutral)), 1, 4, rapid.ID).Draw(r, "changes")
		dir, remove, err := tempdir.Make("", "tg")
		if err != nil {
			r.Fatal(err)
		}
		defer remove()
		voided(r, dir, moment, names)
	})
}
