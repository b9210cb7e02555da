package policy

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// casesDrawn is the number of random cases in which the gates are compared with the reference. In
// a soak the variable sets it.
const (
	casesDrawn  = 1000
	casesWanted = "THOUGHTGATE_REFERENCE_CASES"
)

// The gates and the reference agree on the outcome of calls, under random configurations and
// after random histories: answers of persons, and reloads while calls are held.
func TestGatesAgreeWithReference(t *testing.T) {
	n := casesDrawn
	if text := os.Getenv(casesWanted); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", casesWanted, err)
		}
	}
	moves := map[string]int{}
	for i := range n {
		c := newCase(t, uint64(i))
		if c == nil {
			moves["not valid"]++
			continue
		}
		c.play(moves)
		if t.Failed() {
			t.Fatalf("case %d; the configurations were\n%s", i, strings.Join(c.texts, "\n--\n"))
		}
	}
	t.Logf("%d cases came to %v", n, moves)
	for _, move := range []string{"forward rule", "forward permit", "deny visible", "deny rule", "deny permit", "deny accident", "ask rule", "ask permit", "ask ask",
		"approved forward", "approved deny", "refused deny", "would"} {
		if moves[move] < n/1000 {
			t.Errorf("%d cases came to %q: they test too little", moves[move], move)
		}
	}
	if moves["not valid"] > n/2 {
		t.Errorf("%d of %d configurations were not valid", moves["not valid"], n)
	}
}

// randomCase holds configurations, one of which is in force, and a gate that judges by it.
type randomCase struct {
	t    *testing.T
	rand *rand.Rand

	configs []*refConfig
	sets    []*Set
	texts   []string
	now     int          // in force
	calls   atomic.Int64 // made so far

	gate     *gate.Gate
	verdicts chan gate.Verdict

	mu      sync.Mutex
	facts   map[uint64][]gate.Fact
	records []*record.Record
	answers chan gate.Answer
	asked   string                 // workflow of the last question
	told    map[uint64]gate.Answer // answer to each call, by seq
}

func newCase(t *testing.T, seed uint64) *randomCase {
	c := &randomCase{t: t, rand: rand.New(rand.NewPCG(seed, 4)), verdicts: make(chan gate.Verdict, 16), facts: map[uint64][]gate.Fact{}, answers: make(chan gate.Answer), told: map[uint64]gate.Answer{}}
	for range 2 {
		cfg := c.drawConfig()
		yaml, cedar := cfg.write()
		c.texts = append(c.texts, yaml+"\n"+cedar)
		s, ok := c.load(yaml, cedar)
		if !ok {
			return nil
		}
		cfg.digest = s.Digest()
		c.configs, c.sets = append(c.configs, cfg), append(c.sets, s)
	}
	c.gate = &gate.Gate{Policy: func() gate.Policy { return c.sets[c.now] }, Facts: c, Approver: c, Recorder: c, Logger: slog.New(slog.DiscardHandler)}
	return c
}

// load builds a set without files.
func (c *randomCase) load(yaml, text string) (*Set, bool) {
	cfg, ds := config.Parse("/nowhere/thoughtgate.yaml", []byte(yaml), func(string) string { return "" })
	if cfg == nil {
		c.t.Fatalf("%s\n%v", yaml, ds)
	}
	s := newSet(cfg)
	s.known = func(*gate.Call) Known { return Known{Calls: c.calls.Load()} }
	l := &loader{Set: s}
	l.compileRules()
	s.policies = l.parsePolicies("/nowhere/policies/p.cedar", []byte(text))
	s.byID = map[string]*policy{}
	for i, p := range s.policies {
		p.order = i
		s.byID[p.id] = p
	}
	s.index = newIndex(s.policies)
	s.digest = digestOf([]byte(yaml + text))
	l.checkGenerated()
	return s, !config.HasErrors(l.found)
}

func (c *randomCase) one(words ...string) string { return words[c.rand.IntN(len(words))] }
func (c *randomCase) maybe() bool                { return c.rand.IntN(3) == 0 }

// some draws each of the words with a low probability.
func (c *randomCase) some(words ...string) []string {
	var drawn []string
	for _, w := range words {
		if c.maybe() {
			drawn = append(drawn, w)
		}
	}
	return drawn
}

