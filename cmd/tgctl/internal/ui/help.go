package ui

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// helpColumns is the maximum width of help texts.
const helpColumns = 80

// Help prints what --help shows: the usage line, a description, the commands below cmd,
// the flags and an example.
func (a *App) Help(cmd *cobra.Command, _ []string) {
	w := a.Out
	fmt.Fprintf(w, "Usage: %s\n", UsageLine(cmd))
	fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(Description(cmd)))
	helpVerbs(w, cmd)
	if flags := cmd.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsagesWrapped(helpColumns))
	}
	if flags := cmd.Root().PersistentFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\nGlobal flags:\n%s", flags.FlagUsagesWrapped(helpColumns))
	}
	if fields := cmd.Annotations[FieldsNote]; fields != "" {
		fmt.Fprintf(w, "\n%s\n", FieldsTitle(fields))
		for line := range strings.SplitSeq(fields, "\n") {
			for _, part := range Hanging(display.Safe(line), helpColumns-2, 2) {
				fmt.Fprintf(w, "  %s\n", part)
			}
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExample:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
}

// Description returns the long description of cmd, or else the short one as a sentence.
func Description(cmd *cobra.Command) string { return cmp.Or(cmd.Long, cmd.Short+".") }

// UsageLine returns the usage of cmd in one line. Words in capitals are placeholders,
// brackets mark what is optional, and dots mark what may be repeated.
func UsageLine(cmd *cobra.Command) string {
	line := cmd.CommandPath()
	if _, args, ok := strings.Cut(cmd.Use, " "); ok {
		return line + " " + args
	}
	if cmd.HasAvailableSubCommands() {
		line += " COMMAND"
	}
	if cmd.LocalNonPersistentFlags().HasAvailableFlags() {
		line += " [flags]"
	}
	return line
}

// helpVerbs lists the commands below cmd.
func helpVerbs(w io.Writer, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	left := 0
	for _, sub := range cmd.Commands() {
		left = max(left, len(sub.Name())+2)
	}
	list := func(title, id string) {
		first := true
		for _, sub := range cmd.Commands() {
			if sub.GroupID != id || !sub.IsAvailableCommand() {
				continue
			}
			if first {
				fmt.Fprintf(w, "\n%s\n", title)
				first = false
			}
			fmt.Fprintf(w, "  %-*s%s\n", left, sub.Name(), sub.Short)
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
	}
	list("Commands:", "")
}

// HelpCmd returns the command `tgctl help`. Unlike cobra's own, it fails for an unknown
// command.
func (a *App) HelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Print the help of a command",
		Args:    cobra.ArbitraryArgs,
		Hidden:  true,
		Example: "  $ tgctl help approvals approve",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, name := range args {
				next := verbBelow(at, name)
				if next == nil {
					return &UsageError{Err: errUnknownVerb(at, name), Path: at.CommandPath()}
				}
				at = next
			}
			a.Help(at, nil)
			return nil
		},
	}
}

func verbBelow(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}
