package wrap

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// run shows the changes, asks, and makes them.
func (p *protecting) run(ctx context.Context, names []string) error {
	for _, name := range names { // before anything is asked
		if _, err := agentconf.AgentFor(name, nil); err != nil {
			return err
		}
	}
	asks := !p.yes && !p.dryRun && !p.repair
	if asks && !(p.InTerminal && p.ErrTerminal) {
		return &ui.HintError{
			Err:  errors.New("can't ask for confirmation without a terminal; nothing was changed"),
			Hint: "Review the changes with --dry-run, then use --yes.",
		}
	}
	var why string
	var err error
	if p.shim, why, err = p.Lasting("tg-shim"); err != nil {
		return err
	}
	if err := p.connect(ctx); err != nil {
		return err
	}
	if p.client != nil {
		defer p.client.Close()
	}
	failed := p.prepare(names)
	if failed != nil && len(p.jobs) == 0 {
		return failed
	}
	if failed != nil {
		p.PrintError(failed)
		failed = &ui.ExitError{Code: ui.ExitFailed}
	}
	todo := p.show()
	if len(todo) == 0 {
		if len(p.jobs) == 0 && failed == nil {
			p.PrintMessage("nothing to protect: %s", ui.Choose(p.repair, "no agent is protected", "no configuration of a known agent was found"))
		}
		return failed
	}
	if why != "" {
		p.PrintMessage("warning: the tg-shim entries will start %[1]s, which %[2]s. If that path is removed, the servers can't be started, and the agent's own tools are refused if they are protected, until you run `tgctl protect --repair`; "+
			"install ThoughtGate in a permanent location", display.Text(p.shim), display.Text(why))
	}
	if p.dryRun {
		return failed
	}
	if asks {
		if err := p.askToRewrite(todo); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, p.enact(ctx, todo))
}

// show prints what is governed and what is not, and prints the changes. It returns the jobs
// that have work to do.
func (p *protecting) show() []*protectJob {
	var todo []*protectJob
	for _, j := range p.jobs {
		p.showServers(j)
		if j.drift.None() && !j.changed {
			p.PrintMessage("%s is already protected; nothing to change", display.Text(j.is.Agent))
			continue
		}
		todo = append(todo, j)
		if j.drift.None() || p.repair {
			continue
		}
		_ = p.PrintDiff(j.plan.Diff()) // the user sees that the diff is missing
	}
	return todo
}

// showServers prints which servers of an agent will be governed.
func (p *protecting) showServers(j *protectJob) {
	for _, warning := range j.plan.Warnings() {
		p.PrintMessage("warning: %s", display.Text(warning))
	}
	if err := j.plan.CheckUnreached(); err != nil {
		p.PrintMessage("warning: %s", display.Text(err.Error()))
	}
	var governed, left []string
	for _, e := range j.plan.Entries() {
		name := string(display.Name(e.ID))
		if isGoverned(e) {
			governed = append(governed, name)
		} else {
			left = append(left, name+" ("+string(display.Text(e.Ungoverned))+")")
		}
	}
	left = append(left, p.elsewhere(j)...)
	governed, left = ui.Unique(governed), ui.Unique(left)
	if j.is.Tools {
		p.showHooks(j.is.Agent)
	}
	if j.is.Alone {
		return
	}
	p.PrintMessage("%s: %s governed at every start: %s", display.Text(j.is.Agent), ui.Plural(len(governed), "server", "servers"), display.Safe(strings.Join(governed, ", ")))
	for _, hint := range loginHints(j.is.Agent, j.plan.Remotes()) {
		p.PrintMessage("%s", hint)
	}
	if len(left) > 0 {
		p.PrintMessage("%s: not governed: %s", display.Text(j.is.Agent), display.Safe(strings.Join(left, ", ")))
	}
}

