package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/slack"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) slackCmd() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "slack [flags]",
		Short: "Ask questions on Slack and take answers from there, until stopped",
		Long: `Post each open question of a workflow that asks on Slack to its channel, with
buttons, take the answers of its approvers, and say below the question what
became of it. Runs until it is stopped; questions that are open then stay open,
and are taken up by the next start.

Channel and approvers are those of the configuration in force:

  approval:
    ops:
      destination: {type: slack, channel: C0123ABCD, approvers: [U0123ABCD]}

The tokens of the Slack app never stand on the command line. Each is looked for
in three places, under the name that the workflow gives, which is
SLACK_BOT_TOKEN and SLACK_APP_TOKEN where it gives none: a systemd credential of
that name, a file that only you can read and that NAME_FILE names, or the
variable NAME itself.

An answer counts only if Slack says that it comes from an approver; that is
what Slack says, and the record has it so. A question that wants proof that a
person is there gets no yes from Slack.

docs/slack.md says how to make the Slack app.`,
		Example: `  $ tgctl slack --check
  $ SLACK_BOT_TOKEN_FILE=~/bot SLACK_APP_TOKEN_FILE=~/app tgctl slack
  $ systemctl --user enable --now tgctl-slack    # where you have systemd`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.slack(cmd.Context(), check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "try tokens and channels and exit; posts a message to each channel, and takes it away")
	return cmd
}

func (a *app) slack(ctx context.Context, check bool) error {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return err
	}
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var saying sync.Mutex
	o := slack.Options{
		Gate: c, Getenv: a.getenv, State: filepath.Join(paths.State, "slack"), Sheet: a.slackSheet,
		Say: func(format string, args ...any) {
			saying.Lock()
			defer saying.Unlock()
			a.printMessage(format, args...)
		},
	}
	if check {
		err = slack.Check(ctx, o)
	} else {
		err = slack.Run(ctx, o)
	}
	var problem *slack.Problem
	switch {
	case ctx.Err() != nil && err != nil:
		return nil // stopped while starting
	case errors.As(err, &problem):
		err = &hintError{err: err, hint: problem.Hint}
	}
	if check && err != nil {
		return &exitError{code: exitCheck, err: err}
	}
	return err
}

// onSlack lists the rows of a question's sheet that its message contains.
var onSlack = []string{"server", "agent", "because", "asked by", "workflow", "fact", "equal calls", "repetition"}

// slackSheet lays out a question for Slack. It must not depend on the time, since a message is
// updated whenever its content differs.
func (a *app) slackSheet(q *pb.Approval) slack.Sheet {
	s := slack.Sheet{Call: callName(q.GetMethod(), q.GetTool()), Values: shownParams(q)}
	all := a.questionSheet(q)
	for i, name := range all.names {
		if slices.Contains(onSlack, name) && (isOpen(q) || name != "repetition") {
			s.Rows = append(s.Rows, slack.Row{Label: display.Safe(name), Text: all.values[i]})
		}
	}
	return s
}
