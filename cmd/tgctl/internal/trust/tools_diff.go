package trust

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// pinChoice selects among several pins of the same name.
type pinChoice struct {
	kind   string
	launch string // a prefix in hex
}

func (p *pinChoice) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.kind, "kind", "", "only those of `KIND`: tool, prompt or template")
	ui.CompleteFlag(cmd, "kind", ui.OneOf("tool", "prompt", "template"))
	cmd.Flags().StringVar(&p.launch, "launch", "", "only those of the server whose launch begins with `HEX`")
}

// matches reports whether the choice includes pin.
func (p *pinChoice) matches(pin *pb.Pin) bool {
	return (p.kind == "" || p.kind == pinKind(pin)) && strings.HasPrefix(pin.GetRef().GetLaunch(), strings.ToLower(p.launch))
}

func changeGrade(c *pb.PinChange) display.Safe { return display.Safe(pbjson.Word(c.GetGrade())) }

func (a *app) toolsDiffCmd() *cobra.Command {
	var which pinChoice
	cmd := &cobra.Command{
		Use:   "diff SERVER/TOOL [flags]",
		Short: "Show what changed in the definition of a tool",
		Long: `Show the differences between the accepted and the waiting definition, or the
whole definition if there is nothing to compare. A change marked high affects
what a model sees or what a call carries; one marked low, how people see it.
Control and invisible characters are printed as their numbers.`,
		Example: `  $ tgctl tools diff files/read_file
  $ tgctl tools diff files/read_file --json | jq -r .after`,
		Args:              ui.Exactly("SERVER/TOOL"),
		ValidArgsFunction: a.completePins(func(*pb.Pin) bool { return true }),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := onePin(ctx, c, args[0], &which)
			if err != nil {
				return err
			}
			d, err := c.DiffPin(ctx, p.GetRef())
			if err != nil {
				return err
			}
			if a.AsJSON {
				return a.PrintJSON(d)
			}
			return a.showDiff(d)
		}),
	}
	which.flags(cmd)
	return a.WithJSON(cmd, &pb.PinDiff{})
}

// onePin returns the pin named SERVER/TOOL. If there are several, it returns the one that
// waits.
func onePin(ctx context.Context, c *client.Client, name string, which *pinChoice) (*pb.Pin, error) {
	pins, err := c.ListPins(ctx, "")
	if err != nil {
		return nil, err
	}
	// There can be several, because a server's id may contain slashes.
	found := ui.Filter(pins, func(p *pb.Pin) bool { return isPinTyped(p, name) && which.matches(p) })
	if waiting := ui.Filter(found, waits); len(waiting) > 0 {
		found = waiting
	}
	switch len(found) {
	case 0:
		return nil, &ui.HintError{Err: fmt.Errorf("%s: %w", name, client.ErrNotFound), Hint: "List the tools: tgctl tools"}
	case 1:
		return found[0], nil
	}
	return nil, severalPins(name, found)
}

// severalPins returns an error that says how to name one of several pins.
func severalPins(name string, pins []*pb.Pin) error {
	return ui.Ambiguous(name, "", ui.Map(pins, func(p *pb.Pin) string {
		return fmt.Sprintf("--kind %s --launch %s", pinKind(p), ui.ShortDigest(p.GetRef().GetLaunch()))
	}))
}

// isPinTyped reports whether text, typed by a person, is the SERVER/TOOL of p or its displayed
// form.
func isPinTyped(p *pb.Pin, text string) bool {
	return text == p.GetRef().GetServer()+"/"+p.GetRef().GetName() || text == string(pinName(p))
}

func (a *app) showDiff(d *pb.PinDiff) error {
	p := d.GetPin()
	s := &ui.Sheet{}
	s.Add(pinKind(p), pinName(p))
	s.Add("state", ui.Choose(waits(p), "waiting for you: "+reasonText(p)+ui.Choose(p.GetHeld(), "", "; agents see it meanwhile"), "accepted"))
	s.Add("suspicious", ui.Map(p.GetSuspicions(), suspicionText)...)
	by := ui.Choose(p.GetDecider() != "", ", by "+display.Text(p.GetDecider()), ", at first sight")
	s.Add("accepted", ui.Choose(p.GetSince() != nil, a.Moment(p.GetSince())+by, ""))
	s.Add("noticed", a.Moment(p.GetNoticed()))
	s.Add("launch", display.Name(p.GetRef().GetLaunch()))
	s.Add("digest", display.Safe(cmp.Or(hex.EncodeToString(p.GetWaiting()), hex.EncodeToString(p.GetAccepted()))))
	if err := a.PrintSheet(s); err != nil {
		return err
	}
	var b strings.Builder
	a.writeChanges(&b, d)
	if _, err := a.Out.Write([]byte(b.String())); err != nil {
		return err
	}
	if waits(p) {
		a.PrintMessage("\nTo accept it: tgctl tools accept %s --definition %s", shellName(p), ui.ShortDigest(hex.EncodeToString(p.GetWaiting())))
	}
	return nil
}

// writeChanges writes the differences, or the whole definition if there is nothing to compare
// with.
func (a *app) writeChanges(b *strings.Builder, d *pb.PinDiff) {
	for _, c := range d.GetChanges() {
		fmt.Fprintf(b, "\n%-4s  %s%s\n", changeGrade(c), display.Name(c.GetPath()), ui.Spaced(ui.Parens(display.Text(c.GetNote()))))
		before, after := textOf(c.GetBefore()), textOf(c.GetAfter())
		if before != nil && after != nil {
			a.writeTexts(b, *before, *after)
			continue
		}
		a.writeValue(b, "-", c.GetBefore())
		a.writeValue(b, "+", c.GetAfter())
	}
	if len(d.GetChanges()) > 0 {
		return
	}
	whole, sign := d.GetAfter(), "+"
	if whole == nil {
		whole, sign = d.GetBefore(), " "
	}
	if whole == nil {
		b.WriteString("\nThe definition is too long to be stored, so it can't be shown.\n")
		return
	}
	fmt.Fprintf(b, "\n%s\n", ui.Plural(len(whole), "byte", "bytes"))
	a.writeValue(b, sign, whole)
}

var toolHints = []ui.Hint{
	{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot accept. Use another terminal."},
	{Err: client.ErrChanged, Text: "It changed again. Review it: tgctl tools --waiting"},
}
