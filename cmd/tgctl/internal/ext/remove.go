package ext

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// removedJSON is what `ext remove --json` prints.
type removedJSON struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Records uint32 `json:"kept_records"` // left in its memory
	Values  uint32 `json:"kept_values"`  // left of its configuration
}

func (a *app) removeCmd() *cobra.Command {
	var yes, purge bool
	cmd := &cobra.Command{
		Use:   "remove NAME [flags]",
		Short: "Stop and remove an extension",
		Long: `Stop an extension and remove its folder. Calls that it saw are judged without it
from then on. Its memory and its configuration are kept for another version,
unless --purge removes them too.

Asks first, unless --yes is given. Agents and the processes they start cannot
remove extensions.`,
		Example: `  $ tgctl ext remove scrubber
  $ tgctl ext remove scrubber --purge --yes`,
		Args:              ui.Exactly("NAME"),
		ValidArgsFunction: a.completeExtensions(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if !yes && !(a.InTerminal && a.ErrTerminal) {
				return ui.NoTerminal("ext remove", "Agree with --yes.")
			}
			c, err := a.Dial(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			e, err := c.GetExtension(ctx, args[0])
			if err != nil {
				return ui.WithHint(err, hints...)
			}
			if !yes {
				if err := a.agreeToRemove(ctx, e, purge); err != nil {
					return err
				}
			}
			return a.removeExtension(ctx, c, e, purge)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove its memory and its configuration")
	return a.WithJSON(cmd, removedJSON{})
}

// agreeToRemove prints what will be lost and asks.
func (a *app) agreeToRemove(ctx context.Context, e *pb.Extension, purge bool) error {
	m := e.GetManifest()
	if m.GetBefore() != nil {
		a.PrintMessage("%s sees %s. They will be judged without it.", display.Name(m.GetName()), hookWord(m.GetBefore()))
	}
	if m.GetAfter() != nil {
		a.PrintMessage("%s sees the results of %s. They will be forwarded without it.", display.Name(m.GetName()), hookWord(m.GetAfter()))
	}
	if n := len(e.GetTools()); n > 0 {
		a.PrintMessage("%s will no longer be offered to agents.", ui.Plural(n, "tool", "tools"))
	}
	question := "Remove %s %s, and keep its memory?"
	if purge {
		question = "Remove %s %s, with its memory and configuration?"
	}
	return a.AskYes(ctx, fmt.Sprintf(question, display.Name(m.GetName()), display.Name(m.GetVersion())))
}

func (a *app) removeExtension(ctx context.Context, c *client.Client, e *pb.Extension, purge bool) error {
	m := e.GetManifest()
	kept, err := c.RemoveExtension(ctx, &pb.RemoveExtensionRequest{Name: m.GetName(), Purge: purge, Surface: a.Surface()})
	if err != nil {
		return ui.WithHint(err, hints...)
	}
	if a.AsJSON {
		return a.PrintJSON(removedJSON{Name: m.GetName(), Version: m.GetVersion(), Records: kept.GetRecords(), Values: kept.GetValues()})
	}
	if _, err := fmt.Fprintf(a.Out, "removed %s%s\n", display.Name(m.GetName()), ui.Spaced(display.Name(m.GetVersion()))); err != nil {
		return err
	}
	stays := ui.NonEmpty(ui.Some(kept.GetRecords(), "record", "records", " of its memory"), ui.Some(kept.GetValues(), "value", "values", " of its configuration"))
	if len(stays) > 0 {
		a.PrintMessage("Kept for another version: %s.", ui.Join(stays, ", "))
	}
	return nil
}
