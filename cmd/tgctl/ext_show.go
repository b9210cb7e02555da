package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) extShowCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "show NAME [flags]",
		Short: "Show one extension: its state, what it may do, what it offers",
		Long: `Show everything about one extension: its state, what it may do and see, the
tools, providers and capabilities that it offers, and its configuration.`,
		Example:           "  $ tgctl ext show scrubber",
		Args:              exactly("NAME"),
		ValidArgsFunction: a.completeExtensions(),
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.GetExtension(ctx, args[0])
			if err != nil {
				return withHint(err, extHints...)
			}
			return a.printOne(extensionJSON(e), a.extSheet(e))
		}),
	}, extensionJSON(&pb.Extension{}))
}

func (a *app) extSheet(e *pb.Extension) *sheet {
	m, p := e.GetManifest(), e.GetProcess()
	s := &sheet{}
	s.add("extension", display.Name(m.GetName())+spaced(display.Name(m.GetVersion())))
	s.add("", display.Text(m.GetDescription()))
	s.add("state", a.programLine(p))
	s.add("", display.Text(p.GetError()))
	s.add("", fixOfExtension(e))
	if p.GetPid() != 0 {
		s.add("process", "pid "+pidOrDash(p.GetPid())+choose(p.GetMemory() > 0, ", "+display.Size(p.GetMemory())+" of memory", "")+
			", "+plural(p.GetRestarts(), "restart", "restarts"))
	}
	manifestWords(s, m)
	for _, t := range e.GetTools() {
		s.add("tool", display.Name(t.GetName())+after(display.Text(t.GetDescription())))
	}
	for _, v := range e.GetProviders() {
		s.add("provider", display.Name(v.GetId())+after(nameList(v.GetModels())))
	}
	for _, c := range e.GetCapabilities() {
		s.add(capabilityHead(c.GetKind()), display.Name(c.GetName()))
	}
	for _, v := range e.GetConfig() {
		s.add("config", display.Name(v.GetKey())+" = "+shownValue(v.GetValue())+choose(v.GetSet(), "", "  (the default)"))
	}
	if len(e.GetTools()) > 0 {
		a.toolsEntry(s, m.GetName())
	}
	s.add("folder", display.Text(e.GetDir()))
	s.add("digest", display.Text(e.GetDigest()))
	return s
}

// toolsEntry adds the entry that an agent's configuration needs to use the tools of an
// extension.
func (a *app) toolsEntry(s *sheet, extension string) {
	shim, _, err := a.lastingShim()
	socket := a.shimSocket()
	if err != nil || socket == "" {
		return // doctor reports missing programs
	}
	s.add("for agents", "add this to an agent's MCP servers, and restart the agent:")
	quoted := func(text string) display.Safe {
		raw, err := json.Marshal(text)
		if err != nil {
			return ""
		}
		return display.Text(string(raw))
	}
	s.add("", quoted("ext-"+extension)+`: {"command": `+quoted(shim)+`,`)
	s.add("", `  "args": ["--extension", `+quoted(extension)+`],`)
	s.add("", `  "env": {"THOUGHTGATE_SOCKET": `+quoted(socket)+`}}`)
}

// capabilityHead returns the kind of a capability as the label of its line.
func capabilityHead(kind string) string {
	if kind = string(display.Name(kind)); kind != "" && len(kind) <= 12 {
		return strings.ToLower(kind)
	}
	return "capability"
}

// programLine describes the state of a program, and since when.
func (a *app) programLine(p *pb.Process) display.Safe {
	line := orDash(p.GetState()) + choose(p.GetStateSince() != nil, " for "+a.ago(p.GetStateSince()), "")
	if p.GetState() == "restarting" && p.GetNext() != nil {
		line += ", restarts in " + inSeconds(p.GetNext().AsTime().Sub(a.now()))
	}
	return line
}
