package ui

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Prepare adds to all commands of the tree what cobra lacks: errors of flags and arguments
// become usage errors, and commands that declare no arguments accept none.
func Prepare(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &UsageError{Err: flagError(err), Path: cmd.CommandPath()}
	})
	check := cmd.Args
	if check == nil {
		check = NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{Err: err, Path: cmd.CommandPath()}
		}
		return nil
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if usage, ok := errors.AsType[*UsageError](err); ok {
				usage.Path = cmp.Or(usage.Path, cmd.CommandPath())
			}
			return err
		}
	}
	cmd.DisableFlagsInUseLine = true
	for _, sub := range cmd.Commands() {
		Prepare(sub)
	}
}

// flagError says what a flag needs, in place of what Go's parsers say.
func flagError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	kind, needs := invalid.GetFlag().Value.Type(), ""
	switch {
	case strings.HasPrefix(kind, "uint"):
		needs = "a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"):
		needs = "a whole number"
	case kind == "bool":
		needs = "true or false"
	case kind == "duration":
		needs = "a duration such as 90s or 2h"
	default:
		return err
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok && errors.Is(number, strconv.ErrRange) && number.Num[0] != '-' {
		return fmt.Errorf("--%s %s: the number is too large", invalid.GetFlag().Name, invalid.GetValue())
	}
	return fmt.Errorf("--%s needs %s, not %q", invalid.GetFlag().Name, needs, invalid.GetValue())
}

// NoArgs refuses arguments. If cmd has subcommands, the first argument is reported as an
// unknown one.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return errUnknownVerb(cmd, args[0])
	}
	return fmt.Errorf("unexpected argument %q: %q takes no arguments", args[0], cmd.CommandPath())
}

// Exactly requires one argument for each name.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", names[len(args)])
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// AtLeastOne requires one or more arguments of the kind that name names.
func AtLeastOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
		return nil
	}
}

// AtMostOne allows at most one argument.
func AtMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("unexpected argument %q", args[1])
	}
	return nil
}

// UnknownVerb runs a group of commands without a valid subcommand: it returns a usage error.
func UnknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &UsageError{Err: errUnknownVerb(cmd, args[0])}
	}
	names := Map(Filter(cmd.Commands(), (*cobra.Command).IsAvailableCommand), (*cobra.Command).Name)
	return Misuse("%q needs a command; use one of: %s", cmd.CommandPath(), strings.Join(names, ", "))
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

// Group returns a command that only holds others.
func Group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: UnknownVerb}
	cmd.AddCommand(subs...)
	return cmd
}

// ListGroup returns a group that runs list if no subcommand is named.
func ListGroup(name, short string, list *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd := Group(name+" [COMMAND]", short, append(subs, list)...)
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.Annotations, cmd.RunE = list.Annotations, list.RunE
	return cmd
}
