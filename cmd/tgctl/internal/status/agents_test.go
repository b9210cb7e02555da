package status

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func TestStatusOfAgents(t *testing.T) {
	for name, fill := range map[string]func(*consoletest.Home, *consoletest.Daemon){
		"bare": func(h *consoletest.Home, _ *consoletest.Daemon) {
			h.Write(".claude.json", consoletest.SomeServers, 0o600)
		},
		"protected": func(h *consoletest.Home, f *consoletest.Daemon) {
			h.Write(".claude.json", consoletest.SomeServers, 0o600)
			f.Protected = []*pb.Protection{h.Protect()}
			h.Write("src/shop/.mcp.json", `{"mcpServers":{"shop":{"command":"shop-mcp"}}}`, 0o600)
		},
		"drifted": func(h *consoletest.Home, f *consoletest.Daemon) {
			h.Write(".claude.json", consoletest.SomeServers, 0o600)
			p := h.Protect()
			h.Write(".claude.json", strings.Replace(consoletest.SomeServers, "clock", "watch", 1), 0o600)
			p.Repair, p.Lost, p.Added = false, []string{"files"}, []string{"watch"}
			p.Problem = "the lines of files were taken out; watch came in since and is not governed"
			f.Protected = []*pb.Protection{p}
		},
		"old-shim": func(h *consoletest.Home, f *consoletest.Daemon) {
			h.Write(".claude.json", consoletest.SomeServers, 0o600)
			f.Protected = []*pb.Protection{h.Protect()}
			h.Write("bin/tg-shim", "#!/bin/sh\necho tg-shim v0.0.9\n", 0o755)
		},
		"no-shim": func(h *consoletest.Home, f *consoletest.Daemon) {
			h.Write(".claude.json", consoletest.SomeServers, 0o600)
			f.Protected = []*pb.Protection{h.Protect()}
			if err := os.Remove(h.Shim); err != nil {
				h.T.Fatal(err)
			}
		},
		"ending": func(h *consoletest.Home, f *consoletest.Daemon) {
			h.Write(".claude.json", consoletest.SomeServers, 0o600)
			p := h.Protect()
			p.Ending, p.Problem = true, "restore ~/.claude.json: no space left on device"
			f.Protected = []*pb.Protection{p}
		},
		"leftovers": func(h *consoletest.Home, f *consoletest.Daemon) {
			h.Write(".claude.json", consoletest.SomeServers, 0o600)
			h.Protect() // lost by the daemon
			h.Write(".claude.json.thoughtgate-altered", "{}", 0o600)
			h.Write(".claude.json.thoughtgate-lock", "", 0o600)
			f.Sessions = consoletest.OpenSessions()[1:]
			f.Sessions[0].Spec.Files = []*pb.ConfigFile{{Path: h.Dir + "/mcp.json"}}
			f.Sessions[0].Problem = "restore " + h.Dir + "/mcp.json: no space left on device"
		},
		"custom": func(_ *consoletest.Home, f *consoletest.Daemon) {
			f.Protected = []*pb.Protection{{Id: "1", Agent: "custom", Paths: []string{"/srv/mcp.json"}, Servers: []string{"one"}, Shim: "/bin/echo",
				Problem: "its lines name the socket /a, and this daemon listens at /b"}}
		},
		"broken": func(h *consoletest.Home, _ *consoletest.Daemon) {
			h.Write(".claude.json", "{\n  \"mcpServers\": [\x1b[2J", 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			was := ui.Release
			ui.Release = "v0.1.0"
			defer func() { ui.Release = was }()
			h := consoletest.NewHome(t)
			f := consoletest.Start(t)
			f.Status = consoletest.Healthy()
			fill(h, f)
			c := newConsole(f.Socket)
			c.Env["HOME"] = h.Dir
			if code := c.Run(t, "status"); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			_, about, found := strings.Cut(c.Out.String(), "/shim.sock\n")
			if !found {
				t.Fatalf("no sockets:\n%s", c.Out.String())
			}
			consoletest.MustFit(t, about, 80)
			out := strings.ReplaceAll(about, h.Dir, "HOME")
			if code := c.Run(t, "status", "--json"); code != 0 || !json.Valid(c.Out.Bytes()) {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			_, about, _ = strings.Cut(c.Out.String(), `"running":true,`)
			t.Chdir(h.Here)
			consoletest.Golden(t, "status-agents-"+name, out+"--- json\n"+strings.ReplaceAll(about, h.Dir, "HOME"))
		})
	}
}

// The agents are reported without a daemon too.
func TestStatusOfAgentsWithoutADaemon(t *testing.T) {
	h := consoletest.NewHome(t)
	h.Write(".claude.json", consoletest.SomeServers, 0o600)
	h.Protect()
	c := newConsole(filepath.Join(h.Dir, "control.sock"))
	c.Env["HOME"] = h.Dir
	if code := c.Run(t, "status"); code != ui.ExitNotRunning || !strings.Contains(c.Err.String(), "thoughtgated is not running") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	out := strings.ReplaceAll(c.Out.String(), h.Dir, "HOME")
	if code := c.Run(t, "status", "--json"); code != ui.ExitNotRunning || !strings.Contains(c.Out.String(), `"governed":"stray"`) {
		t.Errorf("exit %d: %s", code, c.Out.String())
	}
	t.Chdir(h.Here)
	consoletest.Golden(t, "status-agents-stopped", out)
}
