package ext

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// exitInterrupted is the exit code of a program that Ctrl-C has ended.
const exitInterrupted = 130

func (a *app) runCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] NAME COMMAND [ARG...]",
		Short: "Run a command of an extension",
		Long: `Run a command that an extension offers, and print its output as it arrives: text
to stdout, messages and, on a terminal, progress to stderr. Flags come before
NAME; everything after COMMAND is passed to the command unchanged. Ctrl-C
cancels it.

Exits with the command's own exit code, and with 130 if it was cancelled. Agents
and the processes they start cannot run commands, which may weaken the rules.`,
		Example: `  $ tgctl ext run quota show
  $ tgctl ext run --json scrubber report`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return ui.Exactly("NAME", "COMMAND")(nil, args)
			}
			return nil
		},
		ValidArgsFunction: a.completeCommands,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			return a.invoke(ctx, c, &pb.InvokeRequest{Name: args[0], Command: args[1], Args: args[2:]})
		}),
	}
	cmd.Flags().SetInterspersed(false)
	return a.WithJSON(cmd, &pb.InvokeEvent{})
}

// invoke runs a command and returns its exit code as an error.
func (a *app) invoke(ctx context.Context, c *client.Client, req *pb.InvokeRequest) error {
	s := &commandScreen{Partial: ui.Partial{App: a.App.App}}
	defer s.leave()
	for e, err := range c.Invoke(ctx, req) {
		switch {
		case err != nil && ctx.Err() != nil:
			return &ui.ExitError{Code: exitInterrupted, Err: fmt.Errorf("%s %s was cancelled", display.Name(req.GetName()), display.Name(req.GetCommand()))}
		case err != nil:
			return ui.WithHint(err, hints...)
		case a.AsJSON:
			err = a.PrintJSON(e)
		default:
			err = s.show(e)
		}
		if err != nil {
			return err
		}
		if end := e.GetEnd(); end != nil {
			return commandExit(end.GetExitCode())
		}
	}
	return errors.New("the daemon did not report how the command ended")
}

// commandExit converts a command's exit code, which may be out of range, to an error.
func commandExit(code int32) error {
	switch {
	case code == 0:
		return nil
	case code < 0 || code > 255:
		return &ui.ExitError{Code: ui.ExitFailed, Err: fmt.Errorf("the command exited with %d, which is not a valid exit code", code)}
	}
	return &ui.ExitError{Code: int(code)}
}

// completeCommands completes extensions and then the commands that the extension
// declares.
func (a *app) completeCommands(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return a.completeExtensions()(cmd, args, typed)
	}
	return a.CompleteIDs(cmd, func(ctx context.Context, c *client.Client) (commands []string, err error) {
		e, err := c.GetExtension(ctx, args[0])
		for _, one := range e.GetCapabilities() {
			if one.GetKind() == "command" {
				commands = append(commands, string(display.Name(one.GetName())))
			}
		}
		return commands, err
	})
}
