package main

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/fake"
)

// demoLine is what the demo's agent prints: one line of JSON as it begins a
// step, and one with what came of it.
type demoLine struct {
	Begin     bool            `json:"begin,omitempty"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Text      string          `json:"text,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Error     string          `json:"error,omitempty"`
}

func (a *app) demoAgentCmd() *cobra.Command {
	o := fake.AgentOptions{Stderr: a.err, Patience: 15 * time.Minute}
	var script string
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "The agent of the demo",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Steps, err = fake.ReadScript(script); err != nil {
				return err
			}
			emit := func(line demoLine) {
				if printErr := a.printJSON(line); printErr != nil && err == nil {
					err = printErr
				}
			}
			o.Begin = func(s fake.Step) {
				emit(demoLine{Begin: true, Server: s.Server, Tool: s.Tool, Arguments: s.Arguments})
			}
			o.Report = func(r fake.Result) {
				line := demoLine{Server: r.Server, Tool: r.Tool, Text: r.Text, IsError: r.IsError}
				switch {
				case r.Err != nil:
					line.Error = r.Err.Error()
				case r.Failed != nil:
					line.Error = r.Failed.Error()
				}
				emit(line)
			}
			return errors.Join(fake.RunAgent(cmd.Context(), o), err)
		},
	}
	cmd.Flags().StringVar(&o.Config, "config", "", "`FILE` that names the servers")
	cmd.Flags().StringVar(&script, "script", demoScript, "`TEXT` with a step a line")
	return cmd
}

func (a *app) demoServerCmd() *cobra.Command {
	var o fake.ServerOptions
	cmd := &cobra.Command{
		Use:    "server",
		Short:  "The MCP server of the demo",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fake.Serve(cmd.Context(), a.in, a.out, a.err, o)
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", "notes", "what it calls itself")
	cmd.Flags().StringVar(&o.Log, "log", "", "`FILE` for what it executes")
	return cmd
}
