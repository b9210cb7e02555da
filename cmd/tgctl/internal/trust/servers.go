package trust

import (
	"context"
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

// ServersCommand returns the command servers.
func ServersCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.ListGroup("servers", "List known servers, accept a new one or one of a project",
		a.serversListCmd(), a.serversAcceptCmd(), a.serversForgetCmd())
	cmd.Long = `A server is identified by its id and its command. Another command under a known
id is a new server: until you accept it, only those of its tools are usable that
equal the known server's.

A server that comes with a project is started only after you have accepted what
it would run: its command and arguments, the names of the variables set for it,
and the contents of the programs and scripts involved. If any of that changes,
you have to accept it again.`
	cmd.Example = `  $ tgctl servers
  $ tgctl servers accept files`
	return cmd
}

// startMember adds to a project's server what starting it means. It is null for other servers.
// A project's server has no launch.
type startMember struct {
	Start pbjson.Object `json:"start"`
}

// startSample is a sample of a startMember for --help.
var startSample = startMember{pbjson.Object{Message: &pb.ServerStart{}}}

func (a *app) serversListCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "list [flags]",
		Short: "List the servers seen so far",
		Long: `List the servers seen so far, the command of each, and how many of their
definitions are waiting for you; then the servers of projects, and which of them
are withheld until you accept them.`,
		Example: `  $ tgctl servers list
  $ tgctl servers list --json | jq -r 'select(.start) | .start.digest'
  $ tgctl servers list --json | jq -r 'select(.new) | .id'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			servers, err := c.ListServers(ctx)
			if err != nil {
				return err
			}
			starts, err := c.ListStarts(ctx)
			if err != nil {
				return err
			}
			none := ""
			if len(servers)+len(starts) == 0 {
				none = noneListed
			}
			err = ui.PrintList(a, servers, func(s *pb.Server) any { return pbjson.Object{Message: s, More: startMember{}} }, none, a.serversTable)
			if err != nil || len(starts) == 0 {
				return err
			}
			return ui.PrintList(a, starts, func(s *pb.ServerStart) any {
				return pbjson.Object{Message: &pb.Server{Id: s.GetServer(), Command: s.GetCommand()}, More: startMember{pbjson.Object{Message: s}}}
			}, "", a.startsTable)
		}),
	}, pbjson.Object{Message: &pb.Server{}, More: startSample})
}

func (a *app) serversTable(servers []*pb.Server) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "SERVER", Shrink: 8}, {Head: "LAUNCH"}, {Head: "STATE", Tone: ui.ToneOf}, {Head: "DEFINITIONS", Right: true},
		{Head: "WAITING", Right: true}, {Head: "AGE", Right: true},
	}}
	for _, s := range servers {
		state := ui.Choose(s.GetNew(), "new", "known")
		t.Add(display.Name(s.GetId()), ui.ShortDigest(s.GetLaunch()), state, display.Count(s.GetPins()), display.Count(s.GetWaiting()),
			a.Age(s.GetFirst()))
		t.Note(ui.CommandLine(s.GetCommand()))
		if s.GetNew() {
			t.Note("another command is known under this id; to accept this one: tgctl servers accept " +
				ui.ShellWord(display.Name(s.GetId())) + " --launch " + ui.ShortDigest(s.GetLaunch()))
		}
	}
	return t
}

func (a *app) serversAcceptCmd() *cobra.Command {
	var launch, start string
	cmd := &cobra.Command{
		Use:   "accept SERVER [flags]",
		Short: "Accept a new server, or one of a project",
		Long: `Accept another command under a known id. Tools withheld for that reason alone
are accepted with it; those that are suspicious for another reason keep waiting.

