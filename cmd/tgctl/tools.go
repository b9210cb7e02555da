package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) toolsCmd() *cobra.Command {
	cmd := listGroup("tools", "See what servers say of their tools, accept what changed",
		a.toolsListCmd(), a.toolsDiffCmd(), a.toolsAcceptCmd())
	cmd.Long = `What a server says of a tool is remembered when it is first seen. When it says
something else later, or something odd at once, the tool is withheld from
agents until you have looked at it. Without a command, tools lists them all.`
	cmd.Example = `  $ tgctl tools
  $ tgctl tools diff files/read_file
  $ tgctl tools accept files/read_file`
	return cmd
}

// pinKind returns the kind of a definition: tool, prompt or template.
func pinKind(p *pb.Pin) string { return pbjson.Word(p.GetRef().GetKind()) }

func waits(p *pb.Pin) bool { return p.GetReason() != pb.PinReason_PIN_REASON_UNSPECIFIED }

// pinName returns the name of a definition, as commands accept it.
func pinName(p *pb.Pin) display.Safe {
	return display.Name(p.GetRef().GetServer()) + "/" + display.Name(p.GetRef().GetName())
}

func (a *app) toolsListCmd() *cobra.Command {
	var waiting bool
	var server string
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the tools that servers have shown",
		Long: `List the tools, prompts and resource templates that servers have shown, and
which of them wait for you, with the reason.`,
		Example: `  $ tgctl tools list --waiting
  $ tgctl tools list --server files --json | jq -r 'select(.held) | .ref.name'`,
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.listTools(ctx, c, server, waiting)
		}),
	}
	jsonFlag(cmd, &a.asJSON, &pb.Pin{})
	cmd.Flags().StringVar(&server, "server", "", "only those of `SERVER`")
	cmd.Flags().BoolVar(&waiting, "waiting", false, "only those that wait for you")
	_ = cmd.RegisterFlagCompletionFunc("server", a.completeServers(func(*pb.Server) bool { return true })) // fails only for an unknown flag
	return cmd
}

func (a *app) listTools(ctx context.Context, c *client.Client, server string, waiting bool) error {
	pins, err := c.ListPins(ctx, server)
	if err != nil {
		return err
	}
	none := "No server's list was seen yet."
	switch {
	case waiting && len(pins) > 0:
		none = "Nothing waits: every definition is the one that was accepted."
	case server != "":
		none = "No list of the server " + string(display.Name(server)) + " was seen yet."
	}
	if waiting {
		pins = filter(pins, waits)
	}
	return printList(a, pins, nil, none, a.toolsTable)
}

// toolsTable lists pins. Below each that waits is the reason.
func (a *app) toolsTable(pins []*pb.Pin) *display.Table {
	several := severalLaunches(pins)
	t := &display.Table{Columns: []display.Column{{Head: "SERVER", Shrink: 8}}}
	if several {
		t.Columns = append(t.Columns, display.Column{Head: "LAUNCH"})
	}
	t.Columns = append(t.Columns, display.Column{Head: "TOOL", Shrink: 12}, display.Column{Head: "STATE"}, display.Column{Head: "FOR", Right: true})
	for _, p := range pins {
		row := []display.Safe{display.Name(p.GetRef().GetServer())}
		if several {
			row = append(row, shortDigest(p.GetRef().GetLaunch()))
		}
		name := display.Name(p.GetRef().GetName()) + choose(pinKind(p) != "tool", " ("+display.Safe(pinKind(p))+")", "")
		state, since := display.Safe("accepted"), p.GetSince()
		if waits(p) {
			state, since = choose(p.GetHeld(), "waits", "let through"), cmp.Or(p.GetNoticed(), since)
		}
		t.Add(append(row, name, state, display.Span(a.now().Sub(since.AsTime())))...)
		t.Note(choose(waits(p), reasonText(p)+"; see: tgctl tools diff "+shellName(p), ""))
		for _, s := range p.GetSmells() {
			t.Note(smellText(s))
		}
	}
	return t
}

// severalLaunches reports whether two servers in pins have the same id.
func severalLaunches(pins []*pb.Pin) bool {
	launches := map[string]string{}
	for _, p := range pins {
		r := p.GetRef()
		if launch, ok := launches[r.GetServer()]; ok && launch != r.GetLaunch() {
			return true
		}
		launches[r.GetServer()] = r.GetLaunch()
	}
	return false
}

// shortDigest returns the first 8 digits of a digest; commands accept them.
func shortDigest(hex string) display.Safe { return display.Name(hex[:min(len(hex), 8)]) }

// reasonText says why a definition waits.
func reasonText(p *pb.Pin) display.Safe {
	switch p.GetReason() {
	case pb.PinReason_PIN_REASON_CHANGED:
		return "it is not what was accepted"
	case pb.PinReason_PIN_REASON_LOOK_ALIKE:
		return "its name looks like that of another one"
	case pb.PinReason_PIN_REASON_STRANGER:
		return "its server was started by another command than the one known"
	}
	return "look at it before a model does"
}

// smellText says what is suspicious about a definition.
func smellText(s *pb.Smell) display.Safe {
	return display.Text(s.GetWhat()) + choose(s.GetQuote() != "", ": \""+display.Text(s.GetQuote())+"\"", "") +
		choose(s.GetWhere() != "", ", in "+display.Name(s.GetWhere()), "")
}

// shellName returns the name of a pin, quoted for a shell if necessary.
func shellName(p *pb.Pin) display.Safe { return shellWord(pinName(p)) }

// shellWord quotes s if a shell would not read it as one plain word. A name with escaped
// characters cannot be typed, but it can be completed.
func shellWord(s display.Safe) display.Safe {
	if strings.ContainsFunc(string(s), func(r rune) bool {
		return !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:@%+,", r))
	}) {
		return quoted(s)
	}
	return s
}

// quoted puts s into single quotes for a shell.
func quoted(s display.Safe) display.Safe {
	return "'" + display.Safe(strings.ReplaceAll(string(s), "'", `'\''`)) + "'"
}