// showHooks prints what hooks mean for an agent's own tools.
func (p *protecting) showHooks(agent string) {
	c := agenthook.Of(agent)
	p.PrintMessage("%s: its own tools judged before each use, from version %s on", display.Text(agent), c.Since)
	if !c.Proven {
		p.PrintMessage("warning: that %s obeys these hooks was not proven with the real agent", display.Text(agent))
	}
	if !c.Blocks {
		p.PrintMessage("warning: %s runs a tool if the hook is late or can't be started", display.Text(agent))
	}
	for _, text := range []string{unseen(agent), c.Once} {
		if text != "" {
			p.PrintMessage("%s: %s", display.Text(agent), text)
		}
	}
}

// elsewhere names the servers that the agent would start from here but that are configured in
// project files.
func (p *protecting) elsewhere(j *protectJob) []string {
	if j.is.Where.Config != "" {
		return nil
	}
	env := p.env
	env.Protections = p.kept
	var left []string
	for _, s := range agentconf.Look(env) {
		for _, server := range s.Servers {
			if s.Agent != j.is.Agent || server.Governed != agentconf.NotGoverned || !server.Project {
				continue
			}
			why := cmp.Or(server.Why, "in "+p.Tilde(server.Path)+", a file of the project: use tgctl wrap")
			left = append(left, fmt.Sprintf("%s (%s)", display.Name(server.ID), display.Text(why)))
		}
	}
	return left
}

// askToRewrite asks the person whether to make the changes. It returns an error if not.
func (p *protecting) askToRewrite(todo []*protectJob) error {
	paths := slices.Concat(ui.Map(todo, func(j *protectJob) []string { return j.plan.Paths() })...)
	keep := ui.Choose(p.watchOnly, "tgctl status reports", "The daemon restores") + " lost entries"
	fmt.Fprintf(p.Err, "Rewrite %s permanently? %s;\ntgctl unprotect restores the file. [y/N] ", display.Text(p.Tildes(paths)), keep)
	answer, err := bufio.NewReader(p.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return p.Confirmed(answer)
}

// enact makes the changes. If one agent fails, it is left as it was and the others are still
// done.
func (p *protecting) enact(ctx context.Context, todo []*protectJob) error {
	var failed []error
	for _, j := range todo {
		kept := false
		keep := func(next *agentconf.Protection) error {
			text, err := next.Text()
			if err != nil {
				return err
			}
			kept = true // perhaps; the reply can be lost
			return p.client.Protect(ctx, next.ID, text)
		}
		next, err := j.plan.Protect(j.is, keep)
		if err == nil && !kept { // the files are correct already
			err = keep(next)
		}
		if err != nil {
			err = fmt.Errorf("protect %s: %w", j.is.Agent, unprotectable(j.is.Agent, err))
			if kept && !j.again {
				_, undo := p.client.Unprotect(context.WithoutCancel(ctx), j.is.ID)
				err = errors.Join(err, undo)
			}
			failed = append(failed, err)
			continue
		}
		what := ui.Choose(j.again, "repaired", "protected")
		fmt.Fprintf(p.Out, "%s: %s, %s in %s\n", display.Text(next.Agent), what, protectedDoors(next), display.Text(p.Tildes(next.Paths())))
	}
	if len(failed) < len(todo) {
		p.PrintMessage("A running agent is governed once it restarts its servers.")
		p.warnOfNoStart(ctx)
	}
	return errors.Join(failed...)
}

// protectedDoors says what a protection governs.
func protectedDoors(is *agentconf.Protection) display.Safe {
	servers := ui.Plural(len(is.Servers()), "server", "servers")
	switch {
	case is.Alone:
		return "its own tools"
	case is.Tools:
		return servers + " and its own tools"
	}
	return servers
}

// warnOfNoStart warns if nothing starts the daemon after the next login.
func (p *protecting) warnOfNoStart(ctx context.Context) {
	if s, err := p.client.Status(ctx); err == nil && !s.GetActivated() {
		p.PrintMessage("No service manager starts the daemon. After a reboot, the servers of protected\nagents answer with an error until you run `tgctl daemon start`.")
	}
}
