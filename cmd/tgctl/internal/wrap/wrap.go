// Package wrap has the commands of tgctl that have the servers of an agent started through tg-shim, and
// restore what they rewrote for that: wrap and unwrap for one run, protect and unprotect for good.
//
// Wrap does this, in this order:
//
//  1. plan: read the files of the agent, and choose between a flag or variable and rewritten files
//     (plan.go); a dry run shows the plan and ends here (dry.go)
//  2. write: lock and back up the files, open a session at the daemon, which restores them if this
//     process can't (open.go), ask about servers that come with the project (shipped.go), and rewrite
//  3. launch: start the agent as a child of this process (launch.go)
//  4. watch: forward signals until the agent has ended (watch.go), or the application that it has only
//     launched (application.go), and meanwhile look for servers that are added (follow.go)
//  5. restore: drain the session, restore the files, report, and exit as the agent did
//
// The order itself is wrapping.run and wrapping.govern (wrapping.go). Once the files are locked, step 5
// follows, whatever fails. Each step can be the last of this process: then the daemon, the next wrap or
// unwrap restores the files.
//
// Protect plans (protect_plan.go), shows the changes, asks, and rewrites the files (protect_run.go). It
// does not launch the agent: the daemon watches the files.
package wrap

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what these commands use.
type app struct{ *connect.App }

// options holds the flags of wrap.
type options struct {
	agentType string
	config    string
	profile   string
	keep      bool // --no-restore
	rewrite   bool
	dryRun    bool
	wait      bool
	noWait    bool
	waitFor   time.Duration // how long to wait for a first server or process after COMMAND has returned
	adopt     bool
	verbose   bool
	version   bool
	doors
}

// Command returns the command wrap.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	var o options
	cmd := &cobra.Command{
		Use:   "wrap [flags] -- COMMAND [ARGS...]",
		Short: "Run an agent with its MCP servers and its own tools governed",
		Long: `Run an agent so that every call to an MCP server is judged and recorded, and
held for your approval where the policy requires it. So is what the agent does
with tools of its own (shell, files, web), if it runs a hook before it uses one:
these are judged as calls of the server "agent". Claude Code, Gemini CLI, Qwen
Code and Crush do; for others see --unproven. --only governs one of the two.

If the agent takes its servers by a flag or a variable, they are passed that
way, each to be started through tg-shim, and its files are not changed.
--dry-run shows which way is used.

Otherwise, or with --rewrite, the agent's configuration is rewritten, and
restored when the agent ends: byte for byte, or entry by entry if the agent or
you changed it meanwhile. If tgctl is killed, the daemon restores it; if that is
killed too, use tgctl unwrap.

The command of a graphical application (Cursor, VS Code, Windsurf, Zed, Claude
Desktop) returns at once, while the application starts the servers. The session
then stays open until the application and its last server have ended, or until
Ctrl-C. --wait does the same for other commands, --no-wait turns it off.

A server added while the agent is running is not governed until the next
session. With --adopt, its entry is rewritten as soon as it is seen. Both are
reported at the end, and by tgctl sessions meanwhile.

Exits with the agent's exit code, 128+N if signal N ended it, 125 if wrap itself
failed, 126 if COMMAND can't be run, 127 if it was not found.`,
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
				_, err := fmt.Fprintln(a.Out, ui.Version())
				return err
			}
			a.ConfigMismatchChecked = true // namedIsInForce refuses it
			return a.wrap(cmd, o, args)
		},
	}
	o.flags(cmd.Flags())
	ui.CompleteFlag(cmd, "agent-type", ui.OneOf(agentconf.Names()...))
	ui.CompleteFlag(cmd, "profile", ui.OneOf("production", "development"))
	ui.CompleteFlag(cmd, "only", ui.OneOf(doorMCP, doorTools))
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	return cmd
}

// wrap runs an agent with its servers governed.
func (a *app) wrap(cmd *cobra.Command, o options, args []string) error {
	if err := o.check(); err != nil {
		return &ui.UsageError{Err: err, Path: cmd.CommandPath()}
	}
	w, err := newWrapping(a, o, args)
	if err == nil {
		err = w.run(cmd.Context())
	}
	return asWrapError(err)
}

// check returns an error if the flags are not valid.
func (o *options) check() error {
	if o.profile != "" && profiles[o.profile] == pb.Profile_PROFILE_UNSPECIFIED {
		return fmt.Errorf("--profile must be production or development, not %q", o.profile)
	}
	if o.waitFor <= 0 {
		return fmt.Errorf("--wait-for must be positive, not %v; to not wait, use --no-wait", o.waitFor)
	}
	return o.doors.check()
}

// flags declares the flags.
func (o *options) flags(flags *pflag.FlagSet) {
	flags.SetInterspersed(false)
	flags.StringVar(&o.agentType, "agent-type", "", "the agent's `TYPE`, if its command does not identify it: "+strings.Join(agentconf.Names(), ", "))
	flags.StringVar(&o.config, "config-path", "", "rewrite `FILE` instead of the agent's files")
	o.doors.flags(flags)
	flags.StringVar(&o.profile, "profile", "", "`PROFILE` of the session: production (enforce) or development (only record)")
	flags.BoolVar(&o.rewrite, "rewrite", false, "rewrite the files even if the agent takes a flag or a variable")
	flags.BoolVar(&o.keep, "no-restore", false, "rewrite the configuration and do not restore it")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the changes as a diff and make none")
	flags.BoolVar(&o.wait, "wait", false, "COMMAND only launches the agent: wait for the agent and its last server to end")
	flags.BoolVar(&o.noWait, "no-wait", false, "end once COMMAND has returned and no server is in use")
	flags.DurationVar(&o.waitFor, "wait-for", firstServerTimeout, "after COMMAND has returned without a running agent, wait `DURATION` for a server")
	flags.BoolVar(&o.adopt, "adopt", false, "also govern servers that are added or changed while the agent is running; implies --rewrite")
	flags.BoolVar(&o.verbose, "verbose", false, "print each step: daemon, session, files, servers and their commands")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
}

// profiles maps the values of --profile to profiles.
var profiles = map[string]pb.Profile{"production": pb.Profile_PROFILE_PRODUCTION, "development": pb.Profile_PROFILE_DEVELOPMENT}

// asWrapError gives an error without an exit code the exit code of wrap itself. It adds a hint if
// another session holds the files.
func asWrapError(err error) error {
	if locked, ok := errors.AsType[*agentconf.LockedError](err); ok && !locked.Brief() {
		err = &ui.HintError{Err: err, Hint: "End that session first. For several at once, use `tgctl protect` instead of wrap."}
	}
	return ui.OwnError(err)
}
