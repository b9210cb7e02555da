package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) restartCmd() *cobra.Command {
	w := &programSelector{}
	cmd := &cobra.Command{
		Use:   "restart NAME [flags]",
		Short: "Start a backend or an extension anew",
		Long: `End a program that the daemon keeps and start it anew, with all the restarts
that it may have: a server that sessions share, or an extension. One that has
failed is started again only so. Calls that it was busy with are answered with
an error.

Returns when it can be talked to; exits 1 when it does not come up. Not for an
agent, nor for what an agent starts. For the daemon itself there is
tgctl daemon restart.`,
		Example: `  $ tgctl restart scrubber
  $ tgctl restart notes --kind backend`,
		Args:              exactly("NAME"),
		ValidArgsFunction: a.completeKept(),
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			w.name = args[0]
			return a.restart(ctx, c, w)
		}),
	}
	jsonFlag(cmd, &a.asJSON, &pb.RestartProcessResponse{})
	w.flags(cmd)
	return cmd
}

func (a *app) restart(ctx context.Context, c *client.Client, w *programSelector) error {
	p, err := findProgram(ctx, c, w)
	if err != nil {
		return err
	}
	if p.GetKind() == kindAgent {
		return &hintError{fmt.Errorf("%s is the run of an agent, which has one life", p.GetName()), "Begin another: tgctl run " + word(p.GetName()) + " -- PROMPT"}
	}
	done, err := c.RestartProcess(ctx, &pb.RestartProcessRequest{Kind: p.GetKind(), Name: p.GetName(), Id: p.GetId()})
	if err != nil {
		return withHint(err, loosenHints...)
	}
	if done.Process == nil {
		done.Process = p
	}
	p = done.Process
	if a.asJSON {
		if err := a.printJSON(done); err != nil {
			return err
		}
	}
	if why := done.GetFailure(); why != "" {
		see := "tgctl logs "
		if p.GetKind() == kindExtension {
			see = "tgctl ext show "
		}
		return &hintError{fmt.Errorf("%s does not come up: %s", p.GetName(), why), "See: " + see + word(p.GetName())}
	}
	if a.asJSON {
		return nil
	}
	_, err = fmt.Fprintf(a.out, "restarted %s: %s, pid %s\n", display.Name(p.GetName()), orDash(p.GetState()), strconv.Itoa(int(p.GetPid())))
	return err
}

var loosenHints = []hint{{client.ErrForbidden, "An agent, and what it starts, cannot do this. Do it from another terminal."}}
