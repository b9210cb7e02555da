// Package fleet has the commands of tgctl with which a user joins an organization's fleet, and those
// with which an administrator runs one. What speaks to the engine is done by tg-fleet, a program of its
// own.
package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// app holds what these commands use.
type app struct{ *connect.App }

// courierName is the program that speaks to the engine.
const courierName = "tg-fleet"

// Command returns the command fleet.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	members := []*cobra.Command{a.joinCmd(), a.leaveCmd(), a.runCmd(), a.outgoingCmd(), a.flushCmd(), a.keyCmd()}
	administrators := []*cobra.Command{a.initCmd(), a.applyCmd(), a.issueCmd(), a.groupCmd(), a.tokenCmd(), a.policyCmd(), a.devicesCmd(), a.revokeCmd(), a.auditCmd()}
	status := a.statusCmd()
	cmd := ui.ListGroup("fleet", "Join an organization's fleet, or run one", status, append(members, administrators...)...)
	cmd.AddGroup(&cobra.Group{ID: "members", Title: "For members:"}, &cobra.Group{ID: "administrators", Title: "For administrators:"})
	for _, verb := range append(members, status) {
		verb.GroupID = "members"
	}
	for _, verb := range administrators {
		verb.GroupID = "administrators"
	}
	cmd.Long = `A fleet gives the machines of an organization one policy, lets colleagues answer
questions, and collects what the agents of all of them did. The courier between
this machine and the organization's engine is tg-fleet. Neither it nor the
engine is trusted: the daemon verifies what comes down, and whoever reads the
records verifies what came up.

Without a command, show what this machine is a member of.`
	cmd.Example = `  $ tgctl fleet join
  $ tgctl fleet status`
	return cmd
}

// hints say what to do about errors of the daemon.
var hints = []ui.Hint{
	{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot join or leave a fleet. Use another terminal."},
	{Err: client.ErrProofWrong, Text: "Nothing was changed. Try again."},
	{Err: client.ErrLockedOut, Text: "Wait, then try again. See: tgctl presence status"},
}

// courier runs tg-fleet with args. Its standard input is in, and its standard output out. What it says on
// standard error is the error, or is shown if it succeeds.
func (a *app) courier(ctx context.Context, in []byte, out io.Writer, args ...string) error {
	program, err := a.Sibling(courierName)
	if err != nil {
		return &ui.HintError{Err: err, Hint: "Install ThoughtGate whole: tg-fleet is part of it."}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, &said
	cmd.Env = a.Environ()
	err = cmd.Run()
	text := strings.TrimSpace(said.String())
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) && text != "":
		return errors.New(strings.TrimPrefix(text, courierName+": "))
	case err != nil:
		return fmt.Errorf("run %s %s: %w", courierName, args[0], err)
	case text != "":
		a.PrintMessage("%s", display.Lines(text))
	}
	return nil
}

// courierVerb returns a command that tg-fleet does, with the same words.
func (a *app) courierVerb(cmd *cobra.Command, verb ...string) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.courier(cmd.Context(), nil, a.Out, append(verb, args...)...)
	}
	return cmd
}
