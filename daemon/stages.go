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

// stages sets up what calls are rehearsed on: gates like the one that judges,
// each with a memory of its own.
type stages struct {
	policies *policies
	projects *projects
	ours     func() []string
	log      *audit.Log    // nil without a daemon
	presence gate.Presence // of the daemon; nil without one
	hooks    gate.Hooks    // of the daemon, to be named; nil without one
}

// gate is one that judges by l, and remembers nothing yet. What the gate of the
// daemon is given to judge with belongs here as well, made anew.
func (s *stages) gate(l loaded, presence gate.Presence) gate.Gate {
	pins, err := pin.New(nil, pin.Options{Mode: l.config.Pins.Mode, Recorder: nowhere{}})
	if err != nil {
		panic("daemon: pins that are kept nowhere: " + err.Error())
	}
	set := l.set.Knowing(func(c *gate.Call) policy.Known { return policy.Known{Annotations: pins.Annotations(c)} })
	return gate.Gate{
		Policy:   func() gate.Policy { return set },
		Scope:    s.projects.scope,
		Pins:     pins,
		Presence: presence,
		Hooks:    s.hooks,
		Facts:    facts.New(facts.Options{Home: s.policies.getenv("HOME"), Ours: s.ours}),
	}
}

func (s *stages) stage(l loaded, presence gate.Presence) *rehearse.Stage {
	return rehearse.New(func() gate.Gate { return s.gate(l, presence) })
}

// nowhere is a record that nobody keeps.
type nowhere struct{}

func (nowhere) Record(context.Context, *record.Record, []byte, []string) error { return nil }

// InForce implements api.Stages.
func (s *stages) InForce() (*rehearse.Stage, []config.Diagnostic) {
	if now := s.policies.current.Load(); now != nil {
		return s.stage(now.loaded, s.presence), nil
	}
	// Without a daemon nothing is in force but what one would begin with.
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

// load reads a candidate. With errors there is no set.
func (s *stages) load(path string) (loaded, string, []config.Diagnostic) {
	l, problems, err := s.policies.load(path)
	if err != nil {
		return loaded{}, cmp.Or(path, s.policies.path), problems
	}
	return l, l.config.Path, problems
}

// tellEvery is after how many records the progress of a backtest is told.
const tellEvery = 10_000

// Candidate implements api.Stages.
func (s *stages) Candidate(path string) (api.Candidate, api.PolicySet, []config.Diagnostic, error) {
	if s.log == nil {
		return nil, api.PolicySet{}, nil, fmt.Errorf("a backtest reads the record, which the daemon has: %w", gate.ErrNotRunning)
	}
	l, _, problems := s.load(path)
	if l.set == nil {
		return nil, api.PolicySet{}, problems, nil
	}
	return &candidate{s.log, l.set.Partly()}, describe(l), problems, nil
}

// candidate is a set that is tried on the record.
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

// ServePolicies answers questions about policies over conn until its other end
// is closed, as a daemon would that had just been started with the flag --config.
// It takes no part in anything else: it opens no socket, and writes nothing. A
// configuration that can't be used is told to who asks for what it says.
func ServePolicies(conn net.Conn, flag string, getenv func(string) string, log *slog.Logger, build string) error {
	paths, err := sock.DefaultPaths(getenv)
	if err != nil {
		return err
	}
	path, named := config.Find(flag, getenv, paths.Config)
	p := &policies{path: path, named: named, getenv: getenv, log: log}
	s := &stages{p, newProjects(log), func() []string { return []string{paths.Config, paths.State, paths.Runtime} }, nil, gate.Assumed, nil}
	return api.ServePolicies(api.Config{Policies: p, Stages: s, Logger: log, Build: build}, conn)
}
