package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/daemon"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/dashboard"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/doctor"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ext"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/fleet"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/login"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/man"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/notify"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/programs"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/scan"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/slack"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/status"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/tour"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/trust"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/wrap"
)

// Groups of commands in the help of tgctl itself.
const (
	groupMain   = "main"
	groupLook   = "look"
	groupDaemon = "daemon"
)

// rootCmd builds the tree of commands.
func (a *app) rootCmd() *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "tgctl",
		Short: "Wrap an AI agent, answer its questions, read the audit log",
		Long: `Tgctl wraps an AI agent so that every tool call it makes is judged and recorded,
and held for your approval where the policy requires it.

With --json, the output has the fields that --help lists. A field marked with ?
may be absent; any other without a value is null, "", 0, false, [] or {}. Times
are in UTC, durations in seconds.`,
		Example: `  $ tgctl wrap -- claude             # in one terminal, work as usual
  $ tgctl approvals                  # in another, list waiting questions
  $ tgctl approvals approve A-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return a.printVersion(false)
			}
			if len(args) > 0 {
				return ui.UnknownVerb(cmd, args)
			}
			if err := status.Brief(cmd.Context(), a.App); err != nil {
				return err
			}
			a.Help(cmd, nil)
			return nil
		},
		Args: cobra.ArbitraryArgs,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			if a.disableCoreDumps != nil && cmd.Name() != "wrap" { // an agent keeps its own limit on core dumps
				a.disableCoreDumps()
			}
		},
	}
	root.AddGroup(
		&cobra.Group{ID: groupMain, Title: "Agents and approvals:"},
		&cobra.Group{ID: groupLook, Title: "Status and records:"},
		&cobra.Group{ID: groupDaemon, Title: "Configuration and daemon:"},
	)
	add := func(group string, verbs ...*cobra.Command) {
		for _, verb := range verbs {
			verb.GroupID = group
			root.AddCommand(verb)
		}
	}
	add(groupMain, wrap.Command(a.App), programs.RunCommand(a.App), wrap.UnwrapCommand(a.App), wrap.ProtectCommand(a.App), wrap.UnprotectCommand(a.App), inbox.ApprovalsCommand(a.App), inbox.QueueCommand(a.App), inbox.GrantsCommand(a.App), inbox.UndoCommand(a.App), inbox.PresenceCommand(a.App), login.Command(a.App), login.LogoutCommand(a.App), notify.Command(a.App), slack.Command(a.App), ext.Command(a.App), tour.Command(a.App))
	add(groupLook, scan.Command(a.App), status.Command(a.App), dashboard.Command(a.App), doctor.Command(a.App), status.SessionsCommand(a.App), programs.PSCommand(a.App), programs.LogsCommand(a.App), trust.ToolsCommand(a.App), trust.ServersCommand(a.App), audit.Command(a.App), status.MetricsCommand(a.App))
	add(groupDaemon, policy.Command(a.App), daemon.Command(a.App), programs.RestartCommand(a.App), fleet.Command(a.App), a.completionCmd(), man.Command(a.App), a.versionCmd())

	root.Flags().BoolVar(&showVersion, "version", false, "print the version and exit")
	a.Prepare(root)
	return root
}

// run executes the command that args name and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int { return a.Execute(ctx, a.rootCmd(), args) }
