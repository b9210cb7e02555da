package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// GrantsCommand returns the command grants.
func GrantsCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.ListGroup("grants", "List and revoke grants", a.grantsListCmd(), a.grantsRevokeCmd())
	cmd.Long = `A grant is an approval that holds for more than one call, within the bounds that
you set with "tgctl approvals approve --for". It ends when it expires, when it
was used as often as allowed, when the tool's definition changes, and when you
revoke it.
Without a command, grants lists the grants in force.`
	cmd.Example = `  $ tgctl grants
  $ tgctl grants revoke G-3`
	return cmd
}

func (a *app) grantsListCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the grants in force",
		Long: `List the grants in force, oldest first: what each covers, for how long, and how
often it was used.`,
		Example: `  $ tgctl grants list
  $ tgctl grants list --all --json | jq -r 'select(.ended) | [.id, .end] | @tsv'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			grants, err := c.ListGrants(ctx, all)
			if err != nil {
				return err
			}
			err = ui.PrintList(a, grants, nil, "No grant is in force. To give one with an approval: tgctl approvals approve ID --for 1h", a.grantsTable)
			if err == nil && slices.ContainsFunc(grants, func(g *pb.Grant) bool { return g.GetEnded() == nil }) {
				a.PrintNext("To end one: tgctl grants revoke ID")
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list grants that have ended, newest first")
	return a.WithJSON(cmd, &pb.Grant{})
}

func (a *app) grantsTable(grants []*pb.Grant) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "ID"}, {Head: "LEFT", Right: true, Tone: ui.ToneOf}, {Head: "USED", Right: true},
		{Head: "AGENT", Shrink: 8, Repeats: true}, {Head: "SERVER", Shrink: 8, Repeats: true}, {Head: "CALL", Shrink: 12},
	}}
	for _, g := range grants {
		left := ui.Choose(g.GetEnded() == nil, display.Span(g.GetExpires().AsTime().Sub(a.Now())), "ended")
		used := display.Count(g.GetUsed()) + ui.Choose(g.GetTimes() > 0, " of "+display.Count(g.GetTimes()), "")
		t.Add(display.Name(g.GetId()), left, used, ui.OrDash(g.GetAgent()), display.Name(g.GetServer()), ui.CallName(g.GetMethod(), g.GetTool()))
		t.Note(a.tilde(approval.GrantBounds(g)))
		t.Note(display.Text(g.GetEnd()))
	}
	return t
}

func (a *app) grantsRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID...",
		Short:   "Revoke grants, so that you are asked again",
		Long:    `Revoke one or more grants at once. Calls that they have approved are not undone.`,
		Example: `  $ tgctl grants revoke G-3`,
		Args:    ui.AtLeastOne("ID"),
		ValidArgsFunction: connect.Listed(a.App, grantsInForce, func(g *pb.Grant) string {
			return connect.Described(g.GetId(), ui.CallName(g.GetMethod(), g.GetTool())+" on "+display.Name(g.GetServer()))
		}),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			var failed error
			for _, id := range distinct(args) {
				g, err := c.RevokeGrant(ctx, id)
				if err != nil {
					failed = errors.Join(failed, ui.WithHint(approval.About(id, err), grantHints...))
					continue
				}
				if _, err := fmt.Fprintf(a.Out, "revoked %s: %s on %s, %s\n", display.Name(g.GetId()),
					ui.CallName(g.GetMethod(), g.GetTool()), display.Name(g.GetServer()), ui.Plural(g.GetUsed(), "call approved", "calls approved")); err != nil {
					return err
				}
			}
			return failed
		}),
	}
}

func grantsInForce(c *client.Client, ctx context.Context) ([]*pb.Grant, error) {
	return c.ListGrants(ctx, false)
}

var grantHints = []ui.Hint{
	{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot revoke grants. Use another terminal."},
	{Err: client.ErrNotFound, Text: "List the grants: tgctl grants"},
}

// GrantsTable lists grants as the command grants does.
func GrantsTable(c *connect.App, grants []*pb.Grant) *display.Table {
	return (&app{c}).grantsTable(grants)
}
