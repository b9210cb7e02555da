package slack

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Command returns the command slack.
func Command(a *connect.App) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "slack [flags]",
		Short: "Post questions to Slack and take answers, until stopped",
		Long: `Post each waiting question of a workflow with a Slack destination to its
channel, with buttons, take the answers of its approvers, and show the outcome
below the question. Runs until stopped; waiting questions keep waiting, and the
next run takes them over.

The configuration in force names channel and approvers:

  approval:
    ops:
      destination: {type: slack, channel: C0123ABCD, approvers: [U0123ABCD]}

The tokens of the Slack app are never given on the command line. Each is
searched in three places under the name that the workflow gives (default
SLACK_BOT_TOKEN and SLACK_APP_TOKEN): a systemd credential of that name, the
file that NAME_FILE names, which only you may read, and the variable NAME.

An answer counts only if Slack attributes it to an approver; the record says
that this is Slack's claim. A question that requires presence can't be approved
from Slack.

docs/slack.md says how to create the Slack app.`,
		Example: `  $ tgctl slack --check
  $ SLACK_BOT_TOKEN_FILE=~/bot SLACK_APP_TOKEN_FILE=~/app tgctl slack
  $ systemctl --user enable --now tgctl-slack    # with systemd`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCommand(cmd.Context(), a, check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "test tokens and channels and exit; posts a message to each channel and deletes it")
	return cmd
}

func runCommand(ctx context.Context, a *connect.App, check bool) error {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return err
	}
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var saying sync.Mutex
	o := Options{
		Gate: c, Getenv: a.Getenv, State: filepath.Join(paths.State, "slack"), Sheet: func(q *pb.Approval) Sheet { return sheetOf(q, a.Now()) },
		Say: func(format string, args ...any) {
			saying.Lock()
			defer saying.Unlock()
			a.PrintMessage(format, args...)
		},
	}
	if check {
		err = Check(ctx, o)
	} else {
		err = Run(ctx, o)
	}
	var problem *Problem
	switch {
	case ctx.Err() != nil && err != nil:
		return nil // stopped while starting
	case errors.As(err, &problem):
		err = &ui.HintError{Err: err, Hint: problem.Hint}
	}
	if check && err != nil {
		return &ui.ExitError{Code: ui.ExitCheck, Err: err}
	}
	return err
}

// onSlack lists the rows of a question's sheet that its message contains.
var onSlack = []string{"server", "agent", "because", "asked by", "workflow", "fact", "equal calls", "repetition"}

// sheetOf lays out a question for Slack. It must not depend on the time, since a message is
// updated whenever its content differs.
func sheetOf(q *pb.Approval, now time.Time) Sheet {
	s := Sheet{Call: ui.CallName(q.GetMethod(), q.GetTool()), Values: approval.ShownParams(q)}
	all := approval.Sheet(q, now)
	for i, name := range all.Names {
		if slices.Contains(onSlack, name) && (approval.IsOpen(q) || name != "repetition") {
			s.Rows = append(s.Rows, Row{Label: display.Safe(name), Text: all.Values[i]})
		}
	}
	return s
}
