package approval

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// Failure adds to an error which question it is about, and what to do.
func Failure(id string, err error) error {
	return ui.WithHint(About(ID(id), err), append([]ui.Hint{
		{Err: client.ErrForbidden, Text: "Agents and the processes they start cannot answer. Answer from another terminal."},
		{Err: client.ErrNotFound, Text: "List the waiting questions: tgctl approvals"},
		{Err: client.ErrChanged, Text: "Look at it again: tgctl approvals show " + ID(id)},
	}, proofHints...)...)
}

// FailureLine says in one line why a question could not be read or answered.
func FailureLine(id string, err error) display.Safe {
	if ui.ExitCode(err) == ui.ExitNotRunning {
		return display.Name(ID(id)) + ": no answer from the daemon; check whether it is still listed (" + display.Text(client.ErrNotRunning.Error()) + ")"
	}
	err = Failure(id, err)
	line := err.Error()
	if hint, ok := errors.AsType[*ui.HintError](err); ok {
		line += ". " + hint.Hint
	}
	return Clipped(display.Text(line))
}

// proofHints say what to do about a refused proof.
var proofHints = []ui.Hint{
	{Err: client.ErrNotEnrolled, Text: "Set it up at your own terminal: tgctl presence enrol"},
	{Err: client.ErrLockedOut, Text: "Wait, or deny the call, which needs no passphrase. See: tgctl presence status"},
	{Err: client.ErrProofWrong, Text: "Nothing was approved; try again. If the secret is lost: tgctl presence remove --forgotten"},
	{Err: client.ErrProofNeeded, Text: "Answer it at a terminal: tgctl approvals approve"},
}

// ID returns the id that a person meant: a-17 is A-17.
func ID(typed string) string {
	if letter, number, ok := strings.Cut(typed, "-"); ok && len(letter) == 1 && strings.Trim(number, "0123456789") == "" {
		return strings.ToUpper(typed)
	}
	return typed
}

// About puts id before err, unless err already names it.
func About(id string, err error) error {
	if strings.Contains(err.Error(), id) {
		return err
	}
	return fmt.Errorf("%s: %w", id, err)
}
