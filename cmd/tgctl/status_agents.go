package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// agentJSON is an agent that was found, as --json shows it.
type agentJSON struct {
	Agent     string         `json:"agent"`
	Protected bool           `json:"protected"`
	Files     []string       `json:"files"`
	Servers   []serverAtJSON `json:"servers"`
	Left      []leftoverJSON `json:"left_over,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
	Problem   string         `json:"problem,omitempty"` // why no more is known
}

// serverAtJSON is one server that a file names.
type serverAtJSON struct {
	ID       string `json:"id"`
	Path     string `json:"path"`
	Scope    string `json:"scope"`
	Project  bool   `json:"project,omitempty"`  // the file is a project's, not the agent's own
	Governed string `json:"governed,omitempty"` // protect, wrap, extension, or stray: a line that nobody knows
	Off      string `json:"off,omitempty"`      // why the agent would not start it
	Because  string `json:"because,omitempty"`  // which rule or setting of the agent says so
	Why      string `json:"why,omitempty"`      // it can't be governed
}

// leftoverJSON is a file of ours that nothing needs.
type leftoverJSON struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"` // backup, lock, temp, altered, copy
	Repair string `json:"repair"`
}

// protectionJSON is a rewrite that lasts.
type protectionJSON struct {
	Agent   string     `json:"agent"`
	ID      string     `json:"id"`
	Files   []string   `json:"files"`
	Servers []string   `json:"servers"`
	Since   *time.Time `json:"since,omitempty"`
	Keeps   bool       `json:"repairs"`            // lost lines are put back
	Times   uint32     `json:"repaired,omitempty"` // since the daemon was started
	Lost    []string   `json:"lost,omitempty"`
	Added   []string   `json:"added,omitempty"`
	Shim    string     `json:"shim"`
	Version string     `json:"shim_version,omitempty"`
	Problem string     `json:"problem,omitempty"`
	Repair  string     `json:"repair,omitempty"` // the command that puts it right
}

// surroundings is what status knows of agents.
type surroundings struct {
	running     bool // a daemon does
	agents      []agentconf.Survey
	protections []protectionJSON
	orphans     []*pb.Session
}

// surroundings looks at the agents that are known, from here. c is nil when no
// daemon runs; build is the daemon's.
func (a *app) surroundings(ctx context.Context, c *client.Client, build string) (*surroundings, error) {
	w := &surroundings{running: c != nil}
	env, err := a.osEnv()
	if err != nil {
		return nil, err
	}
	if c != nil {
		all, err := c.ListProtections(ctx, true)
		if err != nil && !errors.Is(err, client.ErrVersion) {
			return nil, err
		}
		for _, m := range all {
			if p, err := agentconf.ParseProtection(m.GetText()); err == nil {
				env.Lasting = append(env.Lasting, p)
			}
			w.protections = append(w.protections, a.protectionToJSON(ctx, m, build))
		}
		if w.orphans, err = c.ListSessions(ctx); err != nil {
			return nil, err
		}
		w.orphans = slices.DeleteFunc(w.orphans, func(s *pb.Session) bool { return !s.GetOrphaned() })
	}
	if env.Home != "" {
		w.agents = agentconf.Look(env)
	}
	return w, nil
}

func (a *app) protectionToJSON(ctx context.Context, m *pb.Protection, build string) protectionJSON {
	p := protectionJSON{
		Agent: m.GetAgent(), ID: m.GetId(), Files: list(m.GetPaths()), Servers: list(m.GetServers()), Since: stamp(m.GetSince()),
		Keeps: m.GetRepair(), Times: m.GetRepairs(), Lost: m.GetLost(), Added: m.GetAdded(), Shim: m.GetShim(), Problem: m.GetProblem(),
	}
	var err error
	if p.Version, err = versionOf(ctx, m.GetShim()); err != nil && p.Problem == "" {
		p.Problem = fmt.Sprintf("%s can't be started, and so can none of the servers: %v", m.GetShim(), err)
	}
	switch {
	case m.GetEnding():
		p.Problem = "it is being undone, and that could not be finished: " + p.Problem
		p.Repair = "tgctl unprotect " + p.Agent
	case p.Problem != "":
		p.Repair = "tgctl protect --repair " + p.Agent
	case p.Version != build:
		p.Problem = fmt.Sprintf("%s is %s, and the daemon %s", p.Shim, p.Version, build)
		if p.Repair = "tgctl daemon restart"; build == release {
			p.Repair = "tgctl protect --repair " + p.Agent // that of this tgctl fits
		}
	}
	return p
}

// versionPatience is how long a program may take to say its version.
const versionPatience = 5 * time.Second

// versionOf asks the shim at path which version it is.
func versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	if err != nil {
		return "", err
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "tg-shim ")
	if !ok {
		return "", errors.New("it is not tg-shim")
	}
	return version, nil
}

// protected reports whether one of the files of an agent that was found is
// protected.
func (w *surroundings) protected(s agentconf.Survey) bool {
	return slices.ContainsFunc(s.Files, func(path string) bool { return w.protectedAt(s.Agent, path) })
}

func (w *surroundings) protectedAt(agent, path string) bool {
	return slices.ContainsFunc(w.protections, func(p protectionJSON) bool { return p.Agent == agent && slices.Contains(p.Files, path) })
}

// holdsOurs reports whether lines of ours stand in a file, and nobody is there to
// say whose.
func (w *surroundings) holdsOurs(agent, path string) bool {
	return slices.ContainsFunc(w.agents, func(s agentconf.Survey) bool {
		return s.Agent == agent && slices.ContainsFunc(s.Servers, func(server agentconf.Server) bool {
			return server.Path == path && server.Governed == agentconf.ByStray
		})
	})
}

// remedy is what to do about a leftover.
func (w *surroundings) remedy(agent string, l agentconf.Leftover) string {
	switch {
	case l.Kind == agentconf.Altered, l.Kind == agentconf.StaleTemp:
		return "look at it, then remove it"
	case !w.running && w.holdsOurs(agent, l.Config):
		return "start the daemon, which knows whether it is needed: tgctl daemon start"
	case l.Kind == agentconf.AgentsCopy && !w.running:
		return "start the daemon, which knows whether they are a protection's: tgctl daemon start"
	case l.Kind == agentconf.AgentsCopy:
		return "tgctl unwrap " + l.Path
	case w.protectedAt(agent, l.Config):
		return "compare it with " + l.Config + ", then remove it"
	}
	return "tgctl unwrap " + l.Config
}

func (w *surroundings) agentsToJSON() []agentJSON {
	var all []agentJSON
	for _, s := range w.agents {
		one := agentJSON{
			Agent: s.Agent, Protected: w.protected(s), Files: list(s.Files), Servers: []serverAtJSON{},
			Warnings: s.Warnings, Problem: s.Problem,
		}
		for _, server := range s.Servers {
			one.Servers = append(one.Servers, serverAtJSON{
				ID: server.ID, Path: server.Path, Scope: server.Scope, Project: server.Project, Governed: string(server.Governed), Off: string(server.Off), Because: server.Because, Why: server.Why,
			})
		}
		for _, l := range s.Left {
			one.Left = append(one.Left, leftoverJSON{l.Path, string(l.Kind), w.remedy(s.Agent, l)})
		}
		all = append(all, one)
	}
	return all
}
