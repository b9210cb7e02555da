package wrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/trust"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// checkShipped has the daemon check the servers that come with the project, and asks the
// person about those that are not accepted. Without a terminal it does not ask; the servers are
// withheld and reported.
func (w *wrapping) checkShipped(ctx context.Context) error {
	var waiting []*pb.ServerStart
	for _, s := range w.plan.Shipped() {
		if s.ID == "" {
			continue // the plan has reported it; tg-shim starts nothing without a name
		}
		if s.Later != "" {
			w.message("server %s comes with this project, and what it runs is known only at its start (%s): it is withheld until you accept it then; see `tgctl servers`",
				display.Name(s.ID), display.Text(s.Later))
			continue
		}
		look := &pb.LookRequest{Server: s.ID, From: s.From, Cwd: s.Cwd, Command: s.Command, Sets: s.Sets}
		if s.Remote != nil {
			look.Remote = remoteServer(*s.Remote)
		}
		start, err := w.client.Look(ctx, look)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("inspect server %s of the project: %w", s.ID, err)
		}
		if err != nil {
			w.message("server %s comes with this project and is withheld, since it can't be inspected: %s", display.Name(s.ID), display.Text(err.Error()))
			continue
		}
		if start == nil && s.Remote == nil {
			w.message("server %s comes with this project, but its program %s was not found: it is withheld until the program exists and you accept it",
				display.Name(s.ID), display.Text(s.Command[0]))
		}
		again := slices.ContainsFunc(waiting, func(other *pb.ServerStart) bool {
			return other.GetServer() == start.GetServer() && slices.Equal(other.GetDigest(), start.GetDigest())
		})
		if start != nil && trust.IsWithheld(start) && !again {
			waiting = append(waiting, start)
		}
	}
	for _, s := range waiting {
		agreed, err := w.askToStart(ctx, s)
		if err != nil {
			return err
		}
		if !agreed {
			w.message("server %s is withheld: it comes with this project and has not been accepted; see `tgctl servers`; to accept it, run `%s`",
				display.Name(s.GetServer()), trust.AgreeCommand(s))
		}
	}
	return nil
}

// askToStart shows a start and asks whether to accept it.
func (w *wrapping) askToStart(ctx context.Context, s *pb.ServerStart) (bool, error) {
	if w.Surface() != "terminal" {
		return false, nil
	}
	w.message("server %s comes with this project and has not been accepted. It would %s:", display.Name(s.GetServer()), display.Safe(ui.Choose(s.GetRemote() != nil, "send what it is asked to this host", "run")))
	if err := ui.WriteLines(w.Err, trust.StartSheet(s).Lines(w.Width())); err != nil {
		return false, err
	}
	for {
		fmt.Fprint(w.Err, "Accept it, now and as long as none of this changes? [y/N] ")
		reply, err := w.ReadTyped(ctx)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(reply)) {
		case "y", "yes":
			_, err := trust.Agree(ctx, w.App, w.client, s)
			if errors.Is(err, client.ErrDecided) {
				err = nil // somebody else was faster
			}
			return err == nil, err
		case "", "n", "no":
			return false, nil
		}
	}
}
