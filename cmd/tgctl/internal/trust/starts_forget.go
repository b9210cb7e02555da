package trust

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) serversForgetCmd() *cobra.Command {
	var start string
	cmd := &cobra.Command{
		Use:   "forget SERVER [flags]",
		Short: "No longer accept the start of a project's server",
		Long: `No longer accept the start of a server that comes with a project, in all
projects that have a server of that id. A running one keeps running until its
agent ends it; its next start is withheld until you accept it.`,
		Example: `  $ tgctl servers forget notes
  $ tgctl servers forget notes --start 9a8b7c6d`,
		Args:              ui.Exactly("SERVER"),
		ValidArgsFunction: a.completeStarts(func(s *pb.ServerStart) bool { return !IsWithheld(s) }),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			return a.forgetStarts(ctx, c, args[0], start)
		}),
	}
	cmd.Flags().StringVar(&start, "start", "", "only the start whose digest begins with `HEX`")
	return a.WithJSON(cmd, &pb.ServerStart{})
}

func (a *app) forgetStarts(ctx context.Context, c *client.Client, id, digest string) error {
	starts, err := c.ListStarts(ctx)
	if err != nil {
		return err
	}
	starts = ui.Filter(starts, func(s *pb.ServerStart) bool { return !IsWithheld(s) && isNamed(s, id) && hasDigest(s, digest) })
	for _, s := range starts {
		err := c.ForgetStart(ctx, &pb.ForgetStartRequest{Project: s.GetProject(), Server: s.GetServer(), Digest: s.GetDigest(), Surface: a.Surface()})
		if err != nil {
			return ui.WithHint(err, toolHints...)
		}
		if a.AsJSON {
			err = a.PrintJSON(s)
		} else {
			_, err = fmt.Fprintf(a.Out, "forgotten: %s in %s: %s\n", display.Name(s.GetServer()), display.Text(s.GetProject()), started(s))
		}
		if err != nil {
			return err
		}
	}
	if len(starts) == 0 {
		return &ui.HintError{Err: fmt.Errorf("%s: no start of that id is accepted", id), Hint: "List them: tgctl servers"}
	}
	a.PrintMessage("Its next start is withheld until you accept it.")
	return nil
}
