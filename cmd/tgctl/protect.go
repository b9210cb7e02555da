package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

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
}

func (a *app) protectCmd() *cobra.Command {
	var o protectOptions
	cmd := &cobra.Command{
		Use:   "protect [flags] AGENT... | --all | --repair [AGENT...]",
		Short: "Govern every start of an agent, without wrap",
		Long: `Rewrite an agent's own configuration for good, so that each of its MCP servers
is started through tg-shim whenever and however the agent is started, and none
runs without the daemon. What would be changed is shown first, and nothing is
done until you agree: with y at the terminal, or with --yes.

The daemon looks after the files from then on. When the agent or somebody else
takes our lines out, or adds a server, it puts that right and writes it down;
with --watch-only it only tells you, in tgctl status. tgctl unprotect puts the
files back.

A project's own files, such as .mcp.json, are left alone: they are shared with
others. tgctl wrap governs their servers for a run.`,
		Example: `  $ tgctl protect claude-code
  $ tgctl protect --all --dry-run
  $ tgctl protect --repair`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.all && (len(args) > 0 || o.repair || o.config != ""):
				return errors.New("--all goes with no agent, and not with --repair or --config-path")
			case !o.all && !o.repair && len(args) == 0:
				return errors.New("AGENT is missing: name one or more of " + strings.Join(agentconf.Names(), ", ") + ", or say --all")
			case o.config != "" && len(args) != 1:
				return errors.New("--config-path goes with one agent")
			case o.repair && (o.dryRun || o.watchOnly || o.config != ""):
				return errors.New("--repair goes with agents alone")
			}
			return nil
		},
		ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.config != "" {
				if o.config, err = filepath.Abs(o.config); err != nil {
					return err
				}
			}
			p := &protecting{app: a, protectOptions: o}
			return p.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "every agent whose own configuration is found")
	flags.StringVar(&o.config, "config-path", "", "rewrite this `FILE` instead of those that the agent reads")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be changed as a diff, and change nothing")
	flags.BoolVar(&o.repair, "repair", false, "put right what is protected already, without asking again")
	flags.BoolVar(&o.watchOnly, "watch-only", false, "when lines get lost only tell of it, in tgctl status")
	flags.BoolVar(&o.yes, "yes", false, "agree to what would be shown")
	return cmd
}

// completeAgents completes the types of agents.
func completeAgents(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return agentconf.Names(), cobra.ShellCompDirectiveNoFileComp
}
