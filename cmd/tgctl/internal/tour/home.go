package tour

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/demo"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// demoHome is a temporary home with its own daemon. Its app has that home as its
// environment.
type demoHome struct {
	app    *connect.App
	root   string
	self   string
	env    []string
	daemon *child.Child
}

const (
	demoGrace   = 10 * time.Second // for a process to end by itself
	demoDaemon  = "daemon.log"
	longestTemp = 40 // bytes; a longer path would make the paths of sockets too long
)

func (a *app) newDemoHome() (*demoHome, error) {
	self, err := a.Executable()
	if err != nil {
		return nil, err
	}
	parent := os.TempDir()
	if len(parent) > longestTemp {
		parent = "/tmp"
	}
	root, err := os.MkdirTemp(parent, "tg-demo-")
	if err != nil {
		return nil, err
	}
	h := &demoHome{root: root, self: self}
	if err := h.furnish(a); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return h, nil
}

// furnish creates the files and directories of the home.
func (h *demoHome) furnish(a *app) error {
	// Paths are compared, so symbolic links in that of the temporary directory are
	// resolved.
	root, err := filepath.EvalSymlinks(h.root)
	if err != nil {
		return err
	}
	h.root = root
	values := map[string]string{"HOME": root, "XDG_CONFIG_HOME": root + "/config", "XDG_STATE_HOME": root + "/state", "XDG_RUNTIME_DIR": root + "/run",
		"PATH": a.Getenv("PATH"), "LANG": a.Getenv("LANG"), "TMPDIR": a.Getenv("TMPDIR"), "COLUMNS": "76"}
	for name, value := range values {
		if value != "" {
			h.env = append(h.env, name+"="+value)
		}
	}
	slices.Sort(h.env)
	for _, dir := range []string{"config", "state", "run"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			return err
		}
	}
	inside := a.Clone()
	inside.Getenv = func(name string) string { return values[name] }
	inside.Environ = func() []string { return h.env }
	inside.OutTerminal, inside.NoStart = false, true
	h.app = inside

	paths, err := sock.DefaultPaths(inside.Getenv)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(paths.Config, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(paths.ConfigFile(), []byte(demoConfig), 0o600); err != nil {
		return err
	}
	agentConfig, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]demo.Server{
		demoServer: demo.Server{Command: h.self, Args: []string{"demo", "server", "--log", h.serverLog()}},
	}}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(h.agentConfig(), agentConfig, 0o600)
}

func (h *demoHome) serverLog() string   { return filepath.Join(h.root, "server.log") }
func (h *demoHome) agentConfig() string { return filepath.Join(h.root, "mcp.json") }
func (h *demoHome) daemonLog() string   { return filepath.Join(h.root, demoDaemon) }

// start starts a program in the home, in its own process group: an interrupt from the
// keyboard reaches only this process, which ends the others in order. Where the platform
// supports it, the program ends when this process is killed.
func (h *demoHome) start(output *os.File, name string, args ...string) (*child.Child, error) {
	return child.Start(child.Spec{Command: name, Args: args, Env: h.env, Dir: h.root, Stdout: output, Stderr: output})
}

// startDaemon starts thoughtgated and returns when it answers.
func (h *demoHome) startDaemon(ctx context.Context) error {
	path, err := h.app.Sibling(connect.DaemonName)
	if err != nil {
		return err
	}
	log, err := os.Create(h.daemonLog())
	if err != nil {
		return err
	}
	defer log.Close()
	if h.daemon, err = h.start(log, path, "--log-format", "text"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connect.StartTimeout)
	defer cancel()
	_, err = h.app.AwaitDaemon(ctx, 0, func() error {
		select {
		case <-h.daemon.Done():
			return fmt.Errorf("%s ended while starting: %s", connect.DaemonName, h.daemon.Wait())
		default:
			return nil
		}
	})
	return err
}

// startWrap starts the wrapped agent. lines is closed when its output ends. ended waits
// for the agent to end; with now it ends the agent first.
func (h *demoHome) startWrap(ctx context.Context) (lines <-chan demoLine, ended func(now bool) error, err error) {
	wrap, err := h.start(nil, h.self, "wrap", "--no-start", "--agent-type", "custom", "--config-path", h.agentConfig(), "--",
		h.self, "demo", "agent", "--config", h.agentConfig())
	if err != nil {
		return nil, nil, err
	}
	var talk strings.Builder
	out := make(chan demoLine)
	stop := make(chan struct{})
	var reading sync.WaitGroup // done when both streams have ended
	reading.Go(func() { _ = child.EscapeStderr(&talk, wrap.Stderr()) })
	reading.Go(func() {
		defer close(out)
		for scanner := bufio.NewScanner(wrap.Stdout()); scanner.Scan(); {
			var line demoLine
			if json.Unmarshal(scanner.Bytes(), &line) != nil {
				continue
			}
			select {
			case out <- line:
			case <-stop:
			}
		}
	})
	return out, func(now bool) error {
		close(stop)
		grace := child.Grace{Stdin: demoGrace, Term: demoGrace}
		if now {
			grace.Stdin = 0
		}
		state := wrap.Stop(context.WithoutCancel(ctx), grace)
		reading.Wait()
		switch {
		case state == (child.State{}):
			return nil
		case talk.Len() > 0 && !now:
			return fmt.Errorf("%s; its stderr:\n%s", state, strings.TrimSpace(talk.String()))
		}
		return errors.New(state.String())
	}, nil
}

// close ends what still runs and removes the home.
func (h *demoHome) close() error {
	if h.daemon != nil {
		h.daemon.Stop(context.Background(), child.Grace{Term: demoGrace})
	}
	if err := os.RemoveAll(h.root); err != nil {
		return fmt.Errorf("remove the home of the demo: %w", err)
	}
	return nil
}

// tellLog prints the end of the daemon's log, which is about to be removed, for a person
// who wants to know why the demo failed.
func (h *demoHome) tellLog() {
	if said, _ := host.Tail(h.daemonLog(), 0, connect.MaxComplaintBytes); len(said) > 0 { // without a log there is nothing to print
		h.app.PrintMessage("Log of thoughtgated:\n%s", display.Lines(strings.TrimSpace(string(said))))
	}
}
