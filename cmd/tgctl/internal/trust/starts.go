package trust

import (
	"cmp"
	"context"
	"encoding/hex"
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

// StartSheet lists everything that a person agrees to, and what could not be checked.
func StartSheet(s *pb.ServerStart) *ui.Sheet {
	out := &ui.Sheet{}
	out.Add("server", display.Name(s.GetServer()))
	out.Add("project", display.Text(s.GetProject()))
	out.Add("named by", display.Text(cmp.Or(s.GetFrom(), "no file of the project, but it runs files from there")))
	if r := s.GetRemote(); r != nil {
		out.Add("host", display.Text(r.GetHost()))
		out.Add("sends", ui.NameList(r.GetHeaders()))
		out.Add("uses", ui.NameList(r.GetVariables()))
	}
	if len(s.GetCommand()) > 0 {
		out.Add("runs", ui.CommandLine(s.GetCommand()))
	}
	out.Add("WARNING", ui.Map(s.GetAlarms(), display.Text)...)
	for _, f := range s.GetFiles() {
		out.Add(string(display.Name(f.GetRole())), display.Text(f.GetPath()))
		out.Add("  sha256", display.Name(cmp.Or(f.GetDigest(), "can't be read")))
	}
	out.Add("sets", ui.NameList(s.GetSets()))
	out.Add("unknown", ui.Join(ui.Map(s.GetGaps(), display.Text), "\n"))
	return out
}

// started returns the command of a server, or its host if it is behind an address.
func started(s *pb.ServerStart) display.Safe {
	if r := s.GetRemote(); r != nil {
		return "host " + display.Text(r.GetHost())
	}
	return ui.CommandLine(s.GetCommand())
}

// isNamed reports whether id, typed by a person, names the server of s.
func isNamed(s *pb.ServerStart, id string) bool { return ui.IsTyped(s.GetServer(), id) }

// IsWithheld reports whether a start waits for a person.
func IsWithheld(s *pb.ServerStart) bool { return s.GetAccepted() == nil }

// hasDigest reports whether the digest of s begins with the typed hex digits.
func hasDigest(s *pb.ServerStart, typed string) bool {
	return strings.HasPrefix(hex.EncodeToString(s.GetDigest()), strings.ToLower(typed))
}

// startID returns the short digest by which a person names a start.
func startID(s *pb.ServerStart) display.Safe {
	return ui.ShortDigest(hex.EncodeToString(s.GetDigest()))
}

// startsTable lists servers of projects.
func (a *app) startsTable(starts []*pb.ServerStart) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "SERVER", Shrink: 8}, {Head: "START"}, {Head: "STATE", Tone: ui.ToneOf}, {Head: "AGE", Right: true}, {Head: "PROJECT", Shrink: 12},
	}}
	for _, s := range starts {
		state, since := display.Safe("accepted"), s.GetAccepted()
		if IsWithheld(s) {
			state, since = "withheld", s.GetNoticed()
		}
		t.Add(display.Name(s.GetServer()), startID(s), state, a.Age(since), display.Text(s.GetProject()))
		t.Note(started(s))
		if !IsWithheld(s) {
			continue
		}
		for _, alarm := range s.GetAlarms() {
			t.NoteIn(display.Warn, "warning: "+display.Text(alarm))
		}
		t.Note("to accept it: " + AgreeCommand(s))
	}
	return t
}

// AgreeCommand returns the command that accepts a start.
func AgreeCommand(s *pb.ServerStart) display.Safe {
	return "tgctl servers accept " + ui.ShellWord(display.Name(s.GetServer())) + " --start " + startID(s)
}

// withheldStarts returns the withheld starts of the server id whose digests begin with digest.
// known reports whether there is any start of id.
func withheldStarts(ctx context.Context, c *client.Client, id, digest string) (found []*pb.ServerStart, known bool, err error) {
	starts, err := c.ListStarts(ctx)
	if err != nil {
		return nil, false, err
	}
	named := ui.Filter(starts, func(s *pb.ServerStart) bool { return isNamed(s, id) })
	return ui.Filter(named, func(s *pb.ServerStart) bool { return IsWithheld(s) && hasDigest(s, digest) }), len(named) > 0, nil
}

// completeStarts completes the ids of the projects' servers that offered accepts.
func (a *app) completeStarts(offered func(*pb.ServerStart) bool) cobra.CompletionFunc {
	return connect.Listed(a.App, (*client.Client).ListStarts, func(s *pb.ServerStart) string {
		if !offered(s) {
			return ""
		}
		return connect.Described(s.GetServer(), started(s))
	})
}

// acceptStart accepts a start and prints what was accepted.
func (a *app) acceptStart(ctx context.Context, c *client.Client, s *pb.ServerStart) error {
	done, err := Agree(ctx, a.App, c, s)
	if err != nil {
		return ui.WithHint(err, toolHints...)
	}
	if a.AsJSON {
		return a.PrintJSON(acceptedJSON{ID: done.GetServer(), startMember: startMember{pbjson.Object{Message: done}}})
	}
	if _, err := fmt.Fprintf(a.Out, "accepted the start of %s\n", display.Name(done.GetServer())); err != nil {
		return err
	}
	if err := a.PrintSheet(StartSheet(done)); err != nil {
		return err
	}
	a.PrintMessage("It stays accepted until any of this changes. To undo: tgctl servers forget %s\nStart the server again from its agent.",
		ui.ShellWord(display.Name(done.GetServer())))
	return nil
}

// Agree accepts a start, from the surface of a.
func Agree(ctx context.Context, a *connect.App, c *client.Client, s *pb.ServerStart) (*pb.ServerStart, error) {
	return c.AcceptStart(ctx, &pb.AcceptStartRequest{
		Project: s.GetProject(), Server: s.GetServer(), Digest: s.GetDigest(), Surface: a.Surface(),
	})
}
