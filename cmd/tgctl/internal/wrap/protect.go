package wrap

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
)

// protectOptions holds the flags of protect.
type protectOptions struct {
	all       bool
	config    string
	dryRun    bool
	repair    bool
	watchOnly bool
	yes       bool
	doors
}

// ProtectCommand returns the command protect.
func ProtectCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	var o protectOptions
	cmd := &cobra.Command{
		Use:   "protect [flags] AGENT... | --all | --repair [AGENT...]",
		Short: "Govern every start of an agent, without wrap",
		Long: `Rewrite an agent's own configuration permanently, so that each of its MCP
servers is started through tg-shim however the agent is started, and none runs
without the daemon. If the agent runs a hook before it uses a tool of its own
(Claude Code, Gemini CLI, Qwen Code, Crush, Codex CLI, Copilot CLI, opencode;
for others see --unproven), such hooks are added: they run tg-shim too, and
without the daemon those tools are refused. The changes are shown first, and
made when you confirm with y, or with --yes.

--only protects only the servers or only the agent's own tools, and leaves the
other door as it is.

From then on the daemon watches the files. If the agent or another program
removes a tg-shim entry or adds a server, the daemon repairs the file and
records that. With --watch-only it only reports it in tgctl status. tgctl
unprotect restores the files.

A project's files, such as .mcp.json, are not changed, since they are shared
with others. tgctl wrap governs their servers for one run.`,
		Example: `  $ tgctl protect claude-code
  $ tgctl protect --all --dry-run
  $ tgctl protect --repair`,
		Args:              func(_ *cobra.Command, args []string) error { return o.checkArgs(args) },
		ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.config, err = connect.Absolute(o.config); err != nil {
				return err
			}
			p := &protecting{app: a, protectOptions: o}
			return p.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	o.doors.flags(flags)
	ui.CompleteFlag(cmd, "only", ui.OneOf(doorMCP, doorTools))
	flags.BoolVar(&o.all, "all", false, "protect every agent whose configuration is found")
	flags.StringVar(&o.config, "config-path", "", "rewrite `FILE` instead of the agent's files")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the changes as a diff and make none")
	flags.BoolVar(&o.repair, "repair", false, "repair protected files, without asking")
	flags.BoolVar(&o.watchOnly, "watch-only", false, "only report lost entries in tgctl status, do not repair")
	flags.BoolVar(&o.yes, "yes", false, "make the changes without asking")
	return cmd
}

// checkArgs returns an error if the flags and the agents are not valid together.
func (o *protectOptions) checkArgs(args []string) error {
	switch {
	case o.all && (len(args) > 0 || o.repair || o.config != ""):
		return errors.New("--all can't be combined with an agent, --repair or --config-path")
	case !o.all && !o.repair && len(args) == 0:
		return errors.New("AGENT is missing: name one or more of " + strings.Join(agentconf.Names(), ", ") + ", or use --all")
	case o.config != "" && len(args) != 1:
		return errors.New("--config-path needs exactly one agent")
	case o.repair && (o.dryRun || o.watchOnly || o.config != ""):
		return errors.New("--repair can't be combined with --dry-run, --watch-only or --config-path")
	}
	return o.check()
}

// completeAgents completes the types of agents.
func completeAgents(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return agentconf.Names(), cobra.ShellCompDirectiveNoFileComp
}
