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
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// surroundings is beside a daemon's status what is known from here, above all of agents.
type surroundings struct {
	Running     bool            `json:"running"`         // a daemon does; without one its members have no values
	Folders     []string        `json:"folder_problems"` // a disk that is full, a folder that can't be written
	Agents      []foundAgent    `json:"agents"`          // that are found from here
	Protections []pbjson.Object `json:"protections"`     // those of rewrites

	rewrites []lastingRewrite
	orphans  []*pb.Session
}

// surroundingsSample has what surroundings may have.
var surroundingsSample = surroundings{Protections: []pbjson.Object{{Message: &pb.Protection{}, More: shimSeen{}}}}

// foundAgent is an agent that was found.
type foundAgent struct {
	agentconf.Survey
	Protected bool            `json:"protected"` // one of its files is
	Left      []foundLeftover `json:"left_over"`
}

// foundLeftover is a file of ours that nothing needs.
type foundLeftover struct {
	agentconf.Leftover
	Mend string `json:"mend"` // the command that puts it right
}

// lastingRewrite is a rewrite that lasts. Its problem is the daemon's, or what is seen
// from here.
type lastingRewrite struct {
	*pb.Protection
	shimSeen
}

// shimSeen is what is seen from here of the shim of a protection.
type shimSeen struct {
	Version string `json:"shim_version"`
	Mend    string `json:"mend"` // the command that puts its problem right
}

// surroundings looks at the agents that are known, from here. c is nil when no
// daemon runs; build is the daemon's.
func (a *app) surroundings(ctx context.Context, c *client.Client, build string) (*surroundings, error) {
	w := &surroundings{Running: c != nil, Folders: []string{}, Agents: []foundAgent{}, Protections: []pbjson.Object{}}
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
		s.Files, s.Servers, s.Warnings = list(s.Files), list(s.Servers), list(s.Warnings)
		w.Agents = append(w.Agents, foundAgent{Survey: s, Protected: slices.ContainsFunc(s.Files, func(path string) bool { return w.protectedAt(s.Agent, path) })})
	}
	for i, s := range w.Agents {
		w.Agents[i].Left = each(s.Survey.Left, func(l agentconf.Leftover) foundLeftover { return foundLeftover{l, w.remedy(s.Agent, l)} })
	}
	return w, nil
}

func (a *app) lookAtProtection(ctx context.Context, m *pb.Protection, build string) lastingRewrite {
	p := lastingRewrite{Protection: m}
	var err error
	if p.Version, err = versionOf(ctx, m.GetShim()); err != nil && p.Problem == "" {
		p.Problem = fmt.Sprintf("%s can't be started, and so can none of the servers: %v", m.GetShim(), err)
	}
	switch {
	case m.GetEnding():
		p.Problem = "it is being undone, and that could not be finished: " + p.Problem
		p.Mend = "tgctl unprotect " + p.Agent
	case p.Problem != "":
		p.Mend = "tgctl protect --repair " + p.Agent
	case p.Version != build:
		p.Problem = fmt.Sprintf("%s is %s, and the daemon %s", p.Shim, p.Version, build)
		if p.Mend = "tgctl daemon restart"; build == release {
			p.Mend = "tgctl protect --repair " + p.Agent // that of this tgctl fits
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

func (w *surroundings) protectedAt(agent, path string) bool {
	return slices.ContainsFunc(w.rewrites, func(p lastingRewrite) bool { return p.Agent == agent && slices.Contains(p.Paths, path) })
}

// holdsOurs reports whether lines of ours stand in a file, and nobody is there to
// say whose.
func (w *surroundings) holdsOurs(agent, path string) bool {
	return slices.ContainsFunc(w.Agents, func(s foundAgent) bool {
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
	case !w.Running && w.holdsOurs(agent, l.Config):
		return "start the daemon, which knows whether it is needed: tgctl daemon start"
	case l.Kind == agentconf.AgentsCopy && !w.Running:
		return "start the daemon, which knows whether they are a protection's: tgctl daemon start"
	case l.Kind == agentconf.AgentsCopy:
		return "tgctl unwrap " + l.Path
	case w.protectedAt(agent, l.Config):
		return "compare it with " + l.Config + ", then remove it"
	}
	return "tgctl unwrap " + l.Config
}
