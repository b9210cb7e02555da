package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// writer is beside a line of standard error who has written it.
type writer struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	ID   string `json:"id"`
}

// which is how a person names one program that the daemon keeps.
type which struct {
	name, kind, id string
}

func (w *which) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.kind, "kind", "", "of several of that name, the `KIND`: backend, extension, agent")
	cmd.Flags().StringVar(&w.id, "id", "", "of several of that kind and name, the one with `ID`")
}

func (a *app) logsCmd() *cobra.Command {
	w := &which{}
	cmd := a.logsOf(w)
	cmd.Short = "Show what a backend, an extension or an agent wrote to stderr"
	cmd.Long = `Show what a program that the daemon keeps wrote to its standard error: a server
that sessions share, an extension, or the run of a headless agent. The last
1,000 lines or 64 KiB are held, over restarts of the program, until the daemon
ends.

What a server behind a shim of its own writes goes to its agent, and stands in
that agent's log.`
	cmd.Example = `  $ tgctl logs scrubber
  $ tgctl logs notes -f
  $ tgctl logs notes --json | jq -r .text`
	cmd.ValidArgsFunction = a.completeKept
	w.flags(cmd)
	return cmd
}

// logsOf is a verb that shows the standard error of what w and its argument name.
func (a *app) logsOf(w *which) *cobra.Command {
	var follow, asJSON bool
	var lines uint32
	cmd := &cobra.Command{
		Use:  "logs NAME [flags]",
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.name = args[0]
			return a.logs(cmd.Context(), *w, lines, follow, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON, pbjson.Object{Message: &pb.LogLine{}, More: writer{}})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "then show each line as it comes, until interrupted")
	cmd.Flags().Uint32VarP(&lines, "limit", "n", 0, "begin with the newest `N` lines; 0 for all that are held")
	return cmd
}

func (a *app) logs(ctx context.Context, w which, lines uint32, follow, asJSON bool) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := a.oneKept(ctx, c, w)
	if err != nil {
		return err
	}
	number := uint64(0)
	for line, err := range c.Logs(ctx, &pb.LogsRequest{Kind: p.GetKind(), Name: p.GetName(), Id: p.GetId(), Last: lines, Follow: follow}) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // interrupted: that is how it ends
		case err != nil:
			return logsEnd(p, err)
		}
		if gap := line.GetNumber() - number - 1; number > 0 && line.GetNumber() > number+1 && !asJSON {
			a.say("(%s not held any more)", plural(gap, "line is", "lines are"))
		}
		number = line.GetNumber()
		if err := a.printLog(p, line, asJSON); err != nil {
			return err
		}
	}
	if number == 0 && !asJSON {
		a.say("%s has written nothing.", display.Name(p.GetName()))
	}
	return nil
}

func (a *app) printLog(p *pb.Process, line *pb.LogLine, asJSON bool) error {
	if asJSON {
		return a.printJSON(pbjson.Object{Message: line, More: writer{p.GetKind(), p.GetName(), p.GetId()}})
	}
	text := line.GetText() // the daemon has escaped it
	if a.outTerminal {
		text = string(display.Text(strings.ReplaceAll(text, "\t", "    ")))
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", shortTime(line.GetTime().AsTime(), a.now()), text)
	return err
}

// logsEnd says why there will be no more lines.
func logsEnd(p *pb.Process, err error) error {
	switch {
	case errors.Is(err, client.ErrNotRunning):
		return &hintError{
			err:  fmt.Errorf("the daemon has ended, and %s with it: %w", p.GetName(), err),
			hint: "The lines that were held are gone; a new daemon begins anew.",
		}
	case errors.Is(err, client.ErrNotFound):
		return fmt.Errorf("%s has gone: %w", p.GetName(), err)
	}
	return err
}

// oneKept finds the program that a person means among those that the daemon keeps.
func (a *app) oneKept(ctx context.Context, c *client.Client, w which) (*pb.Process, error) {
	all, err := c.ListProcesses(ctx)
	if err != nil {
		return nil, err
	}
	var found []*pb.Process
	var own *pb.Process
	for _, p := range all {
		switch {
		case p.GetName() != w.name && string(display.Name(p.GetName())) != w.name:
		case p.GetKind() == kindClient:
		case p.GetKind() == kindServer:
			own = p
		case (w.kind == "" || p.GetKind() == w.kind) && (w.id == "" || p.GetId() == w.id):
			found = append(found, p)
		}
	}
	switch {
	case len(found) > 1:
		return nil, severalKept(w.name, found)
	case len(found) == 1:
		return found[0], nil
	case own != nil:
		return nil, notKept(own)
	}
	return nil, &hintError{err: fmt.Errorf("%s: nothing that the daemon keeps has that name: %w", w.name, client.ErrNotFound), hint: "See what there is: tgctl ps"}
}

// severalKept says what a person could have meant.
func severalKept(name string, found []*pb.Process) error {
	hint := "Say which one is meant:"
	for _, p := range found {
		hint += "\n  --kind " + p.GetKind()
		if p.GetId() != "" {
			hint += " --id " + p.GetId()
		}
		hint += "  " + p.GetState()
		if p.GetKind() == kindBackend {
			hint += ", " + string(whoFor(p))
		}
		hint += ", " + strings.Join(p.GetCommand(), " ")
	}
	return &hintError{err: fmt.Errorf("%s could be any of %d", name, len(found)), hint: hint}
}

// notKept says of a server behind a shim whose it is.
func notKept(p *pb.Process) error {
	agent := p.GetAgent()
	if agent == "" {
		agent = "its agent"
	}
	hint := "What it writes to stderr goes to " + agent + ", which also starts and ends it."
	if where := agentLogs[p.GetAgent()]; where != "" {
		hint += "\nIts lines are " + where + "."
	}
	return &hintError{err: fmt.Errorf("%s is a server of its own behind tg-shim, and not the daemon's", p.GetServer()), hint: hint}
}

// agentLogs says where agents show what their servers write to stderr.
var agentLogs = map[string]string{
	"claude-code":    "in what `claude --debug` prints",
	"claude-desktop": "in the files mcp-server-NAME.log of its folder for logs",
	"cursor":         "under \"MCP Logs\" of its Output panel",
	"vscode":         "under \"MCP: List Servers\", \"Show Output\"",
}

// completeKept offers the names of what the daemon keeps.
func (a *app) completeKept(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		all, err := c.ListProcesses(ctx)
		for _, p := range all {
			if !isShim(p) {
				names = append(names, cobra.CompletionWithDesc(string(display.Name(p.GetName())), p.GetKind()+", "+p.GetState()))
			}
		}
		return names, err
	})
}
