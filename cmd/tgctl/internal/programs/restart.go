package programs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// RestartCommand returns the command restart.
func RestartCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	w := &programSelector{}
	cmd := &cobra.Command{
		Use:   "restart NAME [flags]",
		Short: "Restart a shared server or an extension",
		Long: `Stop a shared server or an extension, start it again, and reset its count of
restarts. This is the only way to restart one that has failed. Calls in progress
are answered with an error.

Returns when the program is ready; exits 1 if it does not start. Agents, and the
servers that they start, can't be restarted. For the daemon itself use
tgctl daemon restart.`,
		Example: `  $ tgctl restart scrubber
  $ tgctl restart notes --kind backend`,
		Args:              ui.Exactly("NAME"),
		ValidArgsFunction: a.completeKept(),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			w.name = args[0]
			return a.restart(ctx, c, w)
		}),
	}
	w.flags(cmd)
	return a.WithJSON(cmd, &pb.RestartProcessResponse{})
}

func (a *app) restart(ctx context.Context, c *client.Client, w *programSelector) error {
	p, err := findProgram(ctx, c, w)
	if err != nil {
		return err
	}
	if p.GetKind() == KindAgent {
		return &ui.HintError{Err: fmt.Errorf("%s is a headless agent, which can't be restarted", p.GetName()), Hint: "Start another run: tgctl run " + ui.Word(p.GetName()) + " -- PROMPT"}
	}
	done, err := c.RestartProcess(ctx, &pb.RestartProcessRequest{Kind: p.GetKind(), Name: p.GetName(), Id: p.GetId()})
	if err != nil {
		return ui.WithHint(err, LoosenHints...)
	}
	if done.Process == nil {
		done.Process = p
	}
	p = done.Process
	if a.AsJSON {
		if err := a.PrintJSON(done); err != nil {
			return err
		}
	}
	if why := done.GetFailure(); why != "" {
		see := ui.Choose(p.GetKind() == KindExtension, "ext show ", "logs ")
		return &ui.HintError{Err: fmt.Errorf("%s did not start: %s", p.GetName(), why), Hint: "See: tgctl " + string(see) + ui.Word(p.GetName())}
	}
	if a.AsJSON {
		return nil
	}
	_, err = fmt.Fprintf(a.Out, "restarted %s: %s, pid %s\n", display.Name(p.GetName()), ui.OrDash(p.GetState()), strconv.Itoa(int(p.GetPid())))
	return err
}

// LoosenHints say what to do about a request that is not allowed to agents.
var LoosenHints = []ui.Hint{{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot do that. Use another terminal."}}
