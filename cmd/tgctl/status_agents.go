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

// surroundingsJSON is beside a daemon's status what is known from here.
type surroundingsJSON struct {
	Running     bool            `json:"running"`         // a daemon does; without one its members have no values
	Folders     []string        `json:"folder_problems"` // a disk that is full, a folder that can't be written
	Agents      []agentJSON     `json:"agents"`          // that are found from here
	Protections []pbjson.Object `json:"protections"`
}

// surroundingsSample is like what a.asJSON returns.
var surroundingsSample = surroundingsJSON{Protections: []pbjson.Object{{Message: &pb.Protection{}, More: shimSeen{}}}}

// agentJSON is an agent that was found, as --json shows it.
type agentJSON struct {
	agentconf.Survey
	Protected bool           `json:"protected"`
	Left      []leftoverJSON `json:"left_over"`
}

// leftoverJSON is a file of ours that nothing needs.
type leftoverJSON struct {
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

// surroundings is what status knows of agents.
type surroundings struct {
	running     bool // a daemon does
	agents      []agentconf.Survey
	protections []lastingRewrite
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
			w.protections = append(w.protections, a.lookAtProtection(ctx, m, build))
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

// protected reports whether one of the files of an agent that was found is
// protected.
func (w *surroundings) protected(s agentconf.Survey) bool {
	return slices.ContainsFunc(s.Files, func(path string) bool { return w.protectedAt(s.Agent, path) })
}

func (w *surroundings) protectedAt(agent, path string) bool {
	return slices.ContainsFunc(w.protections, func(p lastingRewrite) bool { return p.Agent == agent && slices.Contains(p.Paths, path) })
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

func (w *surroundings) asJSON(folderProblems []string) surroundingsJSON {
	out := surroundingsJSON{Running: w.running, Folders: list(folderProblems), Agents: []agentJSON{}, Protections: []pbjson.Object{}}
	for _, s := range w.agents {
		s.Files, s.Servers, s.Warnings = list(s.Files), list(s.Servers), list(s.Warnings)
		one := agentJSON{Survey: s, Protected: w.protected(s), Left: []leftoverJSON{}}
		for _, l := range s.Left {
			one.Left = append(one.Left, leftoverJSON{l, w.remedy(s.Agent, l)})
		}
		out.Agents = append(out.Agents, one)
	}
	for _, p := range w.protections {
		out.Protections = append(out.Protections, pbjson.Object{Message: p.Protection, More: p.shimSeen})
	}
	return out
}
