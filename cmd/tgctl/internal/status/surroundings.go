package status

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
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Surroundings holds what tgctl itself finds out for "tgctl status", mainly about agents.
type Surroundings struct {
	Running     bool            `json:"running"`         // whether a daemon runs; if not, its members have no values
	Folders     []string        `json:"folder_problems"` // a full disk, a directory that cannot be written; LookAround does not look for it
	Agents      []FoundAgent    `json:"agents"`          // agents found from here
	Protections []pbjson.Object `json:"protections"`     // from Rewrites
	Calls       *RecentCalls    `json:"calls"`           // null without a daemon, or with too many to count; LookAround does not count them

	Rewrites []Rewrite     `json:"-"`
	Orphans  []*pb.Session `json:"-"` // whose wrap has ended without restoring
	Silent   []*pb.Session `json:"-"` // whose agent should run hooks, and has run none yet
}

// surroundingsSample is a sample of Surroundings for --help.
var surroundingsSample = Surroundings{Calls: &RecentCalls{}, Protections: []pbjson.Object{{Message: &pb.Protection{}, More: shimSeen{}}}}

// FoundAgent is an agent that was found.
type FoundAgent struct {
	agentconf.Survey
	Protected bool            `json:"protected"` // at least one of its files is protected
	Left      []FoundLeftover `json:"left_over"`
}

// FoundLeftover is a file of ThoughtGate that is no longer needed.
type FoundLeftover struct {
	agentconf.Leftover
	Fix string `json:"fix"` // the command that fixes it
}

// Rewrite is a protection. Its Problem comes from the daemon or from the check here.
type Rewrite struct {
	*pb.Protection
	shimSeen
}

// shimSeen is the result of checking a protection's tg-shim.
type shimSeen struct {
	Version string `json:"shim_version"`
	Fix     string `json:"fix"` // the command that fixes its problem
}

// LookAround inspects the known agents. c is nil if no daemon runs; build is the daemon's.
func LookAround(ctx context.Context, a *connect.App, c *client.Client, build string) (*Surroundings, error) {
	w := &Surroundings{Running: c != nil, Folders: []string{}, Agents: []FoundAgent{}, Protections: []pbjson.Object{}}
	env, err := agentenv.Env(a)
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
			p := lookAtProtection(ctx, m, build)
			w.Rewrites = append(w.Rewrites, p)
			w.Protections = append(w.Protections, pbjson.Object{Message: m, More: p.shimSeen})
		}
		if w.Orphans, err = c.ListSessions(ctx); err != nil {
			return nil, err
		}
		w.Silent = ui.Filter(w.Orphans, (*pb.Session).GetHooksSilent)
		w.Orphans = slices.DeleteFunc(w.Orphans, func(s *pb.Session) bool { return !s.GetOrphaned() })
	}
	if env.Home == "" {
		return w, nil
	}
	for _, s := range agentconf.Look(env) {
		s.Files, s.Servers, s.Warnings = ui.List(s.Files), ui.List(s.Servers), ui.List(s.Warnings)
		w.Agents = append(w.Agents, FoundAgent{Survey: s, Protected: slices.ContainsFunc(s.Files, func(path string) bool { return w.protectedAt(s.Agent, path) })})
	}
	for i, s := range w.Agents {
		w.Agents[i].Left = ui.Map(s.Survey.Left, func(l agentconf.Leftover) FoundLeftover { return FoundLeftover{l, w.remedy(s.Agent, l)} })
	}
	return w, nil
}

func lookAtProtection(ctx context.Context, m *pb.Protection, build string) Rewrite {
	p := Rewrite{Protection: m}
	var err error
	if p.Version, err = VersionOf(ctx, m.GetShim()); err != nil && p.Problem == "" {
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

// VersionOf asks the tg-shim at path for its version.
func VersionOf(ctx context.Context, path string) (string, error) {
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

func (w *Surroundings) protectedAt(agent, path string) bool {
	return slices.ContainsFunc(w.Rewrites, func(p Rewrite) bool { return p.Agent == agent && slices.Contains(p.Paths, path) })
}

// holdsOurs reports whether a file has lines of ThoughtGate that belong to no known wrap or
// protection.
func (w *Surroundings) holdsOurs(agent, path string) bool {
	return slices.ContainsFunc(w.Agents, func(s FoundAgent) bool {
		return s.Agent == agent && slices.ContainsFunc(s.Servers, func(server agentconf.Server) bool {
			return server.Path == path && server.Governed == agentconf.ByStray
		})
	})
}

// remedy says how to fix a leftover.
func (w *Surroundings) remedy(agent string, l agentconf.Leftover) string {
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
