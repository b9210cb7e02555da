package consoletest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Home is a home with agents in several states.
type Home struct {
	T    *testing.T
	Dir  string
	Shim string
	Here string // the tests' directory, with the golden files
}

// NewHome returns a home with a tg-shim and no agent, and goes to a project in it.
func NewHome(t *testing.T) *Home {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	h := &Home{T: t, Dir: ShortDir(t), Here: here}
	h.Shim = filepath.Join(h.Dir, "bin", "tg-shim")
	h.Write("bin/tg-shim", "#!/bin/sh\necho tg-shim v0.1.0\n", 0o755)
	t.Chdir(h.Mkdir("src/shop"))
	return h
}

// Mkdir makes a folder of the home.
func (h *Home) Mkdir(name string) string {
	path := filepath.Join(h.Dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		h.T.Fatal(err)
	}
	return path
}

// Write writes a file of the home.
func (h *Home) Write(name, text string, mode os.FileMode) string {
	h.T.Helper()
	h.Mkdir(filepath.Dir(name))
	path := filepath.Join(h.Dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.T.Fatal(err)
	}
	return path
}

// Protect creates a protection of Claude Code like the daemon's.
func (h *Home) Protect() *pb.Protection {
	h.T.Helper()
	agent, err := agentconf.AgentFor("claude-code", nil)
	if err != nil {
		h.T.Fatal(err)
	}
	env := agentconf.Env{Home: h.Dir, Cwd: "/", LookupEnv: func(string) (string, bool) { return "", false }}
	line := agentconf.Line{Shim: h.Shim, Socket: "/run/user/1000/thoughtgate/shim.sock"}
	is := agentconf.NewProtection(strings.Repeat("1a57", 8), agent, env, line)
	plan, err := agentconf.NewPlan(agent, is.Env(env.LookupEnv), h.Shim)
	if err != nil {
		h.T.Fatal(err)
	}
	next, err := plan.Protect(is, func(*agentconf.Protection) error { return nil })
	if err != nil {
		h.T.Fatal(err)
	}
	text, err := next.Text()
	if err != nil {
		h.T.Fatal(err)
	}
	return &pb.Protection{Id: next.ID, Agent: next.Agent, Paths: next.Paths(), Servers: next.Servers(), Since: At(-48 * 3600e9),
		Repair: true, Shim: h.Shim, Text: text, Backups: next.Backups()}
}

// SomeServers is a configuration of an agent with two servers on this machine and one elsewhere.
const SomeServers = `{"mcpServers":{"clock":{"command":"clock-mcp"},"files":{"command":"npx","args":["-y","files"]},"web":{"type":"ws","url":"wss://example.test"}}}`
