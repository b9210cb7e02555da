package connect

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Prepare gives root, with the commands below it, what all commands have: --help and --no-start.
func (a *App) Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentFlags().BoolVar(&a.NoStart, "no-start", false, "do not start thoughtgated if it is not running")
	root.PersistentFlags().BoolP("help", "h", false, "print this help and exit")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.HelpCmd())
	root.SetHelpFunc(a.Help)
	root.SetUsageFunc(func(*cobra.Command) error { return nil }) // errors point to --help
	ui.Prepare(root)
}

// Execute executes the command below root that args name and returns the exit code. Errors are
// printed here and nowhere else.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	a.ReportSkew()
	if err != nil {
		a.PrintError(err)
	}
	return ui.ExitCode(err)
}

// ExecuteOnly is like Execute, by a tgctl that has only the given commands.
func (a *App) ExecuteOnly(ctx context.Context, args []string, commands ...func(*App) *cobra.Command) int {
	root := &cobra.Command{Use: "tgctl", RunE: ui.UnknownVerb, Args: cobra.ArbitraryArgs}
	for _, command := range commands {
		root.AddCommand(command(a))
	}
	a.Prepare(root)
	return a.Execute(ctx, root, args)
}

// PrintError prints err for a person: what happened, then what to do.
func (a *App) PrintError(err error) {
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
func (a *App) reportDaemonElsewhere() {
	if what, hint := a.DaemonElsewhere(); what != "" {
		a.PrintMessage("%s.", display.Text(what))
		a.PrintText(string(display.Lines(hint)))
	}
}
