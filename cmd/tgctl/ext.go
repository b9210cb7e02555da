package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) extCmd() *cobra.Command {
	list := a.extListCmd()
	cmd := group("ext", "Install extensions: programs of yours that join the gate", list, a.extShowCmd(), a.extInstallCmd(),
		a.extRemoveCmd(), a.extRunCmd(), a.extLogsCmd(), a.extConfigCmd())
	cmd.Use = "ext [COMMAND]"
	cmd.Long = `An extension is a program of yours that joins the gate: it may see calls before
they are judged and results before the agent does, offer tools, complete
prompts, and have commands of its own. What it may do stands in its manifest,
which you agree to when you install it. Without a command, ext lists what is
installed.`
	cmd.Example = `  $ tgctl ext
  $ tgctl ext install scrubber
  $ tgctl ext show scrubber`
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.Annotations = list.Annotations
	cmd.Args = noArgs
	cmd.RunE = list.RunE
	return cmd
}

// extensionJSON is an extension as --json shows it.
func extensionJSON(e *pb.Extension) pbjson.Object {
	return pbjson.Object{Message: e, More: mended{mendExtension(e)}}
}

func (a *app) extListCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the extensions that are installed, and how they are",
		Long:  `List the extensions that are installed, how they are, and what they see.`,
		Example: `  $ tgctl ext list
  $ tgctl ext list --json | jq '.process | select(.state == "failed").error'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := c.ListExtensions(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				lines := make([]pbjson.Object, len(all))
				for i, e := range all {
					lines[i] = extensionJSON(e)
				}
				return printAllJSON(a, lines)
			}
			if len(all) == 0 {
				a.say("No extension is installed. Install one: tgctl ext install DIR")
				return nil
			}
			return a.extTable(all).Write(a.out, a.width())
		},
	}
	jsonFlag(cmd, &asJSON, extensionJSON(&pb.Extension{}))
	return cmd
}

func (a *app) extTable(all []*pb.Extension) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "NAME", Shrink: 8}, {Head: "VERSION", Shrink: 7}, {Head: "STATE"}, {Head: "AGE", Right: true},
		{Head: "RESTARTS", Right: true}, {Head: "SEES"}, {Head: "OFFERS", Shrink: 8},
	}}
	for _, e := range all {
		m, p := e.GetManifest(), e.GetProcess()
		age := display.Safe("-")
		if p.GetSince() != nil {
			age = display.Span(a.now().Sub(p.GetSince().AsTime()))
		}
		t.Add(display.Name(m.GetName()), orDash(m.GetVersion()), orDash(p.GetState()), age, display.Count(p.GetRestarts()), seesWord(m), offersWord(e))
		if why := p.GetError(); why != "" {
			t.Note(display.Text(why))
		}
		if mend := mendExtension(e); mend != "" {
			t.Note(mend)
		}
	}
	return t
}

// seesWord says in a word what an extension's hooks see.
func seesWord(m *pb.ExtensionManifest) display.Safe {
	switch before, after := m.GetBefore() != nil, m.GetAfter() != nil; {
	case before && after:
		return "calls, results"
	case before:
		return "calls"
	case after:
		return "results"
	}
	return "-"
}

// offersWord says what an extension offers.
func offersWord(e *pb.Extension) display.Safe {
	var all display.Safe
	for _, one := range []struct {
		n          int
		thing, all display.Safe
	}{
		{len(e.GetTools()), "tool", "tools"}, {len(e.GetProviders()), "provider", "providers"},
		{len(e.GetCapabilities()), "capability", "capabilities"},
	} {
		if one.n > 0 && all != "" {
			all += ", "
		}
		if one.n > 0 {
			all += plural(one.n, one.thing, one.all)
		}
	}
	if all == "" {
		return "-"
	}
	return all
}

// mendExtension says what a person can do about an extension that has failed.
func mendExtension(e *pb.Extension) display.Safe {
	name := shellWord(display.Name(e.GetManifest().GetName()))
	switch {
	case e.GetChanged():
		return "look at what is there, then agree to it or remove it: tgctl ext install " + shellWord(display.Text(e.GetDir()))
	case e.GetMissing() != "":
		return "install " + display.Name(e.GetMissing()) + ", then: tgctl restart " + name
	case e.GetProcess().GetState() == "failed":
		return "see: tgctl logs " + name + "; then: tgctl restart " + name
	}
	return ""
}

// extFailure says of an error what to do about it.
func extFailure(err error) error {
	switch {
	case errors.Is(err, client.ErrNotFound):
		return &hintError{err: err, hint: "See what is installed: tgctl ext"}
	case errors.Is(err, client.ErrChanged):
		return &hintError{err: err, hint: "Look at it again: tgctl ext install DIR"}
	}
	return loosenFailure(err)
}

// completeExtensions offers the names of what is installed.
func (a *app) completeExtensions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		all, err := c.ListExtensions(ctx)
		for _, e := range all {
			m := e.GetManifest()
			names = append(names, cobra.CompletionWithDesc(m.GetName(), string(display.Text(m.GetDescription()))))
		}
		return names, err
	})
}

func (a *app) extLogsCmd() *cobra.Command {
	cmd := a.logsOf(&which{kind: kindExtension})
	cmd.Short = "Show what an extension wrote to stderr"
	cmd.Long = `Show what an extension wrote to its standard error. The last 1,000 lines or
64 KiB are held, over its restarts, until the daemon ends. It is the same as
tgctl logs --kind extension.`
	cmd.Example = "  $ tgctl ext logs scrubber -f"
	cmd.ValidArgsFunction = a.completeExtensions
	return cmd
}
