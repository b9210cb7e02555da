package inbox

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// showLines limits the lines of arguments on a terminal, so that more important lines
// stay on the screen.
const showLines = 200

func (a *app) approvalsShowCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "show ID [flags]",
		Short: "Show one question in full",
		Long: `Show everything about one question. Arguments are shown as the server would
read them; characters that a terminal would act on or hide, or that look like
others, are escaped by number, as \u{202e}. For a waiting question, show also
prints the differences from the last approved call of that tool, the previous
calls of the session, and for a command of the agent's own shell the grants that
its approval can be, with how many calls of the session each would have covered.`,
		Example: `  $ tgctl approvals show A-17
  $ tgctl approvals show A-17 | less`,
		Args:              ui.Exactly("ID"),
		ValidArgsFunction: a.CompleteApprovals(),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			q, err := c.GetApproval(ctx, approval.ID(args[0]))
			if err != nil {
				return approval.Failure(args[0], err)
			}
			if a.AsJSON {
				return a.PrintJSON(q)
			}
			return a.showApproval(ctx, c, q)
		}),
	}, &pb.Approval{})
}

func (a *app) showApproval(ctx context.Context, c *client.Client, q *pb.Approval) error {
	s := approval.Sheet(q, a.Now())
	addTraces(s, q)
	if err := a.PrintSheet(s); err != nil {
		return err
	}
	id := display.Name(q.GetId())
	if err := a.showParams(q.GetArguments(), "tgctl approvals show "+id+" | less"); err != nil {
		return err
	}
	if !approval.IsOpen(q) {
		return nil
	}
	if err := a.PrintLines(readPast(ctx, c, q).lines(q, a.Now(), a.Width())); err != nil {
		return err
	}
	if lines := a.offerLines(q); lines != nil {
		lines = append([]display.Safe{"", "the approval can be a grant, for an hour or --for TIME:"}, lines...)
		if err := a.PrintLines(lines); err != nil {
			return err
		}
	}
	a.PrintMessage("\nAnswer with: tgctl approvals approve %s\n         or: tgctl approvals deny %s --reason \"...\"", id, id)
	return nil
}

// addTraces adds the identifiers by which a question can be found again.
func addTraces(s *ui.Sheet, q *pb.Approval) {
	s.Add("in the log", display.Name(q.GetCall()))
	s.Add("launch", display.Name(q.GetLaunch()))
	s.Add("subject", display.Safe(hex.EncodeToString(q.GetSubject())))
}

// showParams prints raw params in full. On a terminal it prints the beginning and how
// many lines are missing.
func (a *app) showParams(params []byte, whole display.Safe) error {
	if len(params) == 0 {
		return nil
	}
	lines := jsonLines("params", params, a.Width())
	if rest := len(lines) - 1 - showLines; a.OutTerminal && rest > 0 {
		lines = append(lines[:1+showLines], "… "+ui.Plural(rest, "more line", "more lines")+"; "+whole)
	}
	return a.PrintLines(lines)
}

// jsonLines lays out raw JSON in full, below a line with its title and length.
func jsonLines(what display.Safe, raw []byte, columns int) []display.Safe {
	const indent = "  "
	lines := display.Wrap(what+", "+ui.Plural(len(raw), "byte", "bytes")+":", columns)
	for line := range strings.SplitSeq(string(display.JSON(raw, ui.Behind(len(indent), columns))), "\n") {
		lines = append(lines, indent+display.Safe(line))
	}
	return lines
}
