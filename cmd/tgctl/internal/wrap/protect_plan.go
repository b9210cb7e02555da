package wrap

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// protecting is one run of protect.
type protecting struct {
	*app
	protectOptions
	client *client.Client          // nil in a dry run when no daemon runs
	kept   []*agentconf.Protection // what is protected already
	env    agentconf.Env           // of an agent started here
	shim   string
	socket string
	jobs   []*protectJob
}

// protectJob is the work for one agent.
type protectJob struct {
	is    *agentconf.Protection // the protection to establish
	plan  *agentconf.Plan
	drift agentconf.Decay

	again   bool // it is already protected
	changed bool // its settings change
}

// connect connects to the daemon, starting it if necessary, and asks what is protected already.
// A dry run works without a daemon.
func (p *protecting) connect(ctx context.Context) error {
	dial := p.Dial
	if p.dryRun {
		dial = p.DialRunning
	}
	c, err := dial(ctx)
	if errors.Is(err, client.ErrNotRunning) && p.dryRun {
		paths, err := sock.DefaultPaths(p.Getenv)
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
	p.kept, err = agentenv.Protections(ctx, c)
	return err
}

// prepare determines the work for each agent. If an agent cannot be protected, the others still
// can; all errors are joined.
func (p *protecting) prepare(names []string) error {
	var err error
	if p.env, err = agentenv.Env(p.App); err != nil {
		return err
	}
	env := p.env
	env.Config = p.config
	if p.all {
		env.OwnOnly = true // protect files that two agents read for the one that owns them
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
			err = fmt.Errorf("%s is not protected; run `tgctl protect %s`", name, name)
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

// addNamed adds the agent that a person named.
func (p *protecting) addNamed(agent agentconf.Agent, env agentconf.Env) error {
	if env.Config == "" && len(agent.Files(env)) == 0 {
		return fmt.Errorf("the agent type %s needs --config-path FILE, the file to rewrite", agent.Name())
	}
	if err := p.choose(agent, &env); err != nil {
		if p.all {
			return nil
		}
		return err
	}
	is := agentconf.NewProtection(agentconf.NewID(), agent, env, agentconf.Line{Shim: p.shim, Socket: p.socket})
	is.Repair = !p.watchOnly
	for _, old := range p.keptOf(agent.Name()) {
		if old.Where.Config == env.Config {
			next := *old
			next.Where, next.Repair = is.Where, is.Repair
			next.Tools, next.Alone = is.Tools || old.Tools, is.Alone && old.Alone
			return p.add(&next, old)
		}
	}
	return p.add(is, nil)
}

// add determines the work to replace old by is. old is nil if there is no protection yet.
func (p *protecting) add(is, old *agentconf.Protection) error {
	next := *is
	next.Line = agentconf.Line{Shim: p.shim, Socket: p.socket, Session: is.ID}
	from := *is
	if p.dryRun {
		from.Where.Notes = "" // a dry run leaves what a killed writer left
	}
	plan, err := from.Plan(next.Line, p.env.LookupEnv, p.kept)
	if empty, ok := errors.AsType[*agentconf.EmptyError](err); ok && p.all {
		p.PrintMessage("%s: %s", display.Text(is.Agent), display.Text(p.TildeIn(empty.Error())))
		return nil
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", is.Agent, unprotectable(is.Agent, err))
	}
	p.jobs = append(p.jobs, &protectJob{
		is: &next, plan: plan, drift: plan.Decay(), again: old != nil, changed: old != nil && (old.Repair != is.Repair || old.Tools != is.Tools || old.Alone != is.Alone),
	})
	return nil
}

// unprotectable adds to an error what to do about it.
func unprotectable(agent string, err error) error {
	var locked *agentconf.LockedError
	switch {
	case errors.As(err, &locked):
		return &ui.HintError{Err: err, Hint: "The configuration of a wrapped agent stays rewritten until the session ends. End it, then protect the agent."}
	case errors.Is(err, agentconf.ErrWrapped):
		return &ui.HintError{Err: err, Hint: "The origin of these entries is unknown: a wrap left them, or the daemon's state was lost. " +
			"Remove them with `tgctl unprotect " + agent + "`, then protect the agent again."}
	}
	return err
}
