// Package login has the commands of tgctl that log a person in to servers behind an address, and out.
package login

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/browse"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/private"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what these commands use.
type app struct{ *connect.App }

// options are the flags of login.
type options struct {
	noBrowser, secret          bool
	client, issuer, redirectTo string
}

// Command returns the command login.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	var o options
	cmd := &cobra.Command{
		Use:   "login [ID] [flags]",
		Short: "Log in to a server behind an address",
		Long: `Log in to a server behind an address (OAuth 2.1). The address that your browser
opens is printed with its host first. The daemon keeps the tokens, renews them
ahead of time for all sessions, and hands them to nobody but the server. When
the login is done, calls that wait for it go on.

ID is the name of the server in the agent's configuration, or its address. The
address is taken from running sessions and protected agents, otherwise from the
files of the agents here. Without ID, list the servers behind an address and
the state of each login:

  none     nobody is logged in, and nobody had to be
  stored   a login is stored, and was not used since the daemon started
  ready    there is a token
  ending   the token ends within a day and can't be renewed
  failing  the token could not be renewed; that is tried again
  wanted   you have to log in

With --no-browser the address is printed only. If the server's issuer offers
codes, you can enter one on any machine; otherwise the browser must run on this
machine. If the issuer registers no clients by itself, register one there with
the redirect address http://127.0.0.1/callback, and name it with --client-id and
--issuer. Agents can't log in.`,
		Example: `  $ tgctl login github
  $ tgctl login github --no-browser
  $ tgctl login --json | jq -r 'select(.phase == "wanted") | .server'`,
		Args:              ui.AtMostOne,
		ValidArgsFunction: connect.FirstAlone(a.completeServers()),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 0 {
				return a.list(ctx, c, o)
			}
			return a.login(ctx, c, args[0], o)
		}),
	}
	cmd.Flags().BoolVar(&o.noBrowser, "no-browser", false, "print the address, or a code to enter, and open nothing")
	cmd.Flags().StringVar(&o.client, "client-id", "", "the `ID` of a client that you have registered with the issuer")
	cmd.Flags().StringVar(&o.issuer, "issuer", "", "the `URL` of the issuer with which it is registered")
	cmd.Flags().StringVar(&o.redirectTo, "redirect", "", "its redirect address, if it is not http://127.0.0.1/callback: a `URL`")
	cmd.Flags().BoolVar(&o.secret, "client-secret", false, "ask at the terminal for its secret")
	return a.WithJSON(cmd, &pb.LoginState{}, &pb.LoginEvent{})
}

// LogoutCommand returns the command logout.
func LogoutCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	return a.WithJSON(&cobra.Command{
		Use:   "logout ID [flags]",
		Short: "Log out of a server behind an address",
		Long: `Remove the login to a server behind an address, and have its issuer revoke the
tokens. If the issuer can't be reached, the login is removed all the same, and a
warning says so. The next call of an agent to the server waits for a login.`,
		Example:           `  $ tgctl logout github`,
		Args:              ui.Exactly("ID"),
		ValidArgsFunction: connect.FirstAlone(a.completeServers()),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			return a.named(args[0], func(to *pb.LoginServer) error { return a.logout(ctx, c, args[0], to) })
		}),
	}, &pb.LogoutResponse{})
}

