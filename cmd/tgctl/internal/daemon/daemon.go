// Package daemon has the commands of tgctl that start, stop, restart and install the daemon, have it
// read its configuration again, and show how it is run.
package daemon

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what these commands use.
type app struct{ *connect.App }

// Command returns the command daemon.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.Group("daemon", "Install, start, stop, restart or reload thoughtgated",
		a.installCmd(), a.uninstallCmd(), a.startCmd(), a.stopCmd(), a.restartCmd(),
		a.reloadCmd(), a.statusCmd(), a.profileCmd())
	cmd.Long = `One daemon serves each user. Most commands start it when they need it, under the
service manager where its unit is installed.`
	cmd.Example = `  $ tgctl daemon install
  $ tgctl daemon reload`
	return cmd
}

func (a *app) startCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the daemon if it is not running",
		Long: `Start the daemon and return when it answers: through the service manager if its
unit is installed, otherwise as a process that outlives this terminal. Of the
environment, the daemon gets only HOME, PATH, LANG and the XDG variables. It
uses the configuration that THOUGHTGATE_CONFIG names, if set. Other commands
that start the daemon use the default file, and print a notice. If the daemon
cannot start, its output is printed.`,
		Example: "  $ tgctl daemon start",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.Status(cmd.Context())
			if err == nil {
				a.PrintMessage("thoughtgated is already running (pid %d).", s.GetPid())
				return nil
			}
			if !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			config, err := a.NamedConfig()
			if err != nil {
				return err
			}
			return a.StartDaemon(cmd.Context(), config)
		},
	}
}

func (a *app) reloadCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "reload [flags]",
		Short: "Load the configuration from disk",
		Long: `Read the configuration and its policies again and put them in force together. If
there are errors, print them and keep what is in force. Starts the daemon if it
is not running.`,
		Example: `  $ tgctl policy check && tgctl daemon reload`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			out, err := c.Reload(ctx)
			if wrong := ui.DiagnosticsOf(err); len(wrong) > 0 {
				if err := ui.PrintDiagnostics(a.Err, wrong, a.Width()); err != nil {
					return err
				}
				return &ui.HintError{Err: err, Hint: "The previous configuration stays in force."}
			}
			if err != nil {
				return err
			}
			if a.AsJSON {
				return a.PrintJSON(out)
			}
			if err := ui.PrintDiagnostics(a.Err, out.GetWarnings(), a.Width()); err != nil {
				return err
			}
			a.PrintMessage("In force: %s, %s.", policy.SourceName(out.GetSet().GetSource()), policy.Summary(out.GetSet()))
			return nil
		}),
	}, &pb.ReloadResponse{})
}
