package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// shownNames limits the names of each kind that a plan shows.
const shownNames = 20

// UndoCommand returns the command undo.
func UndoCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	yes := false
	cmd := &cobra.Command{
		Use:   "undo [ID] [flags]",
		Short: "Bring back files that an approved call has destroyed",
		Long: `Bring back what an approved call of an agent's own tools has deleted or
overwritten in a work tree. Where the rule says "undo: true", the daemon copies
such files before the call is let go, and the question says so. Copies are kept
for 7 days, outside of the repository.

Without ID, list the copies. With the ID of a question, show what would be
written, ask, and write it. Nothing is overwritten: a file that changed since is
renamed first, and stays beside. What is below .git is neither copied nor
written.

Once presence is set up, it needs your passphrase or a code, as the approval
did. Agents can't undo anything.`,
		Example: `  $ tgctl undo
  $ tgctl undo A-17
  $ tgctl undo A-17 --yes`,
		Args: ui.AtMostOne,
		ValidArgsFunction: connect.FirstAlone(connect.Listed(c, listCopies, func(m *pb.Copy) string {
			return connect.Described(m.GetId(), copied(m))
		})),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			switch {
			case len(args) > 0 && a.AsJSON:
				return ui.Misuse("--json is for the list; leave out the ID")
			case len(args) > 0:
				return undoFailure(args[0], a.undo(ctx, c, approval.ID(args[0]), yes))
			case yes:
				return ui.Misuse("--yes needs an ID")
			}
			all, err := c.ListCopies(ctx)
			if err != nil {
				return err
			}
			err = ui.PrintList(a, all, nil, "There is no copy of destroyed files.", a.copiesTable)
			if err == nil && len(all) > 0 {
				a.PrintNext("To look at one, and bring it back: tgctl undo ID")
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.WithJSON(cmd, &pb.Copy{})
}

func listCopies(c *client.Client, ctx context.Context) ([]*pb.Copy, error) { return c.ListCopies(ctx) }

// copied says what a copy has.
func copied(m *pb.Copy) display.Safe {
	return ui.Plural(m.GetFiles(), "file", "files") + " of " + display.Text(m.GetRoot())
}

func (a *app) copiesTable(all []*pb.Copy) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "ID"}, {Head: "AGE", Right: true}, {Head: "FILES", Right: true}, {Head: "SIZE", Right: true}, {Head: "FOLDER"},
	}}
	for _, m := range all {
		t.Add(display.Name(m.GetId()), a.Age(m.GetMade()), display.Count(m.GetFiles()), display.Size(m.GetBytes()), display.Text(a.Tilde(m.GetRoot())))
		t.Note(some(m.GetNames(), len(m.GetNames()), 5))
	}
	return t
}

// some returns the first of some names, and how many more there are of all.
func some(names []string, all, most int) display.Safe {
	line := ui.Join(ui.Map(names[:min(most, len(names))], display.Text), ", ")
	if more := all - min(most, len(names)); more > 0 {
		line += " and " + display.Count(uint64(more)) + " more"
	}
	return line
}

// undo shows what bringing back a copy would do, asks, and does it.
func (a *app) undo(ctx context.Context, c *client.Client, id string, yes bool) error {
	p, err := c.PlanUndo(ctx, id)
	if err != nil {
		return err
	}
	if err := ui.WriteLines(a.Err, a.planSheet(p).Lines(a.ErrColumns)); err != nil {
		return err
	}
	if p.GetWrites()+p.GetReplaces() == 0 && !p.GetRootGone() {
		a.PrintMessage("Nothing is to be brought back.")
		return nil
	}
	if !yes {
		if !a.InTerminal || !a.ErrTerminal {
			return ui.NoTerminal("undo", "Look at what it says, then: tgctl undo "+id+" --yes")
		}
		if err := a.AskYes(ctx, "Bring them back?"); err != nil {
			return err
		}
	}
	req := &pb.RestoreRequest{Id: p.GetCopy().GetCopy(), Digest: p.GetDigest(), Surface: a.Surface()}
	done, err := c.Restore(ctx, req)
	if errors.Is(err, client.ErrProofNeeded) {
		prover := &approval.Prover{Client: c}
		defer prover.Close()
		if req.Proof, err = prover.Proof(ctx, func() error {
			a.PrintMessage("bring back %s: %s", display.Name(id), copied(p.GetCopy()))
			return nil
		}); err != nil {
			return err
		}
		done, err = c.Restore(ctx, req)
		clear(req.Proof.GetPassphrase())
		clear(req.Proof.GetCode())
	}
	if err != nil {
		return err
	}
	return a.printRestored(id, done)
}

// planSheet lists what a plan does.
func (a *app) planSheet(p *pb.UndoPlan) *ui.Sheet {
	s := &ui.Sheet{}
	s.Add("copy", display.Name(p.GetCopy().GetId())+", "+copied(p.GetCopy())+", "+display.Moment(p.GetCopy().GetMade().AsTime(), a.Now()))
	list := func(name string, names []string, all uint32, then display.Safe) {
		if all > 0 {
			s.Add(name, some(names, int(all), shownNames)+then)
		}
	}
	list("missing", p.GetWrite(), p.GetWrites(), ": will be written")
	list("changed", p.GetReplace(), p.GetReplaces(), ": will be written; what is there now is renamed and stays beside")
	list("lost", p.GetFailed(), p.GetFails(), ": can't be brought back")
	s.Add("unchanged", ui.Choose(p.GetSame() > 0, ui.Plural(p.GetSame(), "file or folder", "files and folders"), ""))
	s.Add("warning", ui.Choose(p.GetRootGone(), "the folder is gone, and will be made", ""), ui.Choose(p.GetRootReplaced(), "this is another folder than the one that was copied", ""))
	return s
}

// printRestored prints what was done.
func (a *app) printRestored(id string, done *pb.Restored) error {
	if _, err := fmt.Fprintf(a.Out, "brought back %s: %s written, %d unchanged\n", display.Name(id), ui.Plural(done.GetWritten(), "file or folder", "files and folders"), done.GetSame()); err != nil {
		return err
	}
	var lines []display.Safe
	for _, kept := range done.GetKept() {
		lines = append(lines, "  "+display.Text(kept.GetName())+" had changed; that is now "+display.Text(kept.GetNow()))
	}
	for _, failed := range done.GetFailed() {
		lines = append(lines, "  not brought back: "+display.Text(failed))
	}
	if err := a.PrintLines(lines); err != nil || len(done.GetFailed()) == 0 {
		return err
	}
	return &ui.ExitError{Code: ui.ExitFailed, Err: errors.New("some files could not be brought back; make room or give access, and run it again")}
}

// undoFailure adds to an error what to do.
func undoFailure(id string, err error) error {
	if err == nil || errors.As(err, new(*ui.HintError)) {
		return err
	}
	return ui.WithHint(err,
		ui.Hint{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot undo. Use another terminal."},
		ui.Hint{Err: client.ErrNotFound, Text: "List the copies: tgctl undo"},
		ui.Hint{Err: client.ErrChanged, Text: "Look at it again: tgctl undo " + approval.ID(id)},
		ui.Hint{Err: client.ErrProofWrong, Text: "Nothing was brought back; try again."},
		ui.Hint{Err: client.ErrLockedOut, Text: "Nothing was brought back. See: tgctl presence status"},
		ui.Hint{Err: client.ErrProofNeeded, Text: "Codes count once the passphrase was given; run it again with the passphrase."},
	)
}
