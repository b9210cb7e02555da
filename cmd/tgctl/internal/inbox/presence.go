package inbox

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// PresenceCommand returns the command presence.
func PresenceCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.ListGroup("presence", "Set up the secret for proof of presence",
		a.presenceStatusCmd(), a.presenceEnrolCmd(), a.presenceRotateCmd(), a.presenceRemoveCmd())
	cmd.Long = `An agent with a shell can start tgctl, and may avoid being recognised. It does
not have a secret that is in your head or on your phone. Once one is enrolled,
approval needs it where a workflow says "require: presence", and for calls of
high risk unless the workflow says "require: any". Denying never needs it.
The secret is a passphrase; codes of an authenticator app can be added to it. It
is typed at a terminal, is not shown, and is not stored in clear text.
Without a command, presence shows the state of the secret.`
	cmd.Example = `  $ tgctl presence enrol --totp
  $ tgctl presence`
	return cmd
}

func (a *app) presenceStatusCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "status [flags]",
		Short: "Show the state of the secret",
		Long: `Show whether a secret is enrolled, since when and by whom, how many attempts
failed, and whether a secret was ever removed without being given.`,
		Example: `  $ tgctl presence status
  $ tgctl presence status --json | jq .locked`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			st, err := c.PresenceStatus(ctx, false)
			if err != nil {
				return err
			}
			return a.PrintOne(st, a.presenceSheet(st))
		}),
	}, &pb.PresenceState{})
}

func (a *app) presenceSheet(st *pb.PresenceState) *ui.Sheet {
	s := &ui.Sheet{}
	s.Add("presence", approval.PresenceLine(st))
	if st.GetEnrolled() {
		s.Add("since", display.Moment(st.GetSince().AsTime(), a.Now()))
		s.Add("enrolled by", display.Text(st.GetBy()))
		s.Add("codes", ui.Choose(st.GetAsleep(), "accepted again after the passphrase was given once: the daemon has restarted", ""))
		s.Add("tried", ui.Some(st.GetFailures(), "wrong passphrase or code", "wrong passphrases or codes", " in a row"))
	}
	if st.GetRecovered() != nil {
		s.Add("recovered", display.Moment(st.GetRecovered().AsTime(), a.Now())+": the secret was removed without being given, with every grant")
		s.Add("by", display.Text(st.GetRecoverer()))
	}
	return s
}

func (a *app) presenceRemoveCmd() *cobra.Command {
	var forgotten bool
	cmd := &cobra.Command{
		Use:   "remove [flags]",
		Short: "Remove the secret",
		Long: `Remove the secret. From then on, calls for which a workflow requires presence
are denied, and waiting questions that need it are withdrawn.

With --forgotten the secret is removed without being given, from a terminal that
no agent started. This also revokes every grant and is recorded, and "tgctl
status" reports it for a week.`,
		Example: `  $ tgctl presence remove
  $ tgctl presence remove --forgotten`,
		RunE: a.atTerminal(func(ctx context.Context, c *client.Client, t *ui.SecretTerminal, st *pb.PresenceState) error {
			return a.removePresence(ctx, c, t, st, forgotten)
		}),
	}
	cmd.Flags().BoolVar(&forgotten, "forgotten", false, "remove a lost secret without giving it, and revoke every grant")
	return cmd
}

func (a *app) removePresence(ctx context.Context, c *client.Client, t *ui.SecretTerminal, st *pb.PresenceState, forgotten bool) error {
	req := &pb.RemovePresenceRequest{Recover: forgotten}
	switch {
	case !st.GetEnrolled():
		return client.NewError(client.ReasonNotEnrolled, client.ErrNotEnrolled.Error())
	case forgotten:
		a.PrintMessage("This removes the secret and revokes every grant. Questions that need presence\nare withdrawn, and all of this is recorded.")
		typed, err := t.Ask(ctx, "Type remove to confirm (not shown):")
		if err != nil {
			return err
		}
		if string(typed) != "remove" {
			return errors.New("nothing was removed")
		}
	default:
		var err error
		if req.Passphrase, err = t.Ask(ctx, "Passphrase (not shown):"); err != nil {
			return err
		}
		defer clear(req.Passphrase)
	}
	if err := c.RemovePresence(ctx, req); err != nil {
		return err
	}
	if forgotten {
		a.PrintMessage("Removed, with every grant. Enrol a new secret: tgctl presence enrol")
		return nil
	}
	a.PrintMessage("Removed. Calls that require presence are now denied.")
	return nil
}

// atTerminal returns a RunE function that calls do, which reads a secret. It connects to the daemon,
// opens the terminal, and hides the memory of this process after the daemon has identified it.
func (a *app) atTerminal(do func(context.Context, *client.Client, *ui.SecretTerminal, *pb.PresenceState) error) func(*cobra.Command, []string) error {
	return a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
		st, err := c.PresenceStatus(ctx, true)
		if err != nil {
			return presenceFailure(err)
		}
		t, err := approval.OpenHidden()
		if err != nil {
			return err
		}
		defer t.Close()
		return presenceFailure(do(ctx, c, t, st))
	})
}

// presenceFailure adds a hint to an error.
func presenceFailure(err error) error {
	return ui.WithHint(err,
		ui.Hint{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot do that. Use another terminal."},
		ui.Hint{Err: client.ErrEnrolled, Text: "To change it: tgctl presence rotate"},
		ui.Hint{Err: client.ErrNotEnrolled, Text: "Set it up: tgctl presence enrol"},
		ui.Hint{Err: client.ErrLockedOut, Text: "Wait, then try again. See: tgctl presence status"},
		ui.Hint{Err: client.ErrProofWrong, Text: "Nothing was changed. If the secret is lost: tgctl presence remove --forgotten"})
}
