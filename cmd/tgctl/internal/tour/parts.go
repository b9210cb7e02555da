package tour

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/demo"
)

// demoServer is the id of the server in the configuration of the demo's agent.
const demoServer = "notes"

// demoLine is a line of JSON that the demo's agent prints: one when it begins a call and
// one with the result, or one with the error that ends it.
type demoLine struct {
	Call   demo.Call    `json:"call"`
	Result *demo.Result `json:"result"`
	Error  string       `json:"error"`
}

func (a *app) demoAgentCmd() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "The agent of the demo",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var printed error
			print := func(line demoLine) { printed = errors.Join(printed, a.PrintJSON(line)) }
			server, err := demo.ReadConfig(config, demoServer)
			if err == nil {
				err = demo.Run(cmd.Context(), server, a.Err, demoCalls,
					func(c demo.Call) { print(demoLine{Call: c}) },
					func(c demo.Call, r demo.Result) { print(demoLine{Call: c, Result: &r}) })
			}
			if err != nil {
				print(demoLine{Error: err.Error()})
			}
			return errors.Join(err, printed)
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "`FILE` that names the server")
	return cmd
}

func (a *app) demoServerCmd() *cobra.Command {
	var name, log string
	cmd := &cobra.Command{
		Use:    "server",
		Short:  "The MCP server of the demo",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Serve(cmd.Context(), a.In, a.Out, name, log)
		},
	}
	cmd.Flags().StringVar(&name, "name", demoServer, "the name of the server")
	cmd.Flags().StringVar(&log, "log", "", "`FILE` for what it executes")
	return cmd
}
