package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// stopPatience is how long a daemon that was told to stop may take: it drains
// its shims first.
const stopPatience = 30 * time.Second

func (a *app) daemonCmd() *cobra.Command {
	cmd := group("daemon", "Start, stop or reload thoughtgated", a.daemonStartCmd(), a.daemonStopCmd(), a.daemonReloadCmd())
	cmd.Long = `One daemon serves each user. Most commands start it when they need it, under the
service manager where its unit is installed.`
	cmd.Example = `  $ tgctl daemon start
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
the environment. When it cannot start, what it said is printed.`,
		Example: "  $ tgctl daemon start",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.status(cmd.Context())
			if err == nil {
				a.say("thoughtgated runs already (pid %d).", s.GetPid())
				return nil
			}
			if !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			return a.startDaemon(cmd.Context())
		},
	}
}

func (a *app) daemonStopCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon",
		Long: `Stop the daemon and return when it has gone. Servers that are governed look for
it for a while and then leave: without it nothing governed passes. Where the
service manager holds the sockets, whoever connects next starts it again.`,
		Example: "  $ tgctl daemon stop",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.stopDaemon(cmd.Context())
		},
	}
}

func (a *app) stopDaemon(ctx context.Context) error {
	c, err := a.dialRunning(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	pid := int(s.GetPid())
	exit, err := watchExit(pid)
	if err != nil {
		return fmt.Errorf("stop %s: %w", daemonName, err)
	}
	defer exit.Close()
	if err := c.Stop(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) { // it may be gone before its answer is read
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if err := exit.Wait(ctx); err != nil {
		return fmt.Errorf("stop %s: process %d was told to end and has not: %w", daemonName, pid, err)
	}
	a.say("thoughtgated has stopped.")
	return nil
}

func (a *app) daemonReloadCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload [flags]",
		Short: "Put the configuration on disk in force",
		Long: `Read the configuration and its policies again and put them in force as a whole,
or say what is wrong with them and leave things as they were.`,
		Example: `  $ tgctl policy check && tgctl daemon reload`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.dialRunning(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			out, err := c.Reload(cmd.Context())
			var wrong *client.Error
			if errors.As(err, &wrong) && len(wrong.Diagnostics) > 0 {
				if err := printDiagnostics(a.err, wrong.Diagnostics, a.width()); err != nil {
					return err
				}
				return &hintError{err: err, hint: "What was in force stays in force."}
			}
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(policySetToJSON(out.GetSet()))
			}
			if err := printDiagnostics(a.err, out.GetWarnings(), a.width()); err != nil {
				return err
			}
			set := out.GetSet()
			name := display.Text(set.GetSource())
			if name == "" {
				name = "the built-in default"
			}
			a.say("In force: %s, profile %s, %s, %s.", name, display.Name(set.GetProfile()),
				plural(set.GetRules(), "rule", "rules"), plural(set.GetPolicies(), "Cedar policy", "Cedar policies"))
			return nil
		},
	}
	jsonFlag(cmd, &asJSON, policySetJSON{})
	return cmd
}
