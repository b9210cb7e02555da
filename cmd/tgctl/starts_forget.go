package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) serversForgetCmd() *cobra.Command {
	var start string
	cmd := &cobra.Command{
		Use:   "forget SERVER [flags]",
		Short: "Take back that a server of a project may be started",
		Long: `Take back what you agreed to of a server that comes with a project, in all
projects that have one of that id. One that runs goes on until its agent ends
it; when it is to be started again you are asked anew.`,
		Example: `  $ tgctl servers forget notes
  $ tgctl servers forget notes --start 9a8b7c6d`,
		Args:              exactly("SERVER"),
		ValidArgsFunction: a.completeStarts(func(s *pb.ServerStart) bool { return !isWithheld(s) }),
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			return a.forgetStarts(ctx, c, args[0], start)
		}),
	}
	jsonFlag(cmd, &a.asJSON, &pb.ServerStart{})
	cmd.Flags().StringVar(&start, "start", "", "only the one whose digest begins with `HEX`")
	return cmd
}

func (a *app) forgetStarts(ctx context.Context, c *client.Client, id, digest string) error {
	starts, err := c.ListStarts(ctx)
	if err != nil {
		return err
	}
	starts = filter(starts, func(s *pb.ServerStart) bool { return !isWithheld(s) && isNamed(s, id) && hasDigest(s, digest) })
	for _, s := range starts {
		err := c.ForgetStart(ctx, &pb.ForgetStartRequest{Project: s.GetProject(), Server: s.GetServer(), Digest: s.GetDigest(), Surface: a.surface()})
		if err != nil {
			return withHint(err, toolHints...)
		}
		if a.asJSON {
			err = a.printJSON(s)
		} else {
			_, err = fmt.Fprintf(a.out, "forgotten: %s in %s: %s\n", display.Name(s.GetServer()), display.Text(s.GetProject()), commandLine(s.GetCommand()))
		}
		if err != nil {
			return err
		}
	}
	if len(starts) == 0 {
		return &hintError{err: fmt.Errorf("%s: nothing of that id was agreed to", id), hint: "See what was: tgctl servers"}
	}
	a.printMessage("You are asked anew when it is to be started again.")
	return nil
}
