package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// TestMain also lets the test binary play an agent.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "fake-acp":
		os.Exit(fake.ServeACP(os.Stdin, os.Stdout, os.Stderr, fake.ACPOptions{Deaf: slices.Contains(os.Args, "deaf")}))
	case "fake-typed":
		os.Exit(fake.TypedAgent(os.Stdin, os.Stdout, os.Stderr))
	}
	stop, _ := child.AdoptOrphans() // without it orphans go unnoticed, as on macOS
	code := m.Run()
	stop()
	os.Exit(code)
}

// fixture is a fixture for runs of fake agents, with gates whose answers the test sets.
type fixture struct {
	*Runs
	t    *testing.T
	dir  string
	rule func(c *gate.Call) gate.Ruling // rules on a call; nil forwards all
	// answer answers a question; nil means that nobody does.
	answer  func(q *gate.Question) gate.Answer
	profile gate.Profile
	hooks   gate.Hooks // nil: there is no extension

	mu        sync.Mutex // guards the fields below
	heard     []string
	records   []record.Record
	withdrawn int
	pids      []int
}

func newFixture(t *testing.T) *fixture {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"fake-acp", "fake-typed"} {
		if err := os.Symlink(self, filepath.Join(dir, role)); err != nil {
			t.Fatal(err)
		}
	}
	c := &config.Config{Path: filepath.Join(dir, "thoughtgate.yaml"), Limits: config.Limits{Runs: 3}, Agents: map[string]*config.Agent{
		"acp":   {Command: []string{"./fake-acp"}, Protocol: config.ProtocolACP, Timeout: rig.Timeout},
		"deaf":  {Command: []string{"./fake-acp", "deaf"}, Protocol: config.ProtocolACP, Timeout: rig.Timeout},
		"typed": {Command: []string{"./fake-typed"}, Protocol: config.ProtocolTyped, Timeout: rig.Timeout, Pass: []string{"KEY"}},
	}}
	h := &fixture{t: t, dir: dir, profile: gate.Production}
	h.Runs = New(Options{
		Config: func() *config.Config { return c }, Open: h.open, Getenv: os.Getenv, Build: "test",
		Shim: func() (string, error) { return "/x/tg-shim", nil }, Socket: "/x/shim.sock",
	})
	t.Cleanup(func() {
		h.Close()
		for _, pid := range h.pids {
			// Another process may have got the id meanwhile.
			if exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe")); err == nil && exe == self {
				t.Errorf("process %d is left", pid)
			}
		}
	})
	return h
}

// open implements Options.Open.
func (h *fixture) open(_ context.Context, s Started) (Session, error) {
	h.mu.Lock()
	h.pids = append(h.pids, s.PID)
	h.mu.Unlock()
	g := &gate.Gate{
		Policy: func() gate.Policy { return h }, Facts: h, Approver: h, Recorder: h, Logger: slog.New(slog.DiscardHandler), Hooks: h.hooks,
	}
	a := g.Attach(context.Background(), gate.Shim{Attachment: s.Session, Session: s.Session, Agent: s.Agent, Server: s.Agent, Cwd: s.Cwd}, nil)
	a.Bind(s.Verdict)
	return attached{a}, nil
}

type attached struct{ a *gate.Attachment }

func (a attached) Judge() *gate.Attachment { return a.a }
func (a attached) Close(context.Context)   { a.a.Close(true) }

// The gate's policy, facts, approver and recorder.

func (h *fixture) Rule(_ context.Context, c *gate.Call, _ []gate.Fact) (gate.Ruling, error) {
	if h.rule == nil {
		return gate.Ruling{Move: gate.Forward}, nil
	}
	return h.rule(c), nil
}
func (h *fixture) Visible(*gate.Call, string, string) bool { return true }
func (h *fixture) Whom(*gate.Ruling)                       {}
func (h *fixture) Profile() gate.Profile                   { return h.profile }
func (h *fixture) Digest() string                          { return "set" }

func (h *fixture) Of(context.Context, *gate.Call) []gate.Fact { return nil }
func (h *fixture) Observe(m *gate.Observation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, string(m.Text))
}
func (h *fixture) Forwarded(*gate.Call)  {}
func (h *fixture) Forget(string, string) {}

func (h *fixture) Ask(_ context.Context, q *gate.Question) (gate.Held, error) {
	return &question{h, q}, nil
}

func (h *fixture) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, *r)
	return nil
}

type question struct {
	h *fixture
	q *gate.Question
}

func (q *question) ID() string { return "A-1" }

func (q *question) Wait(ctx context.Context) (gate.Answer, error) {
	if q.h.answer != nil {
		return q.h.answer(q.q), nil
	}
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), gate.ErrWithdrawn) {
		q.h.mu.Lock()
		q.h.withdrawn++
		q.h.mu.Unlock()
	}
	return gate.Answer{}, context.Cause(ctx)
}

// ending is the outcome of a run.
type ending struct {
	Result
	text   string
	events []Event
}

// tell runs an agent to its end.
func (h *fixture) tell(ctx context.Context, name, prompt string, seen func(Event)) ending {
	h.t.Helper()
	events := make(chan Event, 16)
	var s ending
	var err error
	var running sync.WaitGroup
	running.Go(func() {
		defer close(events)
		s.Result, err = h.Run(ctx, Request{Name: name, Prompt: prompt, Cwd: h.dir}, events)
	})
	for e := range events {
		s.events = append(s.events, e)
		if e.Kind == KindText {
			s.text += e.Text
		}
		if seen != nil {
			seen(e)
		}
	}
	running.Wait()
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *fixture) outcomes() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.records {
		if r.Kind == record.KindOutcome {
			all = append(all, r.Tool+" "+r.Verdict)
		}
	}
	return all
}

// until waits for something that should happen soon.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(rig.Timeout); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s never came", what)
		}
	}
}