func (c *randomCase) drawConfig() *refConfig {
	cfg := &refConfig{
		profile: c.one("production", "production", "production", "development"), action: c.one("forward", "forward", "deny", "approve", "policy"),
		asks: c.one("forward", "deny", "approve", "policy"), unknown: c.one("", "refuse", "forward"),
	}
	if c.maybe() {
		cfg.workflows = []string{"ops"}
	}
	for range c.rand.IntN(3) {
		cfg.sources = append(cfg.sources, refSource{id: c.one("a", "b*", "*"), disabled: c.rand.IntN(6) == 0, mode: c.one("all", "all", "allowlist", "blocklist"), tools: append(c.some("x", "y*"), c.one("x", "zz", "*"))})
	}
	for i := range cfg.sources { // no two of the same id
		cfg.sources[i].id = []string{"a", "b*"}[i]
	}
	for range c.rand.IntN(5) {
		r := refRule{
			match: c.one("*", "x", "y*", "file:*"), source: c.one("", "", "a", "b*"), agent: c.one("", "", "cursor", "unknown"),
			method: c.one("", "", "", "tools/call", "resources/*", "sampling/createMessage", "elicitation/*", "acme/*"), action: c.one("forward", "deny", "approve", "policy", "policy"),
		}
		if c.maybe() {
			r.when = c.some("secret", "sends")
		}
		if r.action == "approve" && len(cfg.workflows) > 0 && c.maybe() {
			r.approval = cfg.workflows[0]
		}
		cfg.rules = append(cfg.rules, r)
	}
	for range c.rand.IntN(5) {
		cfg.policies = append(cfg.policies, c.drawRefPolicy(cfg))
	}
	return cfg
}

func (c *randomCase) drawRefPolicy(cfg *refConfig) refPolicy {
	p := refPolicy{
		forbid: c.maybe(), at: c.rand.IntN(3),
		action: c.one("", "call", "tools/call", "tools/call", "a/x", "b/yy", "resources/read", "prompts/get", "sampling/createMessage", "acme/go"),
	}
	asks := p.action == "sampling/createMessage"
	if !asks && c.maybe() {
		p.agent = c.one("claude-code", "cursor", "unknown")
	}
	if !asks && c.maybe() {
		p.server = c.one("a", "b")
		if id, _, ok := strings.Cut(p.action, "/"); ok && len(id) == 1 {
			p.server = id
		}
	}
	switch p.condition = c.one("", "fact secret", "fact sends", "profile", "calls", "has n", "has n", "n"); {
	case p.condition == "has n" && p.action != "tools/call" && p.action != "a/x" && p.action != "b/yy",
		p.condition == "n" && p.action != "a/x" && p.action != "b/yy":
		p.condition = ""
	}
	if !p.forbid && c.maybe() {
		p.asks = "default"
		if len(cfg.workflows) > 0 {
			p.asks = cfg.workflows[0]
		}
	}
	return p
}

// write writes the configuration as a person would.
func (cfg *refConfig) write() (yaml, cedar string) {
	var b strings.Builder
	fmt.Fprintf(&b, "schema: 1\nprofile: %s\n", cfg.profile)
	b.WriteString("sources:\n")
	for _, s := range cfg.sources {
		lists := ""
		if s.mode != "all" {
			lists = ", tools: " + flow(s.tools)
		}
		fmt.Fprintf(&b, "  - {id: %q, enabled: %v, expose: {mode: %s%s}}\n", s.id, !s.disabled, s.mode, lists)
	}
	if len(cfg.sources) == 0 {
		b.WriteString("  []\n")
	}
	fmt.Fprintf(&b, "governance:\n  defaults: {action: %s, asks: %s}\n  rules:\n", cfg.action, cfg.asks)
	for _, r := range cfg.rules {
		fmt.Fprintf(&b, "    - {match: %q, action: %s", r.match, r.action)
		for key, value := range map[string]string{"source": r.source, "agent": r.agent, "method": r.method, "approval": r.approval} {
			if value != "" {
				fmt.Fprintf(&b, ", %s: %q", key, value)
			}
		}
		if len(r.when) > 0 {
			fmt.Fprintf(&b, ", when: %s", flow(r.when))
		}
		b.WriteString("}\n")
	}
	if len(cfg.rules) == 0 {
		b.WriteString("    []\n")
	}
	if cfg.unknown != "" {
		fmt.Fprintf(&b, "unknown: {requests: %s}\n", cfg.unknown)
	}
	for _, w := range cfg.workflows {
		fmt.Fprintf(&b, "approval:\n  %s: {destination: {type: local}}\n", w)
	}
	var policies strings.Builder
	for _, p := range cfg.policies {
		policies.WriteString(p.write())
	}
	return b.String(), policies.String()
}

