// Package ext has the commands of tgctl for extensions: they install and remove them, show what they may
// do, set their values, and run their commands.
package ext

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/programs"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what these commands use.
type app struct{ *connect.App }

// Command returns the command ext.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.ListGroup("ext", "Install and manage extensions", a.listCmd(), a.showCmd(), a.installCmd(),
		a.removeCmd(), a.runCmd(), a.logsCmd(), a.configCmd())
	cmd.Long = `An extension is a program of yours that joins the gate: it may see calls before
they are judged and results before the agent does, offer tools, complete
prompts, and have its own commands. Its manifest says what it may do; you agree
to that when you install it. Without a command, ext lists what is installed.`
	cmd.Example = `  $ tgctl ext
  $ tgctl ext install scrubber
  $ tgctl ext show scrubber`
	return cmd
}

// extensionJSON returns an extension as --json shows it.
func extensionJSON(e *pb.Extension) pbjson.Object {
	return pbjson.Object{Message: e, More: programs.WithFix{Fix: fixOfExtension(e)}}
}

func (a *app) listCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "list [flags]",
		Short: "List the installed extensions and their state",
		Long:  `List the installed extensions, their state, and what they see and offer.`,
		Example: `  $ tgctl ext list
  $ tgctl ext list --json | jq '.process | select(.state == "failed").error'`,
		RunE: connect.PrintListed(a.App, (*client.Client).ListExtensions, func(e *pb.Extension) any { return extensionJSON(e) },
			"No extension is installed. Install one: tgctl ext install DIR", a.table),
	}, extensionJSON(&pb.Extension{}))
}

func (a *app) table(all []*pb.Extension) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "NAME", Shrink: 8}, {Head: "VERSION", Shrink: 7}, {Head: "STATE", Tone: ui.ToneOf}, {Head: "AGE", Right: true},
		{Head: "RESTARTS", Right: true}, {Head: "SEES"}, {Head: "OFFERS", Shrink: 8},
	}}
	for _, e := range all {
		m, p := e.GetManifest(), e.GetProcess()
		t.Add(display.Name(m.GetName()), ui.OrDash(m.GetVersion()), ui.OrDash(p.GetState()), a.Age(p.GetSince()), display.Count(p.GetRestarts()), seesWord(m), offersWord(e))
		t.NoteIn(display.Deny, display.Text(p.GetError()))
		t.Note(fixOfExtension(e))
	}
	return t
}

// seesWord lists what an extension's hooks see.
func seesWord(m *pb.ExtensionManifest) display.Safe {
	return cmp.Or(ui.Join(ui.NonEmpty(ui.Choose(m.GetBefore() != nil, "calls", ""), ui.Choose(m.GetAfter() != nil, "results", "")), ", "), "-")
}

// offersWord lists what an extension offers.
func offersWord(e *pb.Extension) display.Safe {
	return cmp.Or(ui.Join(ui.NonEmpty(ui.Some(len(e.GetTools()), "tool", "tools", ""), ui.Some(len(e.GetProviders()), "provider", "providers", ""),
		ui.Some(len(e.GetCapabilities()), "capability", "capabilities", "")), ", "), "-")
}

// fixOfExtension describes how a person can fix an extension that has failed.
func fixOfExtension(e *pb.Extension) display.Safe {
	name := ui.ShellWord(display.Name(e.GetManifest().GetName()))
	switch {
	case e.GetChanged():
		return "review its files, then install them again or remove it: tgctl ext install " + ui.ShellWord(display.Text(e.GetDir()))
	case e.GetMissing() != "":
		return "install " + display.Name(e.GetMissing()) + ", then: tgctl restart " + name
	case e.GetProcess().GetState() == "failed":
		return "see: tgctl logs " + name + "; then: tgctl restart " + name
	}
	return ""
}

var hints = slices.Concat([]ui.Hint{
	{Err: client.ErrNotFound, Text: "List the installed extensions: tgctl ext"},
	{Err: client.ErrChanged, Text: "Review it again: tgctl ext install DIR"},
}, programs.LoosenHints)

// completeExtensions completes the names of installed extensions.
func (a *app) completeExtensions() cobra.CompletionFunc {
	return connect.FirstAlone(connect.Listed(a.App, (*client.Client).ListExtensions, func(e *pb.Extension) string {
		return connect.Described(e.GetManifest().GetName(), display.Text(e.GetManifest().GetDescription()))
	}))
}

func (a *app) logsCmd() *cobra.Command {
	cmd := programs.ExtensionLogsCommand(a.App)
	cmd.Short = "Show what an extension wrote to stderr"
	cmd.Long = `Show what an extension wrote to stderr. The daemon keeps the last 1,000 lines or
64 KiB until it ends, across restarts of the extension. This is the same as
tgctl logs --kind extension.`
	cmd.Example = "  $ tgctl ext logs scrubber -f"
	cmd.ValidArgsFunction = a.completeExtensions()
	return cmd
}
