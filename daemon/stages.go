package daemon

import (
	"context"
	"errors"

	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	"github.com/thoughtgate/thoughtgated/internal/record"
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
	named := true
	if path == "" {
		path, named = s.policies.path, s.policies.named
	}
	l, problems, err := s.policies.load(path, named, s.policies.digest())
	var refused *ConfigError
	if errors.As(err, &refused) {
		return loaded{}, path, refused.Problems
	}
	if err != nil {
		return loaded{}, path, []config.Diagnostic{{File: path, Severity: config.Error, Message: err.Error()}}
	}
	return l, l.config.Path, problems
}