// hints say what to do about errors.
var hints = []ui.Hint{
	{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot log in or out. Use another terminal."},
	{Err: client.ErrNotFound, Text: "List the servers behind an address: tgctl login"},
}

// completeServers completes the ids of servers behind an address.
func (a *app) completeServers() cobra.CompletionFunc {
	return connect.Listed(a.App, func(c *client.Client, ctx context.Context) ([]*pb.LoginState, error) {
		out, err := c.ListLogins(ctx)
		return out.GetLogins(), err
	}, func(l *pb.LoginState) string {
		if l.GetServer() == "" {
			return connect.Described(l.GetAddress(), "")
		}
		return connect.Described(l.GetServer(), display.Text(l.GetAddress()))
	})
}

func (a *app) list(ctx context.Context, c *client.Client, o options) error {
	if o != (options{}) {
		return ui.Misuse("the flags need an ID")
	}
	out, err := c.ListLogins(ctx)
	if err != nil {
		return err
	}
	return ui.PrintList(a, out.GetLogins(), nil, "No session and no protected agent names a server behind an address, and nobody is logged in.", a.table)
}

func (a *app) table(all []*pb.LoginState) *display.Table {
	t := &display.Table{Columns: []display.Column{{Head: "SERVER", Shrink: 8}, {Head: "LOGIN"}, {Head: "TOKEN ENDS"}, {Head: "ADDRESS", Shrink: 12}}}
	for _, l := range all {
		ends := display.Safe("-")
		if l.GetExpires() != nil {
			ends = a.Moment(l.GetExpires()) + ui.Choose(l.GetRenews(), ", renewed", "")
		}
		t.Add(ui.OrDash(l.GetServer()), display.Safe(pbjson.Word(l.GetPhase())), ends, display.Text(l.GetAddress()))
		t.Note(display.Text(l.GetReason()))
		if l.GetPhase() == pb.LoginPhase_LOGIN_PHASE_WANTED {
			t.Note("log in with: " + ui.LoginCommand(l.GetServer()))
		}
	}
	return t
}

// named calls do with the server that a person means. A server whose address the daemon does not know is
// looked up in the files of the agents here.
func (a *app) named(typed string, do func(*pb.LoginServer) error) error {
	to := &pb.LoginServer{Id: typed}
	if strings.Contains(typed, "://") {
		to = &pb.LoginServer{Address: typed}
	}
	err := do(to)
	if to.GetId() == "" || !errors.Is(err, client.ErrNotFound) {
		return ui.WithHint(err, hints...)
	}
	found, lookErr := a.lookUp(typed)
	if lookErr != nil {
		return lookErr
	}
	if found == nil {
		return ui.WithHint(err, hints...)
	}
	a.PrintMessage("No session has named %s yet; %s names it: %s.", display.Name(typed), ui.Choose(found.GetProject(), "a project's file here", "a file of an agent here"), display.Text(shown(found.GetAddress())))
	return ui.WithHint(do(found), hints...)
}

// shown returns an address without its query, which may be secret.
func shown(address string) string {
	before, _, _ := strings.Cut(address, "?")
	return before
}

// lookUp returns the server of that id in the files of the agents here; nil if there is none.
func (a *app) lookUp(id string) (*pb.LoginServer, error) {
	env, err := agentenv.Env(a.App)
	if err != nil {
		return nil, err
	}
	byAddress := map[string]*pb.LoginServer{}
	for _, r := range agentconf.Addresses(env) {
		if r.Server != id {
			continue
		}
		to, err := r.Expand(env.LookupEnv)
		if err != nil {
			return nil, err
		}
		before := byAddress[to.Address]
		// If a file of the person's own names it, too, that counts.
		byAddress[to.Address] = &pb.LoginServer{Id: id, Address: to.Address, Project: r.From != "" && (before == nil || before.GetProject())}
	}
	addresses := make([]string, 0, len(byAddress))
	for address := range byAddress {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	switch len(addresses) {
	case 0:
		return nil, nil
	case 1:
		return byAddress[addresses[0]], nil
	}
	return nil, ui.Ambiguous(id, " servers behind an address, so name one by its address", addresses)
}

func (a *app) login(ctx context.Context, c *client.Client, typed string, o options) error {
	with, err := a.client(ctx, c, o)
	if err != nil {
		return err
	}
	return a.named(typed, func(to *pb.LoginServer) error {
		for event, err := range c.Login(ctx, &pb.LoginRequest{Server: to, NoBrowser: o.noBrowser, Client: with, Surface: a.Surface()}) {
			if err == nil {
				err = a.show(ctx, typed, event, o)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// client returns the client that a person has registered; nil if they name none.
func (a *app) client(ctx context.Context, c *client.Client, o options) (*pb.LoginClient, error) {
	switch {
	case o.client == "" && (o.issuer != "" || o.redirectTo != "" || o.secret):
		return nil, ui.Misuse("--issuer, --redirect and --client-secret need --client-id")
	case o.client == "":
		return nil, nil
	case o.issuer == "":
		return nil, ui.Misuse("--client-id needs --issuer: no other issuer may get it")
	}
	with := &pb.LoginClient{Id: o.client, Issuer: o.issuer, Redirect: o.redirectTo}
	if !o.secret {
		return with, nil
	}
	// The daemon looks at this process once, before it hides its memory.
	if _, err := c.PresenceStatus(ctx, true); err != nil {
		return nil, ui.WithHint(err, hints...)
	}
	if err := private.NoReading(); err != nil {
		return nil, err
	}
	tty, err := ui.OpenTerminal()
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	with.Secret, err = tty.Ask(ctx, "Secret of the client "+string(display.Name(o.client))+":")
	return with, err
}

// show shows one step of a login.
func (a *app) show(ctx context.Context, typed string, event *pb.LoginEvent, o options) error {
	if a.AsJSON {
		if err := a.PrintJSON(pbjson.Object{Message: event}); err != nil {
			return err
		}
	}
	if p := event.GetPrompt(); p != nil {
		return a.prompt(ctx, typed, p, o)
	}
	done := event.GetDone()
	if done == nil || a.AsJSON {
		return nil
	}
	line := "logged in to " + display.Name(typed) + ", issuer " + display.Text(done.GetIssuer())
	if len(done.GetScopes()) > 0 {
		line += ", scopes " + ui.NameList(done.GetScopes())
	}
	lines := []display.Safe{line}
	switch {
	case done.GetExpires() != nil && !done.GetRenews():
		lines = append(lines, "The token ends "+a.Moment(done.GetExpires())+" and can't be renewed; log in again then.")
	case done.GetRenews():
		lines = append(lines, "The token is renewed without you.")
	}
	return a.PrintLines(lines)
}

// prompt shows what the person opens, the host first, and opens it.
func (a *app) prompt(ctx context.Context, typed string, p *pb.LoginPrompt, o options) error {
	address, err := browse.Check(p.GetAddress(), true)
	if err != nil || address.Host != p.GetHost() {
		return errors.Join(fmt.Errorf("the daemon names an address that can't be opened, at %s", display.Text(p.GetHost())), err)
	}
	if !a.AsJSON {
		a.PrintMessage("Log in to %s at %s (issuer %s).", display.Name(typed), display.Text(p.GetHost()), display.Text(p.GetIssuer()))
		if p.GetCode() != "" {
			a.PrintMessage("Enter the code %s at %s", display.Name(p.GetCode()), display.Text(address.String()))
		} else if o.noBrowser {
			a.PrintMessage("Open in a browser on this machine:\n%s", display.Text(address.String()))
		}
	}
	if o.noBrowser || p.GetCode() != "" {
		return nil
	}
	if err := browse.Open(ctx, address); err != nil && ctx.Err() == nil {
		a.PrintMessage("%s; open the address yourself\n%s", display.Text(err.Error()), display.Text(address.String()))
	}
	return nil
}

func (a *app) logout(ctx context.Context, c *client.Client, typed string, to *pb.LoginServer) error {
	warning, err := c.Logout(ctx, &pb.LogoutRequest{Server: to, Surface: a.Surface()})
	switch {
	case err != nil:
		return err
	case a.AsJSON:
		return a.PrintJSON(pbjson.Object{Message: &pb.LogoutResponse{Warning: warning}})
	case warning != "":
		a.PrintMessage("%s", display.Text(warning))
		return nil
	}
	return a.PrintLines([]display.Safe{"logged out of " + display.Name(typed)})
}
