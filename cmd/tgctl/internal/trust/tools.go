// Package trust has the commands of tgctl for what a person accepts of servers: the definitions of their
// tools, new servers, and what a server of a project runs.
package trust

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what these commands use.
type app struct{ *connect.App }

// ToolsCommand returns the command tools.
func ToolsCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.ListGroup("tools", "List the tools of servers, accept changed definitions",
		a.toolsListCmd(), a.toolsDiffCmd(), a.toolsAcceptCmd())
	cmd.Long = `The definition of a tool is stored when it is first seen. If it changes later,
or is suspicious from the start, the tool is withheld from agents until you
accept it. Without a command, tools lists them all.`
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
		Short: "List the tools of servers",
		Long: `List the tools, prompts and resource templates of servers, and which of them are
waiting for you, with the reason.`,
		Example: `  $ tgctl tools list --waiting
  $ tgctl tools list --server files --json | jq -r 'select(.held) | .ref.name'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.listTools(ctx, c, server, waiting)
		}),
	}
	cmd.Flags().StringVar(&server, "server", "", "list only those of `SERVER`")
	cmd.Flags().BoolVar(&waiting, "waiting", false, "list only those that are waiting for you")
	_ = cmd.RegisterFlagCompletionFunc("server", a.completeServers(func(*pb.Server) bool { return true })) // fails only for an unknown flag
	return a.WithJSON(cmd, &pb.Pin{})
}

// noneListed is said where no server is known.
const noneListed = "No server has listed its tools yet. A server does so when its agent first runs: tgctl wrap -- COMMAND"

func (a *app) listTools(ctx context.Context, c *client.Client, server string, waiting bool) error {
	pins, err := c.ListPins(ctx, server)
	if err != nil {
		return err
	}
	none := noneListed
	switch {
	case waiting && len(pins) > 0:
		none = "No definition is waiting; all are accepted."
	case server != "":
		none = "The server " + string(display.Name(server)) + " has not listed its tools yet."
	}
	if server != "" && len(pins) == 0 {
		if err := isKnown(ctx, c, server); err != nil {
			return err
		}
	}
	if waiting {
		pins = ui.Filter(pins, waits)
	}
	return ui.PrintList(a, pins, nil, none, a.toolsTable)
}

// isKnown checks that the daemon has seen a server with the id.
func isKnown(ctx context.Context, c *client.Client, id string) error {
	servers, err := c.ListServers(ctx)
	if err != nil {
		return err
	}
	known := ui.Unique(ui.Map(servers, (*pb.Server).GetId))
	if len(known) == 0 || slices.Contains(known, id) { // with none, no server has listed anything yet
		return nil
	}
	return &ui.UnknownError{What: "server", Name: id, Known: known}
}

// toolsTable lists pins. Below each that waits is the reason.
func (a *app) toolsTable(pins []*pb.Pin) *display.Table {
	several := severalLaunches(pins)
	t := &display.Table{Columns: []display.Column{{Head: "SERVER", Shrink: 8}}}
	if several {
		t.Columns = append(t.Columns, display.Column{Head: "LAUNCH"})
	}
	t.Columns = append(t.Columns, display.Column{Head: "TOOL", Shrink: 12}, display.Column{Head: "STATE", Tone: ui.ToneOf}, display.Column{Head: "AGE", Right: true})
	for _, p := range pins {
		row := []display.Safe{display.Name(p.GetRef().GetServer())}
		if several {
			row = append(row, ui.ShortDigest(p.GetRef().GetLaunch()))
		}
		name := display.Name(p.GetRef().GetName()) + ui.Choose(pinKind(p) != "tool", " ("+display.Safe(pinKind(p))+")", "")
		state, since := display.Safe("accepted"), p.GetSince()
		if waits(p) {
			state, since = ui.Choose(p.GetHeld(), "waiting", "shown"), cmp.Or(p.GetNoticed(), since)
		}
		t.Add(append(row, name, state, a.Age(since))...)
		t.Note(ui.Choose(waits(p), reasonText(p)+"; see: tgctl tools diff "+shellName(p), ""))
		for _, s := range p.GetSuspicions() {
			t.NoteIn(display.Warn, suspicionText(s))
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

// reasonTexts say why a definition waits.
var reasonTexts = map[pb.PinReason]display.Safe{
	pb.PinReason_PIN_REASON_CHANGED:    "it differs from the accepted definition",
	pb.PinReason_PIN_REASON_LOOK_ALIKE: "its name looks like another one's",
	pb.PinReason_PIN_REASON_NEW_SERVER: "its server was started by a new command",
}

// reasonText says why a definition waits.
func reasonText(p *pb.Pin) display.Safe {
	return cmp.Or(reasonTexts[p.GetReason()], "review it before a model sees it")
}

// suspicionText says what is suspicious about a definition.
func suspicionText(s *pb.Suspicion) display.Safe {
	return display.Text(s.GetWhat()) + ui.Choose(s.GetQuote() != "", ": \""+display.Text(s.GetQuote())+"\"", "") +
		ui.Choose(s.GetWhere() != "", ", in "+display.Name(s.GetWhere()), "")
}

// shellName returns the name of a pin, quoted for a shell if necessary.
func shellName(p *pb.Pin) display.Safe { return ui.ShellWord(pinName(p)) }

// ToolsTable lists definitions as the command tools does.
func ToolsTable(c *connect.App, pins []*pb.Pin) *display.Table { return (&app{c}).toolsTable(pins) }
