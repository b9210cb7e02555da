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
	if err := a.showParams(q, "tgctl approvals show "+id+" | less"); err != nil {
		return err
	}
	if !approval.IsOpen(q) {
		return nil
	}
	if err := a.PrintToned(readPast(ctx, c, q).lines(q, a.Now(), a.Width())); err != nil {
		return err
	}
	if lines := a.offerLines(q); lines != nil {
		lines = append([]display.Safe{"", "the approval can be a grant, for an hour or --for TIME:"}, lines...)
		if err := a.PrintLines(lines); err != nil {
			return err
		}
	}
	answer := "tgctl approvals approve " + id
	if login := approval.LoginCommand(q); login != "" {
		answer = login
	}
	deny := "tgctl approvals deny " + id + " --reason \"...\""
	if q.GetOnlyColleagues() {
		a.PrintMessage("\nIt waits for a colleague. Deny it with: %s", deny)
		return nil
	}
	a.PrintMessage("\nAnswer with: %s\n         or: %s", answer, deny)
	return nil
}

// addTraces adds the identifiers by which a question can be found again.
func addTraces(s *ui.Sheet, q *pb.Approval) {
	s.Add("in the log", display.Name(q.GetCall()))
	s.Add("launch", display.Name(q.GetLaunch()))
	s.Add("subject", display.Safe(hex.EncodeToString(q.GetSubject())))
}

// paramLines lays out the arguments of a call in full, or all params if it has others.
func paramLines(q *pb.Approval, columns int) []ui.Line {
	what := ui.Choose(ui.ArgumentsOf(q.GetMethod(), q.GetArguments()) != nil, "arguments", "params")
	return jsonLines(what, approval.ShownParams(q), columns)
}

// showParams prints the params of a call in full. On a terminal it prints the beginning and how
// many lines are missing.
func (a *app) showParams(q *pb.Approval, whole display.Safe) error {
	if len(q.GetArguments()) == 0 {
		return nil
	}
	lines := paramLines(q, a.Width())
	if rest := len(lines) - 1 - showLines; a.OutTerminal && rest > 0 {
		lines = append(lines[:1+showLines], ui.Line{Text: "… " + ui.Plural(rest, "more line", "more lines") + "; " + whole, Tone: display.Warn})
	}
	return a.PrintToned(lines)
}

// jsonLines lays out raw JSON in full, below a line with its title and length. Lines with a character
// that a terminal would hide or obey, or that looks like another, have a tone of their own.
func jsonLines(what display.Safe, raw []byte, columns int) []ui.Line {
	const indent = "  "
	lines := ui.InTone(display.Faint, display.Wrap(what+", "+ui.Plural(len(raw), "byte", "bytes")+":", columns)...)
	for line := range strings.SplitSeq(string(display.JSON(raw, ui.Behind(len(indent), columns))), "\n") {
		tone := display.Plain
		if strings.Contains(line, `\u{`) {
			tone = display.Warn
		}
		lines = append(lines, ui.Line{Text: indent + display.Safe(line), Tone: tone})
	}
	return lines
}