func (p *refPolicy) write() string {
	effect, principal, action, resource, condition := "permit", "principal", "action", "resource", ""
	if p.forbid {
		effect = "forbid"
	}
	if p.asks != "" {
		effect = "@approval " + effect
	}
	if p.agent != "" {
		principal += " == " + entity("Agent", p.agent)
	}
	switch p.action {
	case "":
	case "call", "tools/call":
		action += " in " + entity("Action", p.action)
	default:
		action += " == " + entity("Action", p.action)
	}
	if p.server != "" {
		resource += " in " + entity("Server", p.server)
	}
	switch kind, fact, _ := strings.Cut(p.condition, " "); kind {
	case "fact":
		condition = fmt.Sprintf("when { context.facts.contains(%q) }", fact)
	case "profile":
		condition = `when { context.profile == "production" }`
	case "calls":
		condition = fmt.Sprintf("when { context.session.calls > %d }", p.at)
	case "has":
		condition = fmt.Sprintf("when { context.arguments has n && context.arguments.n > %d }", p.at)
	case "n":
		condition = fmt.Sprintf("when { context.arguments.n > %d }", p.at)
	}
	return fmt.Sprintf("%s (%s, %s, %s) %s;\n", effect, principal, action, resource, condition)
}

func flow(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// drawRefCall draws a call and its line.
func (c *randomCase) drawRefCall() (*refCall, wire.Side, string) {
	call := &refCall{server: c.one("a", "b", "c"), facts: c.some("secret", "sends")}
	if c.rand.IntN(8) == 0 {
		call.facts = append(call.facts, "ours")
	}
	side, params := wire.FromAgent, "{}"
	switch call.method = c.one("tools/call", "tools/call", "tools/call", "resources/read", "prompts/get", "sampling/createMessage", "elicitation/create", "roots/list", "acme/go"); call.method {
	case "tools/call":
		call.name = c.one("x", "yy", "z")
		call.n = []any{nil, 0, 1, 2, 3, "3"}[c.rand.IntN(6)]
		arguments := "{}"
		if call.n != nil {
			arguments = fmt.Sprintf(`{"n":%#v}`, call.n)
		}
		params = fmt.Sprintf(`{"name":%q,"arguments":%s}`, call.name, arguments)
	case "resources/read":
		call.name = c.one("file:///x", "memo:x")
		params = fmt.Sprintf(`{"uri":%q}`, call.name)
	case "prompts/get":
		call.name = c.one("x", "yy")
		params = fmt.Sprintf(`{"name":%q}`, call.name)
	case "elicitation/create":
		call.mode = c.one("", "form", "url")
		params = `{"message":"m"}`
		if call.mode != "" {
			params = fmt.Sprintf(`{"message":"m","mode":%q,"url":"https://x"}`, call.mode)
		}
	case "sampling/createMessage":
		params = `{"messages":[],"maxTokens":1}`
	}
	if call.asking() {
		side = wire.FromServer
	}
	return call, side, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.rand.IntN(100), call.method, params)
}

// Of implements gate.Facts.
func (c *randomCase) Of(_ context.Context, call *gate.Call) []gate.Fact {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts[call.Seq]
}

func (*randomCase) Observe(*gate.Observation) {}
func (*randomCase) Forwarded(*gate.Call)      {}
func (*randomCase) Forget(string, string)     {}

// Record implements gate.Recorder.
func (c *randomCase) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := *r
	c.records = append(c.records, &copied)
	return nil
}

// Ask implements gate.Approver.
func (c *randomCase) Ask(_ context.Context, q *gate.Question) (gate.Held, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = q.Ruling.Workflow
	return refQuestion{c, q.Call.Seq}, nil
}

type refQuestion struct {
	c   *randomCase
	seq uint64
}

func (refQuestion) ID() string { return "A-1" }

func (q refQuestion) Wait(ctx context.Context) (gate.Answer, error) {
	q.c.mu.Lock()
	a, told := q.c.told[q.seq]
	q.c.mu.Unlock()
	if told {
		return a, nil
	}
	select {
	case a := <-q.c.answers:
		q.c.mu.Lock()
		defer q.c.mu.Unlock()
		q.c.told[q.seq] = a
		return a, nil
	case <-ctx.Done():
		return gate.Answer{}, context.Cause(ctx)
	}
}
