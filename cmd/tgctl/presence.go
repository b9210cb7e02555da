package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) presenceCmd() *cobra.Command {
	cmd := listGroup("presence", "Set up the secret that proves you are there",
		a.presenceStatusCmd(), a.presenceEnrolCmd(), a.presenceRotateCmd(), a.presenceRemoveCmd())
	cmd.Long = `An agent that has a shell can start tgctl, and get around being recognised. What
it does not have is a secret in your head or on your phone. Once one is enrolled
a yes needs it where a workflow says "require: presence", and for calls of high
risk wherever a workflow does not say "require: any". A no never needs it.
The secret is a passphrase; codes of an authenticator app can stand beside it.
It is typed at a terminal, is not shown, and is not kept in the clear.
Without a command, presence says how it stands.`
	cmd.Example = `  $ tgctl presence enrol --totp
  $ tgctl presence`
	return cmd
}

// presenceLine returns the state of presence in one line.
func presenceLine(st *pb.PresenceState) display.Safe {
	switch {
	case !st.GetEnrolled():
		return "not set up; see: tgctl presence --help"
	case st.GetLocked().AsDuration() > 0:
		return "LOCKED for " + display.Span(st.GetLocked().AsDuration()) + "; see: tgctl presence"
	case st.GetCodes():
		return "set up, a passphrase and codes"
	}
	return "set up, a passphrase"
}

func (a *app) presenceStatusCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "status [flags]",
		Short: "Say how it stands with the secret",
		Long: `Say whether a secret is enrolled, since when and by whom, what was tried against
it, and whether one was ever removed by somebody who did not give it.`,
		Example: `  $ tgctl presence status
  $ tgctl presence status --json | jq .locked`,
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			st, err := c.PresenceStatus(ctx, false)
			if err != nil {
				return err
			}
			return a.printOne(st, a.presenceSheet(st))
		}),
	}, &pb.PresenceState{})
}

func (a *app) presenceSheet(st *pb.PresenceState) *sheet {
	s := &sheet{}
	s.add("presence", presenceLine(st))
	if st.GetEnrolled() {
		s.add("since", display.Moment(st.GetSince().AsTime(), a.now()))
		s.add("enrolled by", display.Text(st.GetBy()))
		if st.GetAsleep() {
			s.add("codes", "count again once the passphrase was given: the daemon was started anew")
		}
		if n := st.GetFailures(); n > 0 {
			s.add("tried", plural(n, "wrong passphrase or code", "wrong passphrases or codes")+" in a row")
		}
	}
	if st.GetRecovered() != nil {
		s.add("recovered", display.Moment(st.GetRecovered().AsTime(), a.now())+", when a secret was removed without it, and every grant with it")
		s.add("by", display.Text(st.GetRecoverer()))
	}
	return s
}

func (a *app) presenceRemoveCmd() *cobra.Command {
	var forgotten bool
	cmd := &cobra.Command{
		Use:   "remove [flags]",
		Short: "Remove the secret",
		Long: `Remove the secret. What a workflow requires presence for is refused from then
on, and open questions that need it are withdrawn.

With --forgotten it is removed without being given, from a terminal that no
agent started. That takes back every grant as well, is on record, and "tgctl
status" tells of it for a week.`,
		Example: `  $ tgctl presence remove
  $ tgctl presence remove --forgotten`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.atTerminal(cmd.Context(), func(ctx context.Context, c *client.Client, t *secretTerminal, st *pb.PresenceState) error {
				return a.removePresence(ctx, c, t, st, forgotten)
			})
		},
	}
	cmd.Flags().BoolVar(&forgotten, "forgotten", false, "the secret is lost: remove it without, and end every grant")
	return cmd
}

func (a *app) removePresence(ctx context.Context, c *client.Client, t *secretTerminal, st *pb.PresenceState, forgotten bool) error {
	req := &pb.RemovePresenceRequest{Recover: forgotten}
	switch {
	case !st.GetEnrolled():
		return client.NewError(client.ReasonNotEnrolled, client.ErrNotEnrolled.Error())
	case forgotten:
		a.printMessage("This removes the secret and ends every grant. Questions that need presence are\nwithdrawn, and all of it is on record.")
		typed, err := t.ask(ctx, "Type remove to do it (not shown):")
		if err != nil {
			return err
		}
		if string(typed) != "remove" {
			return errors.New("nothing was removed")
		}
	default:
		var err error
		if req.Passphrase, err = t.ask(ctx, "Passphrase (not shown):"); err != nil {
			return err
		}
		defer clear(req.Passphrase)
	}
	if err := c.RemovePresence(ctx, req); err != nil {
		return err
	}
	if forgotten {
		a.printMessage("Removed, and every grant with it. Enrol a new secret: tgctl presence enrol")
		return nil
	}
	a.printMessage("Removed. Where presence is required, calls are refused now.")
	return nil
}

// atTerminal runs do, which reads a secret. It opens the terminal, and hides the memory of this
// process after the daemon has identified it.
func (a *app) atTerminal(ctx context.Context, do func(context.Context, *client.Client, *secretTerminal, *pb.PresenceState) error) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	st, err := c.PresenceStatus(ctx, true)
	if err != nil {
		return presenceFailure(err)
	}
	t, err := a.openHidden()
	if err != nil {
		return err
	}
	defer t.close()
	return presenceFailure(do(ctx, c, t, st))
}

// openHidden opens the terminal, and hides the memory of this process from other programs.
func (a *app) openHidden() (*secretTerminal, error) {
	t, err := openTerminal()
	if err != nil {
		return nil, err
	}
	if err := a.hideMemory(); err != nil {
		t.close()
		return nil, fmt.Errorf("keep other programs from reading what you type: %w", err)
	}
	return t, nil
}

// presenceFailure adds a hint to an error.
func presenceFailure(err error) error {
	return withHint(err,
		hint{client.ErrForbidden, "An agent, and what it starts, cannot do that. Use another terminal."},
		hint{client.ErrEnrolled, "To change it: tgctl presence rotate"},
		hint{client.ErrNotEnrolled, "Set it up: tgctl presence enrol"},
		hint{client.ErrLockedOut, "Wait, then try again. See: tgctl presence status"},
		hint{client.ErrProofWrong, "Nothing was changed. If the secret is lost: tgctl presence remove --forgotten"})
}
