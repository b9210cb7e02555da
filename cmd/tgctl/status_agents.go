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
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agents"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// surroundings holds what tgctl itself finds out for "tgctl status", mainly about agents.
type surroundings struct {
	Running     bool            `json:"running"`         // whether a daemon runs; if not, its members have no values
	Folders     []string        `json:"folder_problems"` // a full disk, a directory that cannot be written
	Agents      []foundAgent    `json:"agents"`          // agents found from here
	Protections []pbjson.Object `json:"protections"`     // from rewrites

	rewrites []lastingRewrite
	orphans  []*pb.Session
}

// surroundingsSample is a sample of surroundings for --help.
var surroundingsSample = surroundings{Protections: []pbjson.Object{{Message: &pb.Protection{}, More: shimSeen{}}}}

// foundAgent is an agent that was found.
type foundAgent struct {
	agentconf.Survey
	Protected bool            `json:"protected"` // at least one of its files is protected
	Left      []foundLeftover `json:"left_over"`
}

// foundLeftover is a file of ThoughtGate that is no longer needed.
type foundLeftover struct {
	agentconf.Leftover
	Fix string `json:"fix"` // the command that fixes it
}

// lastingRewrite is a protection. Its Problem comes from the daemon or from the check here.
type lastingRewrite struct {
	*pb.Protection
	shimSeen
}

// shimSeen is the result of checking a protection's tg-shim.
type shimSeen struct {
	Version string `json:"shim_version"`
	Fix     string `json:"fix"` // the command that fixes its problem
}

// surroundings inspects the known agents. c is nil if no daemon runs; build is the daemon's.
func (a *app) surroundings(ctx context.Context, c *client.Client, build string) (*surroundings, error) {
	w := &surroundings{Running: c != nil, Folders: []string{}, Agents: []foundAgent{}, Protections: []pbjson.Object{}}
	env, err := agents.Env(a.App)
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
				env.Protections = append(env.Protections, p)
			}
			p := a.lookAtProtection(ctx, m, build)
			w.rewrites = append(w.rewrites, p)
			w.Protections = append(w.Protections, pbjson.Object{Message: m, More: p.shimSeen})
		}
		if w.orphans, err = c.ListSessions(ctx); err != nil {
			return nil, err
		}
		w.orphans = slices.DeleteFunc(w.orphans, func(s *pb.Session) bool { return !s.GetOrphaned() })
	}
	if env.Home == "" {
		return w, nil
	}
	for _, s := range agentconf.Look(env) {
		s.Files, s.Servers, s.Warnings = ui.List(s.Files), ui.List(s.Servers), ui.List(s.Warnings)
		w.Agents = append(w.Agents, foundAgent{Survey: s, Protected: slices.ContainsFunc(s.Files, func(path string) bool { return w.protectedAt(s.Agent, path) })})
	}
	for i, s := range w.Agents {
		w.Agents[i].Left = ui.Map(s.Survey.Left, func(l agentconf.Leftover) foundLeftover { return foundLeftover{l, w.remedy(s.Agent, l)} })
	}
	return w, nil
}

func (a *app) lookAtProtection(ctx context.Context, m *pb.Protection, build string) lastingRewrite {
	p := lastingRewrite{Protection: m}
	var err error
	if p.Version, err = versionOf(ctx, m.GetShim()); err != nil && p.Problem == "" {
		p.Problem = fmt.Sprintf("can't start %s, so no server can be started: %v", m.GetShim(), err)
	}
	switch {
	case m.GetEnding():
		p.Problem = "it could not be removed completely: " + p.Problem
		p.Fix = "tgctl unprotect " + p.Agent
	case p.Problem != "":
		p.Fix = "tgctl protect --repair " + p.Agent
	case p.Version != build:
		p.Problem = fmt.Sprintf("%s is %s, but the daemon is %s", p.Shim, p.Version, build)
		if p.Fix = "tgctl daemon restart"; build == ui.Release {
			p.Fix = "tgctl protect --repair " + p.Agent // this tgctl's tg-shim has the right version
		}
	}
	return p
}

// versionPatience is the timeout for a program to print its version.
const versionPatience = 5 * time.Second

// versionOf asks the tg-shim at path for its version.
func versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if at, ok := errors.AsType[*fs.PathError](err); ok {
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

func (w *surroundings) protectedAt(agent, path string) bool {
	return slices.ContainsFunc(w.rewrites, func(p lastingRewrite) bool { return p.Agent == agent && slices.Contains(p.Paths, path) })
}

// holdsOurs reports whether a file has lines of ThoughtGate that belong to no known wrap or
// protection.
func (w *surroundings) holdsOurs(agent, path string) bool {
	return slices.ContainsFunc(w.Agents, func(s foundAgent) bool {
		return s.Agent == agent && slices.ContainsFunc(s.Servers, func(server agentconf.Server) bool {
			return server.Path == path && server.Governed == agentconf.ByStray
		})
	})
}

// remedy says how to fix a leftover.
func (w *surroundings) remedy(agent string, l agentconf.Leftover) string {
	switch {
	case l.Kind == agentconf.Altered, l.Kind == agentconf.StaleTemp:
		return "review it, then remove it"
	case !w.Running && w.holdsOurs(agent, l.Config):
		return "start the daemon, to learn whether it is needed: tgctl daemon start"
	case l.Kind == agentconf.AgentsCopy && !w.Running:
		return "start the daemon, to learn whether a protection needs it: tgctl daemon start"
	case l.Kind == agentconf.AgentsCopy:
		return "tgctl unwrap " + l.Path
	case w.protectedAt(agent, l.Config):
		return "compare it with " + l.Config + ", then remove it"
	}
	return "tgctl unwrap " + l.Config
}
