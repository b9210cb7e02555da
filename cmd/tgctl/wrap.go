package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Exit codes of wrap itself, as in env(1). Other codes are the agent's.
const (
	exitOurs          = 125
	exitNotExecutable = 126
	exitNotFound      = 127
)

// wrapOptions holds the flags of wrap.
type wrapOptions struct {
	agent   string
	config  string
	profile string
	keep    bool // --no-restore
	rewrite bool
	dryRun  bool
	wait    bool
	noWait  bool
	waitFor time.Duration // how long to wait for a first server or process after COMMAND has returned
	adopt   bool
	verbose bool
	version bool
}

func (a *app) wrapCmd() *cobra.Command {
	var o wrapOptions
	cmd := &cobra.Command{
		Use:   "wrap [flags] -- COMMAND [ARGS...]",
		Short: "Run an agent with each of its MCP servers governed",
		Long: `Run an agent so that every call it makes of an MCP server is judged, recorded,
and where the policy says so held until you answer.

An agent that can be told so for one start, by a flag or a variable, is told to
start each server through tg-shim, and its files stay as they are. --dry-run
says which way is taken.

Otherwise, or with --rewrite, its configuration is rewritten, and put back when
the agent ends: byte for byte, or where the agent or you have written to it
meanwhile, entry by entry. If tgctl is killed, the daemon puts it back; without
either, tgctl unwrap does.

The command of an application with windows (Cursor, VS Code, Windsurf, Zed,
Claude Desktop) returns at once, and what it launched starts the servers. Then
the session goes on until the application has ended and its last server has
left, or until you press Ctrl-C. --wait does that for other commands, --no-wait
for none.

A server that is added while the agent runs, by whoever, is not governed until
the next session, unless you say --adopt: then its entry is rewritten as soon as
that is seen. Either way you are told at the end, and tgctl sessions tells while
it lasts.

Exits as the agent did, 128+N when a signal N ended it, 125 when wrap itself
failed, 126 when COMMAND cannot be run, 127 when there is none.`,
		Example: `  $ tgctl wrap -- claude
  $ tgctl wrap --dry-run -- claude
  $ tgctl wrap -- cursor .
  $ tgctl wrap --agent-type custom --config-path ./mcp.json -- my-agent`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !o.version {
				return errors.New("COMMAND is missing: name the agent after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.version {
				return a.printVersion(false)
			}
			if o.profile != "" && profileNamed(o.profile) == pb.Profile_PROFILE_UNSPECIFIED {
				return &usageError{fmt.Errorf("--profile is production or development, not %q", o.profile), cmd.CommandPath()}
			}
			a.configMismatchChecked = true // namedIsInForce refuses it
			return a.wrap(cmd, o, args)
		},
	}
	o.flags(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	return cmd
}

// wrap runs an agent with its servers governed.
func (a *app) wrap(cmd *cobra.Command, o wrapOptions, args []string) error {
	if o.waitFor <= 0 {
		return &usageError{fmt.Errorf("--wait-for is a time to wait, not %v; --no-wait does not wait", o.waitFor), cmd.CommandPath()}
	}
	w, err := newWrapping(a, o, args)
	if err == nil {
		err = w.run(cmd.Context())
	}
	return asWrapError(err)
}

// flags declares the flags.
func (o *wrapOptions) flags(flags *pflag.FlagSet) {
	flags.SetInterspersed(false)
	flags.StringVar(&o.agent, "agent-type", "", "the agent's `TYPE`, where its command does not tell: "+strings.Join(agentconf.Names(), ", "))
	flags.StringVar(&o.config, "config-path", "", "rewrite this `FILE` instead of those that the agent reads")
	flags.StringVar(&o.profile, "profile", "", "`PROFILE` of the session: production (enforce) or development (only record)")
	flags.BoolVar(&o.rewrite, "rewrite", false, "rewrite the files even of an agent that could be told otherwise")
	flags.BoolVar(&o.keep, "no-restore", false, "rewrite the configuration and leave it so")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be changed as a diff, and change nothing")
	flags.BoolVar(&o.wait, "wait", false, "COMMAND only launches the agent: go on until that and its last server have gone")
	flags.BoolVar(&o.noWait, "no-wait", false, "end when COMMAND has returned and no server is in use, whatever the agent")
	flags.DurationVar(&o.waitFor, "wait-for", firstServerTimeout, "where nothing is to be found once COMMAND has returned, wait `DURATION` for a server")
	flags.BoolVar(&o.adopt, "adopt", false, "govern servers too that are added or changed while the agent runs; implies --rewrite")
	flags.BoolVar(&o.verbose, "verbose", false, "say each step: daemon, session, files, servers and what they start")
	flags.BoolVar(&o.version, "version", false, "say which version this is and exit")
}

func profileNamed(name string) pb.Profile {
	switch name {
	case "production":
		return pb.Profile_PROFILE_PRODUCTION
	case "development":
		return pb.Profile_PROFILE_DEVELOPMENT
	}
	return pb.Profile_PROFILE_UNSPECIFIED
}

// asWrapError gives an error without an exit code the exit code of wrap itself. It adds a hint if
// another session holds the files.
func asWrapError(err error) error {
	var locked *agentconf.LockedError
	if errors.As(err, &locked) && !locked.Brief() {
		err = &hintError{err, "End that session first. To have several at once, use `tgctl protect` in place of wrap."}
	}
	var exit *exitError
	var usage *usageError
	if err == nil || errors.As(err, &exit) || errors.As(err, &usage) {
		return err
	}
	return &exitError{exitOurs, err}
}
