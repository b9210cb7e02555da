package trust

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) toolsAcceptCmd() *cobra.Command {
	var digest string
	var which pinChoice
	cmd := &cobra.Command{
		Use:   "accept SERVER[/TOOL]... [flags]",
		Short: "Accept waiting definitions",
		Long: `Accept the waiting definition of a tool, or all waiting definitions of a server.
Later definitions are compared with it. What was accepted is printed. An agent
sees the tool when it next lists the server's tools.`,
		Example: `  $ tgctl tools accept files/read_file
  $ tgctl tools accept files/read_file --definition 1f2e3d4c
  $ tgctl tools accept files`,
		Args:              ui.AtLeastOne("SERVER/TOOL"),
		ValidArgsFunction: a.completePins(waits),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := hex.DecodeString(strings.ToLower(digest))
			if err != nil || len(want) < 4 && digest != "" {
				return ui.Misuse("--definition %q: give an even number of hexadecimal digits, at least 8", digest)
			}
			if digest != "" && len(args) > 1 {
				return ui.Misuse("--definition needs exactly one tool")
			}
			c, err := a.Dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			pins, err := waitingPins(cmd.Context(), c, args, &which)
			if err != nil {
				return err
			}
			if digest != "" && (len(pins) != 1 || !bytes.HasPrefix(pins[0].GetWaiting(), want)) {
				return ui.WithHint(fmt.Errorf("%s: another definition is waiting: %w", args[0], client.ErrChanged), toolHints...)
			}
			return a.acceptTools(cmd.Context(), c, pins)
		},
	}
	cmd.Flags().StringVar(&digest, "definition", "", "accept only the definition whose digest begins with `HEX`, as printed by diff")
	which.flags(cmd)
	return a.WithJSON(cmd, &pb.Pin{})
}

// waitingPins returns the waiting pins that args name, without duplicates.
func waitingPins(ctx context.Context, c *client.Client, args []string, which *pinChoice) ([]*pb.Pin, error) {
	all, err := c.ListPins(ctx, "")
	if err != nil {
		return nil, err
	}
	var chosen []*pb.Pin
	for _, arg := range args {
		of, err := waitingOf(all, arg, which)
		if err != nil {
			return nil, err
		}
		for _, p := range of {
			if !slices.Contains(chosen, p) {
				chosen = append(chosen, p)
			}
		}
	}
	return chosen, nil
}

// waitingOf returns the waiting pins of a server, or those that SERVER/TOOL names.
func waitingOf(all []*pb.Pin, arg string, which *pinChoice) ([]*pb.Pin, error) {
	var named, server []*pb.Pin
	known := false
	for _, p := range all {
		if !which.matches(p) {
			continue
		}
		isServer, isTool := ui.IsTyped(p.GetRef().GetServer(), arg), isPinTyped(p, arg)
		known = known || isServer || isTool
		switch {
		case !waits(p):
		case isTool:
			named = append(named, p)
		case isServer:
			server = append(server, p)
		}
	}
	switch {
	case len(named) > 1:
		return nil, severalPins(arg, named)
	case len(named) == 1 && len(server) > 0:
		return nil, fmt.Errorf("%s is both the id of a server and the name of another server's tool", arg)
	case len(named) == 1:
		return named, nil
	case len(server) > 0:
		return server, nil
	case known:
		return nil, fmt.Errorf("%s: no definition of it is waiting", arg)
	}
	return nil, &ui.HintError{Err: fmt.Errorf("%s: %w", arg, client.ErrNotFound), Hint: "List waiting definitions: tgctl tools --waiting"}
}

// acceptTools accepts pins as they were read. It sends their digests, and the daemon refuses if
// another definition waits by now.
func (a *app) acceptTools(ctx context.Context, c *client.Client, pins []*pb.Pin) error {
	req := &pb.AcceptPinsRequest{Surface: a.Surface()}
	short := make([]display.Safe, len(pins))
	for i, p := range pins {
		req.Pins = append(req.Pins, &pb.PinAcceptance{Ref: p.GetRef(), Definition: p.GetWaiting()})
		if !a.AsJSON {
			d, err := c.DiffPin(ctx, p.GetRef())
			if err != nil {
				return err
			}
			short[i] = changesInShort(d)
		}
	}
	accepted, err := c.AcceptPins(ctx, req)
	if err != nil {
		return ui.WithHint(err, toolHints...)
	}
	for i, p := range accepted {
		if a.AsJSON {
			err = a.PrintJSON(p)
		} else {
			line := "accepted " + pinName(p) + short[min(i, len(short)-1)]
			err = a.PrintLines(ui.Hanging(line, a.Width(), 2))
		}
		if err != nil {
			return err
		}
	}
	if !a.AsJSON {
		a.PrintMessage("Agents see it when they next list the tools. A later change has to be accepted again.")
	}
	return nil
}

// changesInShort says where a definition changed, and how serious the changes are.
func changesInShort(d *pb.PinDiff) display.Safe {
	if len(d.GetChanges()) == 0 {
		return ""
	}
	grade := display.Safe("low")
	var paths []string
	for i, c := range d.GetChanges() {
		if changeGrade(c) == "high" {
			grade = "high"
		}
		if i < 5 && c.GetPath() != "" {
			paths = append(paths, string(display.Name(c.GetPath())))
		}
	}
	if more := len(d.GetChanges()) - len(paths); more > 0 && len(paths) > 0 {
		paths = append(paths, string(display.Count(more)+" more"))
	}
	return display.Safe(": " + string(grade) + " " + strings.Join(paths, ", "))
}

// completePins completes the names of the pins that offered accepts.
func (a *app) completePins(offered func(*pb.Pin) bool) cobra.CompletionFunc {
	return connect.Listed(a.App, allPins, func(p *pb.Pin) string {
		switch {
		case !offered(p):
			return ""
		case waits(p):
			return cobra.CompletionWithDesc(string(pinName(p)), string(reasonText(p)))
		}
		return cobra.CompletionWithDesc(string(pinName(p)), "accepted")
	})
}

func allPins(c *client.Client, ctx context.Context) ([]*pb.Pin, error) { return c.ListPins(ctx, "") }
