package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) daemonCmd() *cobra.Command {
	cmd := group("daemon", "Install, start, stop, restart or reload thoughtgated",
		a.daemonInstallCmd(), a.daemonUninstallCmd(), a.daemonStartCmd(), a.daemonStopCmd(), a.daemonRestartCmd(),
		a.daemonReloadCmd(), a.daemonStatusCmd(), a.daemonProfileCmd())
	cmd.Long = `One daemon serves each user. Most commands start it when they need it, under the
service manager where its unit is installed.`
	cmd.Example = `  $ tgctl daemon install
  $ tgctl daemon reload`
	return cmd
}

func (a *app) daemonStartCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the daemon, unless it runs",
		Long: `Start the daemon and return when it answers: through the service manager where
its unit is installed, otherwise as a process of its own that outlives this
terminal. It is given HOME, PATH, LANG and the XDG variables and nothing else of
the environment, and uses the configuration that THOUGHTGATE_CONFIG names, if it
does. Commands that start it by themselves go by the usual file, and say so.
When it cannot start, what it said is printed.`,
		Example: "  $ tgctl daemon start",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.status(cmd.Context())
			if err == nil {
				a.printMessage("thoughtgated runs already (pid %d).", s.GetPid())
				return nil
			}
			if !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			config, err := a.namedConfig()
			if err != nil {
				return err
			}
			return a.startDaemon(cmd.Context(), config)
		},
	}
}

func (a *app) daemonReloadCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "reload [flags]",
		Short: "Put the configuration on disk in force",
		Long: `Read the configuration and its policies again and put them in force as a whole,
or say what is wrong with them and leave things as they were. Starts the daemon
when it is not running.`,
		Example: `  $ tgctl policy check && tgctl daemon reload`,
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			out, err := c.Reload(ctx)
			if wrong := diagnosticsOf(err); len(wrong) > 0 {
				if err := printDiagnostics(a.err, wrong, a.width()); err != nil {
					return err
				}
				return &hintError{err: err, hint: "What was in force stays in force."}
			}
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(out)
			}
			if err := printDiagnostics(a.err, out.GetWarnings(), a.width()); err != nil {
				return err
			}
			a.printMessage("In force: %s, %s.", sourceName(out.GetSet().GetSource()), inShort(out.GetSet()))
			return nil
		}),
	}, &pb.ReloadResponse{})
}