Or accept the start of a server that comes with a project. What you accept is
printed, and stays accepted until any of it changes.`,
		Example: `  $ tgctl servers accept files
  $ tgctl servers accept files --launch 1f2e3d4c
  $ tgctl servers accept files --start 9a8b7c6d`,
		Args:              ui.Exactly("SERVER"),
		ValidArgsFunction: a.completeNewServers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if launch != "" && start != "" {
				return ui.Misuse("--launch (of a new server) and --start (of a project's server) can't be combined")
			}
			if start != "" && len(start) < 8 {
				return ui.Misuse("--start %q: give at least 8 hexadecimal digits", start)
			}
			c, err := a.Dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			if launch == "" {
				starts, known, err := withheldStarts(cmd.Context(), c, args[0], start)
				switch {
				case err != nil:
					return err
				case len(starts) == 1:
					return a.acceptStart(cmd.Context(), c, starts[0])
				case len(starts) > 1:
					return ui.Ambiguous(args[0], " waiting starts", ui.Map(starts, func(s *pb.ServerStart) string {
						return "--start " + string(startID(s)) + "  " + strings.Join(s.GetCommand(), " ") + "  in " + s.GetProject()
					}))
				case start != "" && known:
					return &ui.HintError{Err: fmt.Errorf("%s: no start with a digest that begins with %s is waiting", args[0], start), Hint: "List them: tgctl servers"}
				}
			}
			s, err := oneNewServer(cmd.Context(), c, args[0], launch)
			if err != nil {
				return err
			}
			return a.acceptServer(cmd.Context(), c, s)
		},
	}
	cmd.Flags().StringVar(&launch, "launch", "", "accept the new server whose launch begins with `HEX`")
	cmd.Flags().StringVar(&start, "start", "", "accept the project's server whose start has a digest that begins with `HEX`")
	return a.WithJSON(cmd, acceptedJSON{startMember: startSample})
}

// oneNewServer finds the new server under an id.
func oneNewServer(ctx context.Context, c *client.Client, id, launch string) (*pb.Server, error) {
	servers, err := c.ListServers(ctx)
	if err != nil {
		return nil, err
	}
	known := ui.Filter(servers, func(s *pb.Server) bool { return ui.IsTyped(s.GetId(), id) })
	found := ui.Filter(known, func(s *pb.Server) bool {
		return s.GetNew() && strings.HasPrefix(s.GetLaunch(), strings.ToLower(launch))
	})
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, ui.Ambiguous(id, " new servers", ui.Map(found, func(s *pb.Server) string {
			return "--launch " + string(ui.ShortDigest(s.GetLaunch())) + "  " + strings.Join(s.GetCommand(), " ")
		}))
	case len(known) > 0:
		return nil, fmt.Errorf("%s: no new server of that id is waiting", id)
	}
	return nil, &ui.HintError{Err: fmt.Errorf("%s: %w", id, client.ErrNotFound), Hint: "List the known servers: tgctl servers"}
}

// acceptedJSON is the JSON of an accepted server.
type acceptedJSON struct {
	ID       string `json:"id"`
	Launch   string `json:"launch"`
	Accepted uint32 `json:"accepted"` // number of definitions accepted with it
	startMember
}

func (a *app) acceptServer(ctx context.Context, c *client.Client, s *pb.Server) error {
	done, err := c.AcceptServer(ctx, &pb.AcceptServerRequest{Id: s.GetId(), Launch: s.GetLaunch(), Surface: a.Surface()})
	if err != nil {
		return ui.WithHint(err, toolHints...)
	}
	if a.AsJSON {
		return a.PrintJSON(acceptedJSON{ID: s.GetId(), Launch: s.GetLaunch(), Accepted: done.GetAccepted()})
	}
	_, err = fmt.Fprintf(a.Out, "accepted %s: %s\nwith it %s\n", display.Name(s.GetId()), ui.CommandLine(s.GetCommand()),
		ui.Plural(done.GetAccepted(), "definition", "definitions"))
	if err != nil {
		return err
	}
	if left := s.GetWaiting() - min(s.GetWaiting(), done.GetAccepted()); left > 0 {
		a.PrintMessage("%s still waiting; see: tgctl tools --waiting", ui.Plural(left, "definition is", "definitions are"))
	}
	return nil
}

// completeServers completes the ids of the servers that offered accepts.
func (a *app) completeServers(offered func(*pb.Server) bool) cobra.CompletionFunc {
	return connect.Listed(a.App, (*client.Client).ListServers, func(s *pb.Server) string {
		if !offered(s) {
			return ""
		}
		return connect.Described(s.GetId(), ui.CommandLine(s.GetCommand()))
	})
}

// completeNewServers completes the ids of servers that can be accepted.
func (a *app) completeNewServers(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ids, _ := a.completeServers((*pb.Server).GetNew)(cmd, args, typed)
	starts, directive := a.completeStarts(IsWithheld)(cmd, args, typed)
	return append(ids, starts...), directive
}

// ServersTable lists servers as the command servers does.
func ServersTable(c *connect.App, servers []*pb.Server) *display.Table {
	return (&app{c}).serversTable(servers)
}

// StartsTable lists the starts of projects' servers as the command servers does.
func StartsTable(c *connect.App, starts []*pb.ServerStart) *display.Table {
	return (&app{c}).startsTable(starts)
}
