package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/status"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lookAtAgents reports which agents were found and which of their servers are ungoverned.
func (x *examination) lookAtAgents(w *status.Surroundings) {
	governed := 0
	var names []string
	for _, s := range w.Agents {
		names = append(names, s.Agent)
		if s.Problem != "" {
			x.addFinding("agents.unreadable", s.Agent, "can't read the configuration of %s: %s", s.Agent, s.Problem)
			continue
		}
		governed += x.lookAtAgent(s)
	}
	for _, p := range w.Rewrites {
		if p.Problem != "" {
			x.addFindingWithFix("agents.protection", p.Agent, p.Fix, "the protection of %s is incomplete: %s", p.Agent, p.Problem)
		}
	}
	if n := x.status.GetUngoverned(); n > 0 {
		x.addFinding("agents.past", "", "%s ungoverned in an open session", ui.Plural(n, "server runs", "servers run"))
	}
	if len(names) == 0 {
		x.addOK("agents", "no agent was found in your home or this folder")
		return
	}
	x.addOK("agents", "%s: %s governed, by protection or a wrap, and no server is ungoverned", strings.Join(names, ", "), ui.Plural(uint32(governed), "server is", "servers are"))
}

// lookAtAgent reports the ungoverned servers of one agent and returns how many are
// governed.
func (x *examination) lookAtAgent(s status.FoundAgent) (governed int) {
	var past, beyond []string
	theirs := map[string][]string{} // by the path of the project's file
	for _, server := range s.Servers {
		switch {
		case server.Off != "", server.Governed == agentconf.ByStray: // lookAtLeftovers reports the strays
		case server.Governed != agentconf.NotGoverned:
			governed++
		case server.Why != "":
			beyond = append(beyond, fmt.Sprintf("%s (%s)", server.ID, server.Why))
		case server.Project:
			theirs[server.Path] = append(theirs[server.Path], server.ID)
		default:
			past = append(past, server.ID)
		}
	}
	x.lookAtTools(s)
	if len(past) > 0 {
		x.addFinding("agents.ungoverned", s.Agent, "%s starts %s ungoverned, unless it is wrapped", s.Agent, strings.Join(ui.Unique(past), ", "))
	}
	for _, path := range s.Files {
		if len(theirs[path]) > 0 {
			x.addFinding("agents.project", commandOf(s.Agent), "%s starts %s of %s ungoverned, unless it is wrapped", s.Agent, strings.Join(ui.Unique(theirs[path]), ", "), path)
		}
	}
	if len(beyond) > 0 {
		x.addFinding("agents.beyond", s.Agent, "%s has servers that can't be governed: %s", s.Agent, strings.Join(ui.Unique(beyond), ", "))
	}
	return governed
}

// lookAtTools reports what is wrong with the hooks for an agent's own tools.
func (x *examination) lookAtTools(s status.FoundAgent) {
	switch t := s.Tools; {
	case t == nil:
	case t.Problem != "":
		x.addFinding("agents.unreadable", s.Agent, "can't read the hooks of %s: %s", s.Agent, t.Problem)
	case t.Governed == agentconf.ByStray:
		x.addFinding("leftovers.lines", t.Path, "%s runs hooks of tg-shim from %s, but no known wrap or protection wrote them", s.Agent, t.Path)
	case t.Governed != agentconf.NotGoverned && t.Off != "":
		x.addFindingWithFix("agents.protection", s.Agent, "remove "+t.Off+" from "+t.Path, "%s runs no hooks, so its own tools are not governed: %s in %s", s.Agent, t.Off, t.Path)
	case t.Governed == agentconf.NotGoverned && s.Protected && t.Proven:
		x.addFinding("agents.tools", s.Agent, "%s is protected, but its own tools are not governed", s.Agent)
	}
}

// commandOf returns the command that starts an agent, as far as its name tells.
func commandOf(agent string) string {
	if agent == "vscode" {
		return "code"
	}
	return strings.TrimSuffix(strings.TrimSuffix(agent, "-cli"), "-code")
}

// rewrote reports whether the wrap of a session has rewritten the file at path.
func rewrote(s *pb.Session, path string) bool {
	return slices.ContainsFunc(s.GetSpec().GetFiles(), func(f *pb.ConfigFile) bool { return f.GetPath() == path })
}

// leftoverIDs are the ids of findings about what previous runs have left.
var leftoverIDs = map[agentconf.LeftoverKind]string{
	agentconf.StaleBackup: "leftovers.backup", agentconf.StaleLock: "leftovers.lock",
	agentconf.StaleTemp: "leftovers.temp", agentconf.Altered: "leftovers.altered", agentconf.AgentsCopy: "leftovers.copy",
}

// lookAtLeftovers finds what previous runs have left in configurations and beside them.
func (x *examination) lookAtLeftovers(w *status.Surroundings) {
	for _, session := range w.Orphans {
		for _, f := range session.GetSpec().GetFiles() {
			x.addFinding("leftovers.wrap", f.GetPath(), "a wrap that has ended rewrote %s, and the file could not be restored: %s", f.GetPath(), session.GetProblem())
		}
	}
	for _, path := range agentconf.Strays(x.paths.Rewrites()) {
		known := slices.ContainsFunc(w.Agents, func(s status.FoundAgent) bool { return slices.Contains(s.Files, path) }) ||
			slices.ContainsFunc(w.Orphans, func(s *pb.Session) bool { return rewrote(s, path) })
		if !known {
			x.addFinding("leftovers.wrap", path, "a wrap that has ended rewrote %s and did not restore it", path)
		}
	}
	for _, s := range w.Agents {
		lines := map[string][]string{}
		for _, server := range s.Servers {
			if server.Governed == agentconf.ByStray {
				lines[server.Path] = append(lines[server.Path], server.ID)
			}
		}
		for _, path := range s.Files {
			switch ids := ui.Unique(lines[path]); {
			case len(ids) > 0 && w.Running:
				x.addFinding("leftovers.lines", path, "%s starts %s through tg-shim, but no known wrap or protection wrote that", path, strings.Join(ids, ", "))
			case len(ids) > 0:
				x.addFindingWithFix("leftovers.lines", path, "tgctl daemon start; the daemon knows who wrote the entries", "%s starts %s through tg-shim, whose calls fail until a daemon is running", path, strings.Join(ids, ", "))
			}
		}
		for _, l := range s.Left {
			fix := l.Fix
			if l.Kind == agentconf.Altered || l.Kind == agentconf.StaleTemp {
				fix += ": rm " + ui.Word(l.Path)
			}
			x.addFindingWithFix(leftoverIDs[l.Kind], l.Path, fix, "%s is %s", l.Path, status.LeftoverNames[l.Kind])
		}
	}
	x.addOK("leftovers", "no leftovers of earlier runs")
}
