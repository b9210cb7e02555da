package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// protecting is one run of protect.
type protecting struct {
	*app
	protectOptions
	client *client.Client // nil in a dry run when no daemon runs
	kept   []*agentconf.Protection
	shim   string
	socket string
	jobs   []*protectJob
}

// protectJob is what is to be done for one agent.
type protectJob struct {
	is    *agentconf.Protection // as it is to be
	plan  *agentconf.Plan
	drift agentconf.Decay

	again   bool // it is protected already
	changed bool // what was agreed to is to be another
}

// osEnv is where an agent is that is started here, as far as that decides which
// files it reads.
func (a *app) osEnv() (agentconf.Env, error) {
	cwd, err := os.Getwd()
	env := agentconf.Env{Home: a.getenv("HOME"), Cwd: cwd, LookupEnv: a.lookup, Socket: a.shimSocket(), Notes: a.rewrites()}
	if shim, failed := a.sibling("tg-shim"); failed == nil {
		env.Shim = shim
	}
	return env, err
}

// rewrites is the folder of notes on what is made beside configurations, empty
// when that can't be told.
func (a *app) rewrites() string {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return ""
	}
	return paths.Rewrites()
}

// shimSocket is where shims find the daemon, empty when that can't be told.
func (a *app) shimSocket() string {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return ""
	}
	return paths.ShimSocket()
}

func (a *app) lookup(name string) (string, bool) {
	value := a.getenv(name)
	return value, value != ""
}

// lasting asks the daemon what is protected. One that is too old to know has
// nothing.
func lasting(ctx context.Context, c *client.Client) ([]*agentconf.Protection, error) {
	all, err := c.ListProtections(ctx, true)
	if errors.Is(err, client.ErrVersion) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []*agentconf.Protection
	for _, m := range all {
		p, err := agentconf.ParseProtection(m.GetText())
		if err != nil {
			return nil, fmt.Errorf("what the daemon keeps of %s: %w; is tgctl older than the daemon?", m.GetAgent(), err)
		}
		kept = append(kept, p)
	}
	return kept, nil
}

// connect reaches the daemon, which is started if need be, and learns what is
// protected already. A dry run does without.
func (p *protecting) connect(ctx context.Context) error {
	dial := p.dial
	if p.dryRun {
		dial = p.dialRunning
	}
	c, err := dial(ctx)
	if errors.Is(err, client.ErrNotRunning) && p.dryRun {
		paths, err := sock.DefaultPaths(p.getenv)
		p.socket = paths.ShimSocket()
		return err
	}
	if err != nil {
		return err
	}
	p.client = c
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	p.socket = status.GetShimSocket()
	p.kept, err = lasting(ctx, c)
	return err
}

// prepare works out what is to be done for each agent. An agent that cannot be
// protected does not keep others from it; its error is returned with those.
func (p *protecting) prepare(names []string) error {
	env, err := p.osEnv()
	if err != nil {
		return err
	}
	env.Config = p.config
	if p.all {
		env.OwnOnly = true // what two agents read is protected for the one it belongs to
		for _, name := range agentconf.Names() {
			if agent, err := agentconf.AgentFor(name, nil); err == nil && agentconf.HasOwn(agent, env) {
				names = append(names, name)
			}
		}
	}
	var failed []error
	for _, name := range names {
		agent, err := agentconf.AgentFor(name, nil)
		kept := p.keptOf(name)
		switch {
		case err != nil:
		case !p.repair:
			err = p.addNamed(agent, env)
		case len(kept) == 0:
			err = fmt.Errorf("%s is not protected; `tgctl protect %s` protects it", name, name)
		default:
			for _, is := range kept {
				failed = append(failed, p.add(is, is))
			}
		}
		failed = append(failed, err)
	}
	if p.repair && len(names) == 0 {
		for _, is := range p.kept {
			failed = append(failed, p.add(is, is))
		}
	}
	return errors.Join(failed...)
}

func (p *protecting) keptOf(agent string) []*agentconf.Protection {
	return slices.DeleteFunc(slices.Clone(p.kept), func(is *agentconf.Protection) bool { return is.Agent != agent })
}

// addNamed adds the agent that a person has named.
func (p *protecting) addNamed(agent agentconf.Agent, env agentconf.Env) error {
	if env.Config == "" && len(agent.Files(env)) == 0 {
		return fmt.Errorf("the agent type %s needs the file to rewrite: --config-path FILE", agent.Name())
	}
	is := agentconf.NewProtection(agentconf.NewID(), agent, env, agentconf.Line{Shim: p.shim, Socket: p.socket})
	is.Repair = !p.watchOnly
	for _, old := range p.keptOf(agent.Name()) {
		if old.Where.Config == env.Config {
			next := *old
			next.Where, next.Repair = is.Where, is.Repair
			return p.add(&next, old)
		}
	}
	return p.add(is, nil)
}

// add works out what there is to do to have is in the place of old, which is nil
// where there was nothing.
func (p *protecting) add(is, old *agentconf.Protection) error {
	next := *is
	next.Line = agentconf.Line{Shim: p.shim, Socket: p.socket, Session: is.ID}
	from := *is
	if p.dryRun {
		from.Where.Notes = "" // what a killed writer left stays as well
	}
	plan, err := from.Plan(next.Line, p.lookup, p.kept)
	var empty *agentconf.EmptyError
	if p.all && errors.As(err, &empty) {
		p.say("%s: %s", safe(is.Agent), safe(p.tildeIn(empty.Error())))
		return nil
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", is.Agent, unprotectable(is.Agent, err))
	}
	p.jobs = append(p.jobs, &protectJob{
		is: &next, plan: plan, drift: plan.Decay(), again: old != nil, changed: old != nil && old.Repair != is.Repair,
	})
	return nil
}

// unprotectable adds what to do about an error.
func unprotectable(agent string, err error) error {
	var locked *agentconf.LockedError
	switch {
	case errors.As(err, &locked):
		return &hintError{err, "A wrapped agent has its configuration rewritten until it ends. End that session, then protect the agent."}
	case errors.Is(err, agentconf.ErrWrapped):
		return &hintError{err, "Nobody knows these lines: a wrap left them, or the daemon's state was lost. " +
			"Take them out with `tgctl unprotect " + agent + "`, then protect the agent again."}
	}
	return err
}
