package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) toolsAcceptCmd() *cobra.Command {
	var asJSON bool
	var digest string
	var which pinChoice
	cmd := &cobra.Command{
		Use:   "accept SERVER[/TOOL]... [flags]",
		Short: "Accept definitions that wait",
		Long: `Accept the definition of a tool that waits, or all that wait of a server. From
then on it is the one that later ones are compared with. What was accepted is
printed. An agent sees the tool when it lists them the next time.`,
		Example: `  $ tgctl tools accept files/read_file
  $ tgctl tools accept files/read_file --definition 1f2e3d4c
  $ tgctl tools accept files`,
		Args:              atLeastOne("SERVER/TOOL"),
		ValidArgsFunction: a.completeWaiting,
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := hex.DecodeString(strings.ToLower(digest))
			if err != nil || len(want) < 4 && digest != "" {
				return &usageError{err: fmt.Errorf("--definition %q: give at least 8 hexadecimal digits, an even number of them", digest), path: cmd.CommandPath()}
			}
			if digest != "" && len(args) > 1 {
				return &usageError{err: errors.New("--definition is for one tool"), path: cmd.CommandPath()}
			}
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			pins, err := waitingPins(cmd.Context(), c, args, &which)
			if err != nil {
				return err
			}
			if digest != "" && (len(pins) != 1 || !bytes.HasPrefix(pins[0].GetWaiting(), want)) {
				return toolFailure(fmt.Errorf("%s: another definition waits: %w", args[0], client.ErrChanged))
			}
			return a.acceptTools(cmd.Context(), c, pins, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON, &pb.Pin{})
	cmd.Flags().StringVar(&digest, "definition", "", "accept it only if its digest begins with `HEX`, as diff printed it")
	which.flags(cmd)
	return cmd
}

// waitingPins returns what waits of what args name, each once.
func waitingPins(ctx context.Context, c *client.Client, args []string, which *pinChoice) ([]*pb.Pin, error) {
	all, err := c.ListPins(ctx, "")
	if err != nil {
		return nil, err
	}
	var chosen []*pb.Pin
	taken := map[*pb.Pin]bool{}
	for _, arg := range args {
		of, err := waitingOf(all, arg, which)
		if err != nil {
			return nil, err
		}
		for _, p := range of {
			if !taken[p] {
				taken[p] = true
				chosen = append(chosen, p)
			}
		}
	}
	return chosen, nil
}

// waitingOf returns what waits of a server, or of what SERVER/TOOL names.
func waitingOf(all []*pb.Pin, arg string, which *pinChoice) ([]*pb.Pin, error) {
	var named, server []*pb.Pin
	known := false
	for _, p := range all {
		if !which.matches(p) {
			continue
		}
		isServer := arg == p.GetRef().GetServer() || arg == string(display.Name(p.GetRef().GetServer()))
		isTool := arg == p.GetRef().GetServer()+"/"+p.GetRef().GetName() || arg == string(pinName(p))
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
		return nil, ambiguous(arg, named)
	case len(named) == 1 && len(server) > 0:
		return nil, fmt.Errorf("%s is the id of a server and the name of a tool of another", arg)
	case len(named) == 1:
		return named, nil
	case len(server) > 0:
		return server, nil
	case known:
		return nil, fmt.Errorf("%s: nothing of it waits", arg)
	}
	return nil, &hintError{err: fmt.Errorf("%s: %w", arg, client.ErrNotFound), hint: "See what waits: tgctl tools --waiting"}
}

// acceptTools accepts pins as they were read: the digests go back with the word,
// and the daemon refuses when something else waits by then.
func (a *app) acceptTools(ctx context.Context, c *client.Client, pins []*pb.Pin, asJSON bool) error {
	req := &pb.AcceptPinsRequest{Surface: a.surface()}
	short := make([]display.Safe, len(pins))
	for i, p := range pins {
		req.Pins = append(req.Pins, &pb.PinAcceptance{Ref: p.GetRef(), Definition: p.GetWaiting()})
		if !asJSON {
			d, err := c.DiffPin(ctx, p.GetRef())
			if err != nil {
				return err
			}
			short[i] = changesInShort(d)
		}
	}
	accepted, err := c.AcceptPins(ctx, req)
	if err != nil {
		return toolFailure(err)
	}
	for i, p := range accepted {
		if asJSON {
			err = a.printJSON(p)
		} else {
			line := "accepted " + pinName(p) + short[min(i, len(short)-1)]
			room := 0
			if w := a.width(); w > 0 {
				room = max(w-2, 20)
			}
			_, err = fmt.Fprintln(a.out, strings.Join(texts(display.Wrap(line, room)), "\n  "))
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		a.say("Agents get to see it when they list the tools again. A later change waits again.")
	}
	return nil
}

func texts(lines []display.Safe) []string {
	all := make([]string, len(lines))
	for i, line := range lines {
		all[i] = string(line)
	}
	return all
}

// changesInShort says where a definition changed and how much that can do.
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

// completeTools offers what was seen to the shell, what waits first.
func (a *app) completeTools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completePins(cmd, args, func(*pb.Pin) bool { return true })
}

// completeWaiting offers what waits.
func (a *app) completeWaiting(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completePins(cmd, args, waits)
}

func (a *app) completePins(cmd *cobra.Command, _ []string, offer func(*pb.Pin) bool) ([]string, cobra.ShellCompDirective) {
	return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		pins, err := c.ListPins(ctx, "")
		for _, p := range pins {
			if offer(p) {
				about := display.Safe("accepted")
				if waits(p) {
					about = reasonText(p)
				}
				names = append(names, cobra.CompletionWithDesc(string(pinName(p)), string(about)))
			}
		}
		return names, err
	})
}
