package ext

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) showCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "show NAME [flags]",
		Short: "Show one extension: its state, what it may do, what it offers",
		Long: `Show everything about one extension: its state, what it may do and see, the
tools, providers and capabilities that it offers, and its configuration.`,
		Example:           "  $ tgctl ext show scrubber",
		Args:              ui.Exactly("NAME"),
		ValidArgsFunction: a.completeExtensions(),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			e, err := c.GetExtension(ctx, args[0])
			if err != nil {
				return ui.WithHint(err, hints...)
			}
			return a.PrintOne(extensionJSON(e), a.sheet(e))
		}),
	}, extensionJSON(&pb.Extension{}))
}

func (a *app) sheet(e *pb.Extension) *ui.Sheet {
	m, p := e.GetManifest(), e.GetProcess()
	s := &ui.Sheet{}
	s.Add("extension", display.Name(m.GetName())+ui.Spaced(display.Name(m.GetVersion())))
	s.Add("", display.Text(m.GetDescription()))
	s.Add("state", a.programLine(p))
	s.Add("", display.Text(p.GetError()))
	s.Add("", fixOfExtension(e))
	if p.GetPid() != 0 {
		s.Add("process", "pid "+ui.PIDOrDash(p.GetPid())+ui.Choose(p.GetMemory() > 0, ", "+display.Size(p.GetMemory())+" of memory", "")+
			", "+ui.Plural(p.GetRestarts(), "restart", "restarts"))
	}
	manifestWords(s, m)
	for _, t := range e.GetTools() {
		s.Add("tool", display.Name(t.GetName())+ui.AfterColon(display.Text(t.GetDescription())))
	}
	for _, v := range e.GetProviders() {
		s.Add("provider", display.Name(v.GetId())+ui.AfterColon(ui.NameList(v.GetModels())))
	}
	for _, c := range e.GetCapabilities() {
		s.Add(capabilityHead(c.GetKind()), display.Name(c.GetName()))
	}
	for _, v := range e.GetConfig() {
		s.Add("config", display.Name(v.GetKey())+" = "+shownValue(v.GetValue())+ui.Choose(v.GetSet(), "", "  (the default)"))
	}
	if len(e.GetTools()) > 0 {
		a.toolsEntry(s, m.GetName())
	}
	s.Add("folder", display.Text(e.GetDir()))
	s.Add("digest", display.Text(e.GetDigest()))
	return s
}

// toolsEntry adds the entry that an agent's configuration needs to use the tools of an
// extension.
func (a *app) toolsEntry(s *ui.Sheet, extension string) {
	shim, _, err := a.Lasting("tg-shim")
	socket := a.DefaultPath(sock.Paths.ShimSocket)
	if err != nil || socket == "" {
		return // doctor reports missing programs
	}
	s.Add("for agents", "add this to an agent's MCP servers, and restart the agent:")
	quoted := func(text string) display.Safe {
		raw, err := json.Marshal(text)
		if err != nil {
			return ""
		}
		return display.Text(string(raw))
	}
	s.Add("", quoted("ext-"+extension)+`: {"command": `+quoted(shim)+`,`)
	s.Add("", `  "args": ["--extension", `+quoted(extension)+`],`)
	s.Add("", `  "env": {"THOUGHTGATE_SOCKET": `+quoted(socket)+`}}`)
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
	line := ui.OrDash(p.GetState()) + ui.Choose(p.GetStateSince() != nil, " for "+a.Age(p.GetStateSince()), "")
	if p.GetState() == "restarting" && p.GetNext() != nil {
		line += ", restarts in " + ui.InSeconds(p.GetNext().AsTime().Sub(a.Now()))
	}
	return line
}
