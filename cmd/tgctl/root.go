package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Groups of commands in the help of tgctl itself.
const (
	groupMain   = "main"
	groupLook   = "look"
	groupDaemon = "daemon"
)

// rootCmd builds the tree of commands.
func (a *app) rootCmd() *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "tgctl",
		Short: "Wrap an AI agent, answer its questions, read the audit log",
		Long: `Tgctl wraps an AI agent so that every tool call it makes is judged and recorded,
and held for your approval where the policy requires it.

With --json, the output has the fields that --help lists. A field marked with ?
may be absent; any other without a value is null, "", 0, false, [] or {}. Times
are in UTC, durations in seconds.`,
		Example: `  $ tgctl wrap -- claude             # in one terminal, work as usual
  $ tgctl approvals                  # in another, list waiting questions
  $ tgctl approvals approve A-1`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return a.printVersion(false)
			}
			return unknownVerb(cmd, args)
		},
		Args: cobra.ArbitraryArgs,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			if a.disableCoreDumps != nil && cmd.Name() != "wrap" { // an agent keeps its own limit on core dumps
				a.disableCoreDumps()
			}
		},
	}
	root.AddGroup(
		&cobra.Group{ID: groupMain, Title: "Agents and approvals:"},
		&cobra.Group{ID: groupLook, Title: "Status and records:"},
		&cobra.Group{ID: groupDaemon, Title: "Configuration and daemon:"},
	)
	add := func(group string, verbs ...*cobra.Command) {
		for _, verb := range verbs {
			verb.GroupID = group
			root.AddCommand(verb)
		}
	}
	add(groupMain, a.wrapCmd(), a.runCmd(), a.unwrapCmd(), a.protectCmd(), a.unprotectCmd(), a.approvalsCmd(), a.grantsCmd(), a.presenceCmd(), a.notifyCmd(), a.slackCmd(), a.extCmd(), a.demoCmd())
	add(groupLook, a.statusCmd(), a.doctorCmd(), a.sessionsCmd(), a.psCmd(), a.logsCmd(), a.toolsCmd(), a.serversCmd(), a.auditCmd(), a.metricsCmd())
	add(groupDaemon, a.policyCmd(), a.daemonCmd(), a.restartCmd(), a.completionCmd(), a.manCmd(), a.versionCmd())

	root.PersistentFlags().BoolVar(&a.noStart, "no-start", false, "do not start thoughtgated if it is not running")
	root.PersistentFlags().BoolP("help", "h", false, "print this help and exit")
	root.Flags().BoolVar(&showVersion, "version", false, "print the version and exit")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.helpCmd())
	root.SetHelpFunc(a.help)
	root.SetUsageFunc(func(*cobra.Command) error { return nil }) // errors point to --help
	prepare(root)
	return root
}

// prepare adds to all commands of the tree what cobra lacks: errors of flags and arguments
// become usage errors, and commands that declare no arguments accept none.
func prepare(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{err: err, path: cmd.CommandPath()}
	})
	check := cmd.Args
	if check == nil {
		check = noArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err: err, path: cmd.CommandPath()}
		}
		return nil
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			var usage *usageError
			if errors.As(err, &usage) {
				usage.path = cmp.Or(usage.path, cmd.CommandPath())
			}
			return err
		}
	}
	cmd.DisableFlagsInUseLine = true
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}

// noArgs refuses arguments. If cmd has subcommands, the first argument is reported as an
// unknown one.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return errUnknownVerb(cmd, args[0])
	}
	return fmt.Errorf("unexpected argument %q: %q takes no arguments", args[0], cmd.CommandPath())
}

// unknownVerb runs a group of commands without a valid subcommand: it returns a usage error.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{err: errUnknownVerb(cmd, args[0])}
	}
	names := each(filter(cmd.Commands(), (*cobra.Command).IsAvailableCommand), (*cobra.Command).Name)
	return misuse("%q needs a command; use one of: %s", cmd.CommandPath(), strings.Join(names, ", "))
}

// errUnknownVerb returns an error for an unknown subcommand, with similar names.
func errUnknownVerb(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("unknown command %q for %q", name, cmd.CommandPath())
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// group returns a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: unknownVerb}
	cmd.AddCommand(subs...)
	return cmd
}

// listGroup returns a group that runs list if no subcommand is named.
func listGroup(name, short string, list *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd := group(name+" [COMMAND]", short, append(subs, list)...)
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.Annotations, cmd.RunE = list.Annotations, list.RunE
	return cmd
}
