package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
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
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return a.printVersion(false)
			}
			return ui.UnknownVerb(cmd, args)
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
	add(groupMain, a.wrapCmd(), a.runCmd(), a.unwrapCmd(), a.protectCmd(), a.unprotectCmd(), a.approvalsCmd(), a.grantsCmd(), a.presenceCmd(), a.notifyCmd(), a.slackCmd(), a.extCmd(), a.demoCmd())
	add(groupLook, a.statusCmd(), a.doctorCmd(), a.sessionsCmd(), a.psCmd(), a.logsCmd(), a.toolsCmd(), a.serversCmd(), audit.Command(a.App), a.metricsCmd())
	add(groupDaemon, a.policyCmd(), a.daemonCmd(), a.restartCmd(), a.completionCmd(), a.manCmd(), a.versionCmd())

	root.PersistentFlags().BoolVar(&a.NoStart, "no-start", false, "do not start thoughtgated if it is not running")
	root.PersistentFlags().BoolP("help", "h", false, "print this help and exit")
	root.Flags().BoolVar(&showVersion, "version", false, "print the version and exit")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.HelpCmd())
	root.SetHelpFunc(a.Help)
	root.SetUsageFunc(func(*cobra.Command) error { return nil }) // errors point to --help
	ui.Prepare(root)
	return root
}

// run executes the command that args name and returns the exit code. Errors are printed
// here and nowhere else.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCmd()
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	a.ReportSkew()
	if err != nil {
		a.printError(err)
	}
	return ui.ExitCode(err)
}

// printError prints err for a person: what happened, then what to do.
func (a *app) printError(err error) {
	if exit, ok := errors.AsType[*ui.ExitError](err); ok && exit.Err == nil {
		return
	}
	a.PrintMessage("tgctl: %s", display.Lines(err.Error()))
	var usage *ui.UsageError
	var hint *ui.HintError
	switch {
	case errors.As(err, &usage):
		a.PrintMessage("See `%s --help`.", usage.Path)
	case errors.As(err, &hint):
		a.PrintText(string(display.Lines(hint.Hint)))
	case errors.Is(err, client.ErrNotRunning):
		a.reportDaemonElsewhere()
	default:
		if what := sock.FixForDiskError(err); what != "" {
			a.PrintMessage("What to do: %s.", display.Text(what))
		}
	}
}

// reportDaemonElsewhere points to a daemon that runs at another place than expected.
func (a *app) reportDaemonElsewhere() {
	if what, hint := a.DaemonElsewhere(); what != "" {
		a.PrintMessage("%s.", display.Text(what))
		a.PrintText(string(display.Lines(hint)))
	}
}
