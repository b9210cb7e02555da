package policy

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	initRecords = 100_000 // how many of the newest calls are read
	initServers = 200     // how many servers a starter lists
	initTools   = 50      // how many tools it lists for each
)

// seen holds the servers that are configured and the tools that are on record.
type seen struct {
	servers map[string]*seenServer
	calls   int
}

type seenServer struct {
	from  []string // where it is configured, such as "claude-code, user"
	runs  string   // the name of its program
	tools map[string]*seenTool
}

type seenTool struct {
	calls int
	facts []string
}

// look collects the servers and tools for a first configuration. What cannot be read is
// reported and left out.
func (a *app) look(ctx context.Context) *seen {
	s := &seen{servers: map[string]*seenServer{}}
	a.lookAtAgents(s)
	if err := a.lookAtRecord(ctx, s); err != nil {
		a.PrintMessage("can't read the audit log, so no tools are listed: %v", err)
	}
	return s
}

func (s *seen) server(id string) *seenServer {
	server := s.servers[id]
	if server == nil {
		if len(s.servers) >= initServers {
			return nil
		}
		server = &seenServer{tools: map[string]*seenTool{}}
		s.servers[id] = server
	}
	return server
}

// lookAtAgents adds the servers from the agents' configurations.
func (a *app) lookAtAgents(s *seen) {
	env, err := agentenv.Env(a.App)
	if err != nil {
		env.Cwd = "/"
	}
	for _, name := range agentconf.Names() {
		if name == "custom" {
			continue // has no files of its own
		}
		agent, err := agentconf.AgentFor(name, nil)
		if err != nil {
			continue
		}
		found, err := agent.Find(env)
		if err != nil {
			a.PrintMessage("%s: %v", name, err)
			continue
		}
		for _, source := range found.Sources {
			for _, e := range source.Entries {
				server := s.server(e.ID)
				if server == nil {
					return
				}
				if from := name + ", " + e.Scope; !slices.Contains(server.from, from) {
					server.from = append(server.from, from)
				}
				// Only the program of the command: arguments can hold secrets.
				if base := filepath.Base(e.Command); e.Command != "" && base != "tg-shim" {
					server.runs = base
				}
			}
		}
	}
}

// lookAtRecord adds the tools that were called.
func (a *app) lookAtRecord(ctx context.Context, s *seen) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for r, err := range c.ReadAudit(ctx, &pb.AuditQuery{Kind: string(record.KindCall), Last: initRecords}) {
		if err != nil {
			return err
		}
		rec, err := record.Parse(r.GetLine())
		if err != nil || rec.Method != ui.ToolCall || rec.Direction != "agent_to_server" || rec.Tool == "" {
			continue
		}
		s.calls++
		server := s.server(rec.Server)
		if server == nil {
			continue
		}
		tool := server.tools[rec.Tool]
		if tool == nil {
			if len(server.tools) >= initTools {
				continue
			}
			tool = &seenTool{}
			server.tools[rec.Tool] = tool
		}
		tool.calls++
		for _, fact := range rec.Facts {
			if !slices.Contains(tool.facts, fact) {
				tool.facts = append(tool.facts, fact)
			}
		}
	}
	return nil
}

// tools returns the number of tools on record.
func (s *seen) tools() int {
	n := 0
	for _, server := range s.servers {
		n += len(server.tools)
	}
	return n
}

// byCalls returns the names of tools, the most used first.
func byCalls(tools map[string]*seenTool) []string {
	return slices.SortedFunc(maps.Keys(tools), func(x, y string) int {
		return cmp.Or(cmp.Compare(tools[y].calls, tools[x].calls), cmp.Compare(x, y))
	})
}
