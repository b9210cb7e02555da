package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// agentsHome is a home with agents in several states.
type agentsHome struct {
	t    *testing.T
	dir  string
	shim string
	here string // the tests' directory, with the golden files
}

func newAgentsHome(t *testing.T) *agentsHome {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	h := &agentsHome{t: t, dir: shortDir(t), here: here}
	h.shim = filepath.Join(h.dir, "bin", "tg-shim")
	h.write("bin/tg-shim", "#!/bin/sh\necho tg-shim v0.1.0\n", 0o755)
	t.Chdir(h.mkdir("src/shop"))
	return h
}

func (h *agentsHome) mkdir(name string) string {
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		h.t.Fatal(err)
	}
	return path
}

func (h *agentsHome) write(name, text string, mode os.FileMode) string {
	h.t.Helper()
	h.mkdir(filepath.Dir(name))
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	return path
}

const someServers = `{"mcpServers":{"clock":{"command":"clock-mcp"},"files":{"command":"npx","args":["-y","files"]},"web":{"type":"http","url":"https://example.test"}}}`

// protect creates a protection of Claude Code like the daemon's.
func (h *agentsHome) protect() *pb.Protection {
	h.t.Helper()
	agent, err := agentconf.AgentFor("claude-code", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	env := agentconf.Env{Home: h.dir, Cwd: "/", LookupEnv: func(string) (string, bool) { return "", false }}
	line := agentconf.Line{Shim: h.shim, Socket: "/run/user/1000/thoughtgate/shim.sock"}
	is := agentconf.NewProtection(strings.Repeat("1a57", 8), agent, env, line)
	plan, err := agentconf.NewPlan(agent, is.Env(env.LookupEnv), h.shim)
	if err != nil {
		h.t.Fatal(err)
	}
	next, err := plan.Protect(is, func(*agentconf.Protection) error { return nil })
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := next.Text()
	if err != nil {
		h.t.Fatal(err)
	}
	return &pb.Protection{Id: next.ID, Agent: next.Agent, Paths: next.Paths(), Servers: next.Servers(), Since: at(-48 * 3600e9),
		Repair: true, Shim: h.shim, Text: text, Backups: next.Backups()}
}

func TestStatusOfAgents(t *testing.T) {
	for name, fill := range map[string]func(*agentsHome, *fakeDaemon){
		"bare": func(h *agentsHome, _ *fakeDaemon) { h.write(".claude.json", someServers, 0o600) },
		"protected": func(h *agentsHome, f *fakeDaemon) {
			h.write(".claude.json", someServers, 0o600)
			f.protected = []*pb.Protection{h.protect()}
			h.write("src/shop/.mcp.json", `{"mcpServers":{"shop":{"command":"shop-mcp"}}}`, 0o600)
		},
		"drifted": func(h *agentsHome, f *fakeDaemon) {
			h.write(".claude.json", someServers, 0o600)
			p := h.protect()
			h.write(".claude.json", strings.Replace(someServers, "clock", "watch", 1), 0o600)
			p.Repair, p.Lost, p.Added = false, []string{"files"}, []string{"watch"}
			p.Problem = "the lines of files were taken out; watch came in since and is not governed"
			f.protected = []*pb.Protection{p}
		},
		"old-shim": func(h *agentsHome, f *fakeDaemon) {
			h.write(".claude.json", someServers, 0o600)
			f.protected = []*pb.Protection{h.protect()}
			h.write("bin/tg-shim", "#!/bin/sh\necho tg-shim v0.0.9\n", 0o755)
		},
		"no-shim": func(h *agentsHome, f *fakeDaemon) {
			h.write(".claude.json", someServers, 0o600)
			f.protected = []*pb.Protection{h.protect()}
			if err := os.Remove(h.shim); err != nil {
				h.t.Fatal(err)
			}
		},
		"ending": func(h *agentsHome, f *fakeDaemon) {
			h.write(".claude.json", someServers, 0o600)
			p := h.protect()
			p.Ending, p.Problem = true, "restore ~/.claude.json: no space left on device"
			f.protected = []*pb.Protection{p}
		},
		"leftovers": func(h *agentsHome, f *fakeDaemon) {
			h.write(".claude.json", someServers, 0o600)
			h.protect() // lost by the daemon
			h.write(".claude.json.thoughtgate-altered", "{}", 0o600)
			h.write(".claude.json.thoughtgate-lock", "", 0o600)
			f.sessions = openSessions()[1:]
			f.sessions[0].Spec.Files = []*pb.ConfigFile{{Path: h.dir + "/mcp.json"}}
			f.sessions[0].Problem = "restore " + h.dir + "/mcp.json: no space left on device"
		},
		"custom": func(_ *agentsHome, f *fakeDaemon) {
			f.protected = []*pb.Protection{{Id: "1", Agent: "custom", Paths: []string{"/srv/mcp.json"}, Servers: []string{"one"}, Shim: "/bin/echo",
				Problem: "its lines name the socket /a, and this daemon listens at /b"}}
		},
		"broken": func(h *agentsHome, _ *fakeDaemon) { h.write(".claude.json", "{\n  \"mcpServers\": [\x1b[2J", 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			was := ui.Release
			ui.Release = "v0.1.0"
			defer func() { ui.Release = was }()
			h := newAgentsHome(t)
			f := startFake(t)
			f.status = healthy()
			fill(h, f)
			c := newConsole(f.socket)
			c.env["HOME"] = h.dir
			if code := c.run(t, "status"); code != 0 {
				t.Fatalf("exit %d: %s", code, c.err.String())
			}
			_, about, found := strings.Cut(c.out.String(), "/shim.sock\n")
			if !found {
				t.Fatalf("no sockets:\n%s", c.out.String())
			}
			mustFit(t, about, 80)
			out := strings.ReplaceAll(about, h.dir, "HOME")
			if code := c.run(t, "status", "--json"); code != 0 || !json.Valid(c.out.Bytes()) {
				t.Fatalf("exit %d: %s", code, c.err.String())
			}
			_, about, _ = strings.Cut(c.out.String(), `"running":true,`)
			t.Chdir(h.here)
			golden(t, "status-agents-"+name, out+"--- json\n"+strings.ReplaceAll(about, h.dir, "HOME"))
		})
	}
}

// The agents are reported without a daemon too.
func TestStatusOfAgentsWithoutADaemon(t *testing.T) {
	h := newAgentsHome(t)
	h.write(".claude.json", someServers, 0o600)
	h.protect()
	c := newConsole(filepath.Join(h.dir, "control.sock"))
	c.env["HOME"] = h.dir
	if code := c.run(t, "status"); code != ui.ExitNotRunning || !strings.Contains(c.err.String(), "thoughtgated is not running") {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
	out := strings.ReplaceAll(c.out.String(), h.dir, "HOME")
	if code := c.run(t, "status", "--json"); code != ui.ExitNotRunning || !strings.Contains(c.out.String(), `"governed":"stray"`) {
		t.Errorf("exit %d: %s", code, c.out.String())
	}
	t.Chdir(h.here)
	golden(t, "status-agents-stopped", out)
}
