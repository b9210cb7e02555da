package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// stages makes rehearsal stages for calls: gates like the daemon's own, each with its own memory.
type stages struct {
	policies *policies
	projects *projects
	ours     func() []string
	log      *audit.Log    // nil without a daemon
	presence gate.Presence // the daemon's; nil without one
	hooks    gate.Hooks    // the daemon's, for their names; nil without one
	copies   gate.Copies   // the daemon's; nil without one
}

// gate returns a gate that judges by l, with an empty memory. A part that is added to the daemon's
// gate must be added here too, as a new instance.
func (s *stages) gate(l loaded, presence gate.Presence) *gate.Gate {
	pins, err := pin.New(nil, pin.Options{Mode: l.config.Pins.Mode, Recorder: nowhere{}})
	if err != nil {
		panic("daemon: create temporary pins: " + err.Error())
	}
	set := l.set.WithKnownFunc(func(c *gate.Call) policy.Known { return policy.Known{Annotations: pins.Annotations(c)} })
	return &gate.Gate{
		Policy:   func() gate.Policy { return set },
		Scope:    s.projects.scope,
		Pins:     pins,
		Presence: presence,
		Hooks:    s.hooks,
		Copies:   s.copies,
		Facts:    facts.New(facts.Options{Home: s.policies.getenv("HOME"), Ours: s.ours}),
	}
}

func (s *stages) stage(l loaded, presence gate.Presence) *rehearse.Stage {
	return rehearse.New(func() *gate.Gate { return s.gate(l, presence) })
}

// nowhere is a recorder that discards records.
type nowhere struct{}

func (nowhere) Record(context.Context, *record.Record, []byte, []string) error { return nil }

// InForce implements api.Stages.
func (s *stages) InForce() (*rehearse.Stage, []config.Diagnostic) {
	if now := s.policies.current.Load(); now != nil {
		return s.stage(loaded{now.config, now.judges}, s.presence), nil
	}
	// Without a daemon, use what a new daemon would start with.
	stage, _, problems := s.OnDisk("")
	return stage, problems
}

// OnDisk implements api.Stages.
func (s *stages) OnDisk(path string) (*rehearse.Stage, string, []config.Diagnostic) {
	l, source, problems := s.load(path)
	if l.set == nil {
		return nil, source, problems
	}
	return s.stage(l, gate.Assumed), source, problems
}

// Past implements api.Stages.
func (s *stages) Past(path string) (*rehearse.Stage, []config.Diagnostic) {
	l, problems := loaded{config: config.Default()}, []config.Diagnostic(nil)
	if path == "" {
		l.set, problems = policy.Load(l.config)
	} else {
		l, _, problems = s.load(path)
	}
	if l.set == nil {
		return nil, problems
	}
	stage := rehearse.New(func() *gate.Gate {
		g := s.gate(l, gate.Assumed)
		g.Facts = facts.New(facts.Options{Home: s.policies.getenv("HOME"), Ours: s.ours, Past: true})
		g.Scope, g.Copies = nil, nil // projects have other files now
		return g
	})
	stage.Redact = func(arguments []byte) []byte {
		return facts.Redact(arguments, nil, func([]byte) string { return "***" })
	}
	return stage, problems
}

// load loads a candidate. The set is nil if there are errors.
func (s *stages) load(path string) (loaded, string, []config.Diagnostic) {
	l, problems, err := s.policies.load(path)
	if err != nil {
		return loaded{}, cmp.Or(path, s.policies.path), problems
	}
	return l, l.config.Path, problems
}

// tellEvery is the number of records between two progress reports of a backtest.
const tellEvery = 10_000

// Candidate implements api.Stages.
func (s *stages) Candidate(path string, text []byte) (api.Candidate, api.PolicySet, []config.Diagnostic, error) {
	if s.log == nil {
		return nil, api.PolicySet{}, nil, fmt.Errorf("a backtest needs the audit log of a daemon: %w", gate.ErrNotRunning)
	}
	l, _, problems := s.load(path)
	if len(text) > 0 {
		l, problems = s.policies.try(path, text)
	}
	if l.set == nil {
		return nil, api.PolicySet{}, problems, nil
	}
	return &candidate{s.log, l.set.Partly()}, describe(l), problems, nil
}

// candidate is a set to be tried on the audit log.
type candidate struct {
	log *audit.Log
	set *policy.Partly
}

// Backtest implements api.Candidate.
func (c *candidate) Backtest(ctx context.Context, since, until time.Time, progress func(records uint64) error) (*rehearse.Backtest, error) {
	commands := map[string][]string{}
	if c.set.NeedsCommand() {
		err := c.log.Read(ctx, audit.Query{Kind: record.KindAttach, Until: until}, func(_ uint64, line, _ []byte) error {
			if r, err := record.Parse(line); err == nil {
				commands[r.Attachment] = rehearse.CommandOf(&r)
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	b := rehearse.NewBacktest(c.set)
	var read uint64
	q := audit.Query{Kind: record.KindCall, Since: since, Until: until}
	err := c.log.Read(ctx, q, func(_ uint64, line, values []byte) error {
		read++
		if read%tellEvery == 0 {
			if err := progress(read); err != nil {
				return err
			}
		}
		r, ok := rehearse.Parse(line)
		if !ok {
			b.Damaged()
			return ctx.Err()
		}
		if !r.Whole && values != nil {
			r.Values, r.Whole, r.Params = c.log.Kept(values)
		}
		r.Command = commands[r.Attachment]
		b.Add(ctx, r)
		return ctx.Err()
	})
	return b, err
}

// ServePolicies serves the policy calls over conn until the other end closes it, as a daemon just
// started with the flag --config would. It does nothing else: it opens no socket and writes
// nothing. If the configuration is invalid, the calls that need it return the problems.
func ServePolicies(conn net.Conn, flag string, getenv func(string) string, log *slog.Logger, build string) error {
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return err
	}
	path, named := config.Find(flag, getenv, paths.Config)
	p := &policies{path: path, named: named, getenv: getenv, log: log}
	s := &stages{p, newProjects(log), func() []string { return []string{paths.Config, paths.State, paths.Runtime} }, nil, gate.Assumed, nil, nil}
	return api.ServePolicies(api.Config{Policies: p, Stages: s, Logger: log, Build: build}, conn)
}
