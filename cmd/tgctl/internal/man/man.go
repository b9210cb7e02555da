// Package man has the command that writes the man pages: one for each command, from the tree that it is
// part of, and thoughtgate.yaml(5), from the schema. Whoever makes packages runs it.
package man

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// Command returns the command man, which help does not list.
func Command(a *connect.App) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages of all commands and of the configuration",
		Long: `Write a man page for each command, and thoughtgate.yaml(5), to a folder. They
bear the date of SOURCE_DATE_EPOCH if it is set.`,
		Hidden:  true,
		Args:    ui.Exactly("DIR"),
		Example: "  $ tgctl man ./man",
		RunE: func(cmd *cobra.Command, args []string) error {
			return writePages(cmd.Context(), a, cmd.Root(), args[0])
		},
	}
}

func writePages(ctx context.Context, a *connect.App, root *cobra.Command, dir string) error {
	date := a.Now()
	if epoch := a.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH is %q; set it to a number of seconds since 1970", epoch)
		}
		date = time.Unix(seconds, 0)
	}
	pages := map[string]string{}
	day := date.UTC().Format(time.DateOnly)
	commandPages(pages, root, day)
	schema, err := policy.Schema(ctx, a, "config")
	if err != nil {
		return fmt.Errorf("write thoughtgate.yaml(5): %w", err)
	}
	if pages["thoughtgate.yaml.5"], err = configPage(schema, day); err != nil {
		return fmt.Errorf("write thoughtgate.yaml(5): %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return ui.FileError("make the folder for the pages", err)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// commandPages adds the pages of cmd and of all commands below it, by file name.
func commandPages(pages map[string]string, cmd *cobra.Command, date string) {
	pages[pageName(cmd)+".1"] = commandPage(cmd, date)
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			commandPages(pages, sub, date)
		}
	}
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// commandPage returns the man page of cmd, with the same contents as --help.
func commandPage(cmd *cobra.Command, date string) string {
	p := newRoff(pageName(cmd), "1", date, "User Commands")
	p.section("NAME")
	p.line(plain(pageName(cmd) + " - " + strings.ToLower(cmd.Short[:1]) + cmd.Short[1:]))
	p.section("SYNOPSIS")
	p.line(bold(cmd.CommandPath()) + plain(strings.TrimPrefix(ui.UsageLine(cmd), cmd.CommandPath())))
	p.section("DESCRIPTION")
	p.prose(ui.Description(cmd))
	addVerbs(p, cmd)
	if cmd.HasAvailableFlags() {
		p.section("OPTIONS")
		addFlags(p, cmd.LocalNonPersistentFlags())
		addFlags(p, cmd.Root().PersistentFlags())
	}
	if fields := cmd.Annotations[ui.FieldsNote]; fields != "" {
		p.section("JSON")
		p.line(plain(ui.FieldsTitle(fields)))
		p.asItStands(strings.Split(fields, "\n"))
	}
	if !cmd.HasParent() {
		addSurroundings(p)
	}
	p.section("EXAMPLES")
	p.asItStands(strings.Split(strings.Trim(cmd.Example, "\n"), "\n"))
	p.seeAlso(relatedPages(cmd))
	return p.String()
}

// addVerbs lists the commands below cmd by group.
func addVerbs(p *roff, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	p.section("COMMANDS")
	list := func(id string) {
		for _, sub := range cmd.Commands() {
			if sub.GroupID == id && sub.IsAvailableCommand() {
				p.item(bold(pageName(sub))+"(1)", sub.Short+".")
			}
		}
	}
	for _, g := range cmd.Groups() {
		p.subsection(strings.TrimSuffix(g.Title, ":"))
		list(g.ID)
	}
	list("")
}

func addFlags(p *roff, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, meaning := pflag.UnquoteUsage(f)
		head := bold("--" + f.Name)
		if f.Shorthand != "" {
			head = bold("-"+f.Shorthand) + ", " + head
		}
		if value != "" {
			head += " " + slant(value)
		}
		switch f.DefValue {
		case "", "0", "0s", "false", "[]": // a zero value, which is evident
		default:
			meaning += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		p.item(head, sentence(meaning))
	})
}

// sentence makes a sentence of a note.
func sentence(note string) string {
	if note == "" {
		return ""
	}
	return strings.ToUpper(note[:1]) + strings.TrimRight(note[1:], ".") + "."
}

// relatedPages returns the names of the pages to see with that of cmd.
func relatedPages(cmd *cobra.Command) []string {
	if !cmd.HasParent() {
		return []string{"tg-shim(1)", "thoughtgate.yaml(5)", "thoughtgated(8)"}
	}
	pages := []string{pageName(cmd.Parent()) + "(1)"}
	for _, sub := range cmd.Parent().Commands() {
		if sub != cmd && sub.IsAvailableCommand() && cmd.Parent().HasParent() {
			pages = append(pages, pageName(sub)+"(1)")
		}
	}
	return pages
}

// addSurroundings adds the sections that apply to all commands.
func addSurroundings(p *roff) {
	p.list("EXIT STATUS", bold,
		strconv.Itoa(ui.ExitOK), "Done.",
		strconv.Itoa(ui.ExitFailed), "The command failed; the reason is on standard error.",
		strconv.Itoa(ui.ExitUsage), "The command line is invalid.",
		strconv.Itoa(ui.ExitNotRunning), "No daemon is running, and none was started.",
		strconv.Itoa(ui.ExitCheck), "A check failed.")
	p.WriteString(".PP\n")
	p.line(bold("tgctl wrap") + " exits with the agent's exit code.")
	p.list("ENVIRONMENT", bold,
		"XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR", "The locations of ThoughtGate's folders; see FILES.",
		"THOUGHTGATE_CONTROL", "The daemon's control socket, if it is not the default one.",
		"COLUMNS", "The width of tables; the default is the width of the terminal.",
		"VISUAL, EDITOR", "The editor that approvals approve --edit starts.")
	p.list("FILES", slant,
		"~/.config/thoughtgate/", "The configuration, thoughtgate.yaml, and the Cedar policies that it names.",
		"~/.local/state/thoughtgate/", "The audit log and the state: questions, grants, tools, servers, and copies for undo.",
		"$XDG_RUNTIME_DIR/thoughtgate/", "The sockets: control.sock for you, shim.sock for agents.")
}
