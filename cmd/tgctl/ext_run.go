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

// exitInterrupted is the code of a program that Ctrl-C has ended.
const exitInterrupted = 130

// commandEventJSON is what a command says as --json shows it.
type commandEventJSON struct {
	Type    string `json:"type"`              // output, task, end
	Kind    string `json:"kind,omitempty"`    // output: text, system, done; task: a word of the extension's
	Content string `json:"content,omitempty"` // output
	Phase   string `json:"phase,omitempty"`   // task: start, update, log, done
	ID      string `json:"id,omitempty"`      // task
	Label   string `json:"label,omitempty"`   // task
	Current uint64 `json:"current,omitempty"` // task
	Total   uint64 `json:"total,omitempty"`   // task; left out when not known
	Line    string `json:"line,omitempty"`    // task: of its log, or a message
	Error   string `json:"error,omitempty"`   // task: why it failed
	Exit    *int32 `json:"exit_code,omitempty"`
}

func (a *app) extRunCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run [flags] NAME COMMAND [ARG...]",
		Short: "Run a command of an extension",
		Long: `Run a command that an extension offers, and print what it says as it comes: its
output to stdout, the rest and on a terminal the progress of its work to stderr.
Flags come before NAME; what stands behind COMMAND goes to it as it is. Ctrl-C
cancels it.

Exits with the command's own code, and with 130 when it was cancelled. Not for
an agent, nor for what an agent starts: a command may loosen what holds.`,
		Example: `  $ tgctl ext run quota show
  $ tgctl ext run --json scrubber report`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exactly("NAME", "COMMAND")(nil, args)
			}
			return nil
		},
		ValidArgsFunction: a.completeCommands,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			return a.invoke(cmd.Context(), c, &pb.InvokeRequest{Name: args[0], Command: args[1], Args: args[2:]}, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON, commandEventJSON{})
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// invoke runs a command and returns its exit code as an error.
func (a *app) invoke(ctx context.Context, c *client.Client, req *pb.InvokeRequest, asJSON bool) error {
	s := &commandScreen{app: a}
	defer s.leave()
	for e, err := range c.Invoke(ctx, req) {
		switch {
		case err != nil && ctx.Err() != nil:
			s.leave()
			return &exitError{code: exitInterrupted, err: fmt.Errorf("%s %s was cancelled", display.Name(req.GetName()), display.Name(req.GetCommand()))}
		case err != nil:
			s.leave()
			return extFailure(err)
		case asJSON:
			err = a.printJSON(commandEventToJSON(e))
		default:
			err = s.show(e)
		}
		if err != nil {
			return err
		}
		if end := e.GetEnd(); end != nil {
			return commandExit(end.GetExitCode())
		}
	}
	return errors.New("the daemon did not say how the command ended")
}

// commandExit makes an exit code of what a command says, which need not be one.
func commandExit(code int32) error {
	switch {
	case code == 0:
		return nil
	case code < 0 || code > 255:
		return &exitError{code: exitFailed, err: fmt.Errorf("it exited with %d, which is no exit code here", code)}
	}
	return &exitError{code: int(code)}
}

func commandEventToJSON(e *pb.InvokeEvent) commandEventJSON {
	switch e := e.GetEvent().(type) {
	case *pb.InvokeEvent_Output:
		return commandEventJSON{Type: "output", Kind: e.Output.GetKind(), Content: e.Output.GetContent()}
	case *pb.InvokeEvent_Task:
		t := e.Task
		return commandEventJSON{
			Type: "task", Phase: t.GetPhase(), ID: t.GetId(), Label: t.GetLabel(), Kind: t.GetKind(),
			Current: t.GetCurrent(), Total: t.GetTotal(), Line: t.GetLine(), Error: t.GetError(),
		}
	case *pb.InvokeEvent_End:
		return commandEventJSON{Type: "end", Exit: &e.End.ExitCode}
	}
	return commandEventJSON{Type: "unknown"} // of a newer daemon
}

// completeCommands offers extensions, and then the commands that one declares.
func (a *app) completeCommands(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return a.completeExtensions(cmd, args, typed)
	}
	return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (commands []string, err error) {
		e, err := c.GetExtension(ctx, args[0])
		for _, one := range e.GetCapabilities() {
			if one.GetKind() == "command" {
				commands = append(commands, string(display.Name(one.GetName())))
			}
		}
		return commands, err
	})
}
