package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// writer identifies the program that wrote a line of standard error.
type writer struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	ID   string `json:"id"`
}

// programSelector selects one program that the daemon runs.
type programSelector struct {
	name, kind, id string
}

// kinds are the kinds of programs that the daemon runs.
var kinds = []string{KindBackend, KindExtension, KindAgent}

func (w *programSelector) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.kind, "kind", "", "among several of that name, the one of `KIND`: backend, extension, agent")
	ui.CompleteFlag(cmd, "kind", ui.OneOf(kinds...))
	cmd.Flags().StringVar(&w.id, "id", "", "among several of that kind and name, the one with `ID`")
}

// LogsCommand returns the command logs.
func LogsCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	w := &programSelector{}
	cmd := a.logsOf(w)
	cmd.Short = "Show the stderr of a shared server, extension or headless agent"
	cmd.Long = `Show the standard error of a program that the daemon runs: a shared server, an
extension, or a headless agent. The last 1,000 lines or 64 KiB are kept across
restarts of the program, until the daemon ends.

The standard error of a server behind its own tg-shim goes to its agent; see
that agent's log.`
	cmd.Example = `  $ tgctl logs scrubber
  $ tgctl logs notes -f
  $ tgctl logs notes --json | jq -r .text`
	cmd.ValidArgsFunction = a.completeKept()
	w.flags(cmd)
	return cmd
}

// ExtensionLogsCommand returns the command that shows the standard error of an extension.
func ExtensionLogsCommand(c *connect.App) *cobra.Command {
	return (&app{c}).logsOf(&programSelector{kind: KindExtension})
}

// logsOf returns a command that shows the standard error of the program selected by w and
// its argument.
func (a *app) logsOf(w *programSelector) *cobra.Command {
	var follow bool
	var lines uint32
	cmd := &cobra.Command{
		Use:  "logs NAME [flags]",
		Args: ui.Exactly("NAME"),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			w.name = args[0]
			return a.logs(ctx, c, w, lines, follow)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "then print each new line, until interrupted")
	cmd.Flags().Uint32VarP(&lines, "limit", "n", 0, "begin with the newest `N` lines; 0 for all that are kept")
	return a.WithJSON(cmd, pbjson.Object{Message: &pb.LogLine{}, More: writer{}})
}

func (a *app) logs(ctx context.Context, c *client.Client, w *programSelector, lines uint32, follow bool) error {
	p, err := findProgram(ctx, c, w)
	if err != nil {
		return err
	}
	number := uint64(0)
	for line, err := range c.Logs(ctx, &pb.LogsRequest{Kind: p.GetKind(), Name: p.GetName(), Id: p.GetId(), Last: lines, Follow: follow}) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // interrupted: the usual way to end it
		case err != nil:
			return logsEnd(p, err)
		}
		if gap := line.GetNumber() - number - 1; number > 0 && line.GetNumber() > number+1 && !a.AsJSON {
			a.PrintMessage("(%s no longer kept)", ui.Plural(gap, "line is", "lines are"))
		}
		number = line.GetNumber()
		if err := a.printLog(p, line); err != nil {
			return err
		}
	}
	if number == 0 && !a.AsJSON {
		a.PrintMessage("%s has written nothing.", display.Name(p.GetName()))
	}
	return nil
}

func (a *app) printLog(p *pb.Process, line *pb.LogLine) error {
	if a.AsJSON {
		return a.PrintJSON(pbjson.Object{Message: line, More: writer{p.GetKind(), p.GetName(), p.GetId()}})
	}
	text := line.GetText() // the daemon has escaped it
	if a.OutTerminal {
		text = string(display.Text(strings.ReplaceAll(text, "\t", "    ")))
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", ui.ShortTime(line.GetTime().AsTime(), a.Now()), text)
	return err
}

// logsEnd explains why there will be no more lines.
func logsEnd(p *pb.Process, err error) error {
	switch {
	case errors.Is(err, client.ErrNotRunning):
		return &ui.HintError{Err: fmt.Errorf("the daemon has ended, and %s with it: %w", p.GetName(), err),
			Hint: "The lines kept so far are lost; a new daemon starts without them."}
	case errors.Is(err, client.ErrNotFound):
		return fmt.Errorf("%s has ended: %w", p.GetName(), err)
	}
	return err
}

// findProgram finds the program that w selects among those that the daemon runs.
func findProgram(ctx context.Context, c *client.Client, w *programSelector) (*pb.Process, error) {
	all, err := c.ListProcesses(ctx)
	if err != nil {
		return nil, err
	}
	var found []*pb.Process
	var own *pb.Process
	for _, p := range all {
		switch {
		case !ui.IsTyped(p.GetName(), w.name):
		case p.GetKind() == kindClient:
		case p.GetKind() == kindServer:
			own = p
		case (w.kind == "" || p.GetKind() == w.kind) && (w.id == "" || p.GetId() == w.id):
			found = append(found, p)
		}
	}
	switch {
	case len(found) > 1:
		return nil, ui.Ambiguous(w.name, "", ui.Map(found, programFlags))
	case len(found) == 1:
		return found[0], nil
	case own != nil:
		return nil, errNotOurProgram(own)
	}
	return nil, &ui.HintError{Err: fmt.Errorf("%s: the daemon runs no program of that name: %w", w.name, client.ErrNotFound), Hint: "List the programs: tgctl ps"}
}

// programFlags returns the flags that select p among programs of the same name, and a
// description.
func programFlags(p *pb.Process) string {
	flags := "--kind " + p.GetKind()
	if p.GetId() != "" {
		flags += " --id " + p.GetId()
	}
	flags += "  " + p.GetState()
	if p.GetKind() == KindBackend {
		flags += ", " + string(whoFor(p))
	}
	return flags + ", " + strings.Join(p.GetCommand(), " ")
}

// errNotOurProgram returns the error for a server behind tg-shim, whose standard error goes to its
// agent.
func errNotOurProgram(p *pb.Process) error {
	hint := "Its stderr goes to " + cmp.Or(p.GetAgent(), "its agent") + ", which also starts and ends it."
	if where := agentLogs[p.GetAgent()]; where != "" {
		hint += "\nLook for it " + where + "."
	}
	return &ui.HintError{Err: fmt.Errorf("the agent, not the daemon, runs the server %s behind tg-shim", p.GetServer()), Hint: hint}
}

// agentLogs describes where agents show what their servers write to stderr.
var agentLogs = map[string]string{
	"claude-code":    "in the output of `claude --debug`",
	"claude-desktop": "in mcp-server-NAME.log in its folder for logs",
	"cursor":         "under \"MCP Logs\" in its Output panel",
	"vscode":         "under \"MCP: List Servers\", \"Show Output\"",
}

// completeKept completes the names of the programs that the daemon runs.
func (a *app) completeKept() cobra.CompletionFunc {
	return connect.FirstAlone(connect.Listed(a.App, (*client.Client).ListProcesses, func(p *pb.Process) string {
		if IsShim(p) {
			return ""
		}
		return connect.Described(p.GetName(), display.Name(p.GetKind())+", "+display.Name(p.GetState()))
	}))
}
