package wrap

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// UnprotectCommand returns the command unprotect.
func UnprotectCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	var all bool
	cmd := &cobra.Command{
		Use:   "unprotect [--all | AGENT...]",
		Short: "Restore the files that protect has rewritten",
		Long: `Remove what protect wrote into an agent's configuration, and print what was
done. A file that nobody else has changed is restored byte for byte, any other
entry by entry, which keeps the changes of others. The daemon no longer watches
the files.

If the daemon knows of no protection, since its state was lost, the tg-shim
entries are removed by their own contents. Running servers stay governed until
their agent restarts them.`,
		Example: `  $ tgctl unprotect claude-code
  $ tgctl unprotect --all`,
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("name the agents, or use --all")
			}
			return nil
		},
		ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				args = agentconf.Names()
			}
			for _, name := range args {
				if _, err := agentconf.AgentFor(name, nil); err != nil {
					return err
				}
			}
			return a.unprotect(cmd.Context(), args, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "unprotect every protected agent")
	return cmd
}

// unprotect restores the files of each agent. If one fails, it continues with the others. With
// all, it does not mention agents that are not protected.
func (a *app) unprotect(ctx context.Context, names []string, all bool) error {
	c, err := a.Dial(ctx)
	if err != nil {
		a.PrintMessage("tgctl: %s\nThe tg-shim entries are removed by the contents of the files. A daemon that knows\nof the protection adds them again when it starts; then run unprotect once more.", display.Lines(err.Error()))
	} else {
		defer c.Close()
	}
	var kept []*pb.Protection
	if c != nil {
		if kept, err = c.ListProtections(ctx, false); err != nil && !errors.Is(err, client.ErrVersion) {
			return err
		}
	}
	sessions, err := wrapsOf(ctx, c)
	if err != nil {
		return err
	}
	failed, touched := false, false
	for _, name := range names {
		mine := slices.DeleteFunc(slices.Clone(kept), func(p *pb.Protection) bool { return p.GetAgent() != name })
		if i := slices.IndexFunc(sessions, func(s *pb.Session) bool { return s.GetSpec().GetAgent() == name }); i >= 0 && len(mine) > 0 {
			a.PrintMessage("tgctl: %s: not changed: a running wrap (process %d) needs the protection; unprotect it when the wrap has ended", display.Text(name), sessions[i].GetPid())
			failed = true
			continue
		}
		did, err := a.unprotectOne(ctx, c, name, mine)
		touched = touched || did
		if err != nil {
			a.PrintMessage("tgctl: %s: %s", display.Text(name), display.Text(err.Error()))
			failed = true
		} else if !did && !all {
			a.PrintMessage("%s is not protected", display.Text(name))
		}
	}
	if all && !touched && !failed {
		a.PrintMessage("no agent is protected")
	}
	if failed {
		return &ui.ExitError{Code: ui.ExitFailed}
	}
	return nil
}

// wrapsOf returns the running wraps.
func wrapsOf(ctx context.Context, c *client.Client) ([]*pb.Session, error) {
	if c == nil {
		return nil, nil
	}
	sessions, err := c.ListSessions(ctx)
	return slices.DeleteFunc(sessions, func(s *pb.Session) bool { return s.GetOrphaned() || s.GetEnded() != nil || s.GetProtection() != "" }), err
}

// unprotectOne restores the files of one agent, and reports whether there was anything to do.
func (a *app) unprotectOne(ctx context.Context, c *client.Client, name string, kept []*pb.Protection) (bool, error) {
	var failed []error
	for _, p := range kept {
		out, err := c.Unprotect(ctx, p.GetId())
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, f := range out.GetFiles() {
			a.printUnwrapped(f.GetPath(), agentconf.Report{State: agentconf.State(f.GetState()), Notes: f.GetNotes()})
		}
		if n := out.GetAttached(); n > 0 {
			a.PrintMessage("%s governed until the agent is restarted", ui.Plural(n, "server of "+display.Text(name)+" stays", "servers of "+display.Text(name)+" stay"))
		}
	}
	if len(kept) > 0 {
		return true, errors.Join(failed...)
	}
	return a.unprotectByText(name)
}

// unprotectByText removes ThoughtGate's lines from the agent's own files. It recognizes them by
// their text.
func (a *app) unprotectByText(name string) (bool, error) {
	agent, err := agentconf.AgentFor(name, nil)
	if err != nil {
		return false, err
	}
	env, err := agentenv.Env(a.App)
	if err != nil {
		return false, err
	}
	env.Cwd = "/" // project files were never protected
	did := false
	var failed []error
	for _, path := range agentconf.Files(agent, env) {
		if !agentconf.NeedsUnwrap(path) {
			continue
		}
		did = true
		if err := a.unwrapFile(path); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", path, err))
		}
	}
	return did, errors.Join(failed...)
}

// protectedFiles maps protected files to their agents. It is empty if no daemon runs that knows
// of protections.
func (a *app) protectedFiles(ctx context.Context) map[string]string {
	c, err := a.DialRunning(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	kept, err := c.ListProtections(ctx, false)
	if err != nil {
		return nil
	}
	agentOf := map[string]string{}
	for _, p := range kept {
		for _, path := range p.GetPaths() {
			agentOf[path] = p.GetAgent()
			if real, err := filepath.EvalSymlinks(path); err == nil {
				agentOf[real] = p.GetAgent()
			}
		}
	}
	return agentOf
}
