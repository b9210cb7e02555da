package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// addAgents adds for each agent what is governed and what is not, and how to fix problems.
func (a *app) addAgents(s *ui.Sheet, w *Surroundings) {
	for _, agent := range w.Agents {
		s.Add("agent", display.Safe(strings.Join(a.agentLines(w, agent), "\n")))
	}
	for _, p := range w.Rewrites {
		if !slices.ContainsFunc(w.Agents, func(s FoundAgent) bool { return s.Agent == p.Agent && s.Protected }) {
			s.Add("agent", display.Name(p.Agent)+": protected, "+ui.Plural(len(p.Servers), "server", "servers")+" in "+display.Text(a.Tildes(p.Paths)))
		}
		if p.Problem != "" {
			s.Add("protection", display.Name(p.Agent)+": "+display.Text(a.TildeIn(p.Problem))+"; fix: "+display.Text(p.Fix))
		}
	}
	for _, session := range w.Silent {
		s.Add("hooks", display.Name(session.GetSpec().GetAgent())+" in "+display.Text(a.Tilde(session.GetSpec().GetProject()))+": "+noHook)
	}
	for _, session := range w.Orphans {
		for _, f := range session.GetSpec().GetFiles() {
			s.Add("left over", display.Text(a.Tilde(f.GetPath()))+": rewritten by a wrap that has ended: "+display.Text(a.TildeIn(session.GetProblem()))+
				"; fix: tgctl unwrap "+display.Text(a.Tilde(f.GetPath())))
		}
	}
	for _, agent := range w.Agents {
		for _, l := range agent.Left {
			s.Add("left over", display.Text(a.Tilde(l.Path))+": "+LeftoverNames[l.Kind]+"; fix: "+display.Text(a.TildeIn(l.Fix)))
		}
	}
}

// LeftoverNames says what each kind of leftover is.
var LeftoverNames = map[agentconf.LeftoverKind]display.Safe{
	agentconf.StaleBackup: "a backup from before a rewrite",
	agentconf.StaleLock:   "a stale lock",
	agentconf.AgentsCopy:  "a copy that the agent made during a wrap, with tg-shim entries",
	agentconf.StaleTemp:   "an incomplete temporary file",
	agentconf.Altered:     "the configuration as another program altered it",
}

// agentLines describes one agent: first how much of it is governed, then what is not.
func (a *app) agentLines(w *Surroundings, s FoundAgent) []string {
	name := string(display.Name(s.Agent))
	if s.Problem != "" {
		return []string{name + ": can't read its configuration: " + string(display.Text(a.TildeIn(s.Problem)))}
	}
	governed, startable, ours, could := 0, 0, 0, 0
	about := &remarks{servers: map[string][]string{}}
	for _, server := range s.Servers {
		switch {
		case server.Off == agentconf.Disabled, server.Off == agentconf.Shadowed, server.Off == agentconf.Inactive, server.Off == agentconf.Denied:
			if server.Because != "" { // so that nobody expects it among the governed servers
				about.add(fmt.Sprintf("not started by %s, %s: %s", name, server.Off, display.Text(a.TildeIn(server.Because))), string(display.Name(server.ID)))
			}
			continue
		case server.Governed == agentconf.ByStray && !w.Running:
			ours++
		case server.Governed == agentconf.ByProtect, server.Governed == agentconf.ByWrap, server.Governed == agentconf.ByItself:
			governed++
		default:
			about.add(a.whyNot(s, server), string(display.Name(server.ID)))
			if server.Why == "" && !server.Project {
				could++
			}
		}
		startable++
	}
	total := ui.Plural(startable, "server", "servers")
	count := fmt.Sprintf("%d of %s governed", governed, total)
	stray := slices.ContainsFunc(s.Servers, func(server agentconf.Server) bool { return server.Governed == agentconf.ByStray })
	switch {
	case startable == 0:
		count = "no servers"
	case ours > 0:
		count = fmt.Sprintf("%d of %s start through tg-shim, which answers with an error until the daemon is running: tgctl daemon start", ours, total)
	case s.Protected:
		count = "protected, " + count
	case could > 0 && !stray:
		count += ", unless wrapped; to govern them always: tgctl protect " + name
	}
	return slices.Concat([]string{name + ": " + count + ownTools(s.Tools)}, about.lines(), a.toolLines(s))
}

// ownTools completes the line about an agent if its own tools are governed.
func ownTools(t *agentconf.Tools) string {
	if t == nil || t.Off != "" || t.Governed != agentconf.ByProtect && t.Governed != agentconf.ByWrap {
		return ""
	}
	return ", and its own tools"
}

// toolLines says what is not governed of an agent's own tools.
func (a *app) toolLines(s FoundAgent) []string {
	t := s.Tools
	if t == nil {
		return nil
	}
	name, path := string(display.Name(s.Agent)), string(display.Text(a.Tilde(t.Path)))
	switch {
	case t.Problem != "":
		return []string{"can't read its hooks: " + string(display.Text(a.TildeIn(t.Problem)))}
	case t.Governed == agentconf.ByStray:
		return []string{"unknown tg-shim hooks in " + path + "; fix: tgctl unwrap " + path}
	case t.Governed != agentconf.NotGoverned && t.Off != "":
		return []string{"own tools not governed: it runs no hooks (" + t.Off + " in " + path + ")"}
	case t.Governed != agentconf.NotGoverned && len(t.Unseen) > 0:
		return []string{"own tools, not seen: " + strings.Join(t.Unseen, ", ")}
	case s.Protected && t.Governed == agentconf.NotGoverned && t.Proven:
		return []string{"own tools not governed; to govern them: tgctl protect --only tools " + name}
	}
	return nil
}

// whyNot says why a server is not governed. It returns "" if the only reason is that the agent
// is not protected.
func (a *app) whyNot(agent FoundAgent, s agentconf.Server) string {
	path := string(display.Text(a.Tilde(s.Path)))
	switch {
	case s.Governed == agentconf.ByStray:
		return "unknown tg-shim entries in " + path + "; fix: tgctl unwrap " + path
	case s.Why != "":
		return "not governed, " + string(display.Text(s.Why))
	case s.Project:
		return "not governed unless wrapped, in the project's file " + path
	case agent.Protected:
		return "not governed, in " + path + "; fix: tgctl protect " + string(display.Name(agent.Agent))
	}
	return ""
}

// remarks groups remarks by text. Each is about one or more servers.
type remarks struct {
	order   []string
	servers map[string][]string
}

func (r *remarks) add(remark, server string) {
	if remark == "" {
		return
	}
	if r.servers[remark] == nil {
		r.order = append(r.order, remark)
	}
	if !slices.Contains(r.servers[remark], server) {
		r.servers[remark] = append(r.servers[remark], server)
	}
}

func (r *remarks) lines() []string {
	return ui.Map(r.order, func(remark string) string { return strings.Join(r.servers[remark], ", ") + ": " + remark })
}
