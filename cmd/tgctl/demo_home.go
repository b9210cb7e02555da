package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/internal/demo"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// demoHome is a temporary home with a daemon of its own. The app in it is one
// whose environment is that home.
type demoHome struct {
	app    *app
	root   string
	self   string
	env    []string
	daemon *exec.Cmd
	gone   chan error // what the daemon's process ended with
	wrap   *exec.Cmd
}

const (
	demoGrace   = 10 * time.Second // for a process to end by itself
	demoDaemon  = "daemon.log"
	longestTemp = 40 // a longer path leaves no room for that of a socket
)

func (a *app) newDemoHome() (*demoHome, error) {
	self, err := a.executable()
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

// furnish writes what is to be in the home.
func (h *demoHome) furnish(a *app) error {
	// The temporary folder may be behind a link; paths are compared.
	root, err := filepath.EvalSymlinks(h.root)
	if err != nil {
		return err
	}
	h.root = root
	values := map[string]string{"HOME": root, "XDG_CONFIG_HOME": root + "/config", "XDG_STATE_HOME": root + "/state", "XDG_RUNTIME_DIR": root + "/run",
		"PATH": a.getenv("PATH"), "LANG": a.getenv("LANG"), "TMPDIR": a.getenv("TMPDIR"), "COLUMNS": "76"}
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
	inside := *a
	inside.getenv = func(name string) string { return values[name] }
	inside.environ = func() []string { return h.env }
	inside.outTerminal, inside.noStart = false, true
	h.app = &inside

	paths, err := sock.DefaultPaths(inside.getenv)
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

// command is a program in the home, in a process group of its own so that an
// interrupt from the keyboard reaches only us: we end things in their order.
// Where the platform can, it ends when we are killed.
func (h *demoHome) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = h.env
	cmd.Dir = h.root
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = ownGroup()
	return cmd
}

// startDaemon starts thoughtgated and returns when it answers.
func (h *demoHome) startDaemon(ctx context.Context) error {
	// What ties a child's life to ours ties it to the thread that started it.
	runtime.LockOSThread()
	path, err := h.app.sibling(daemonName)
	if err != nil {
		return err
	}
	log, err := os.Create(h.daemonLog())
	if err != nil {
		return err
	}
	defer log.Close()
	h.daemon = h.command(path, "--log-format", "text")
	h.daemon.Stdout, h.daemon.Stderr = log, log
	if err := h.daemon.Start(); err != nil {
		h.daemon = nil
		return fmt.Errorf("start %s: %w", daemonName, err)
	}
	h.gone = make(chan error, 1)
	go func() { h.gone <- h.daemon.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	_, err = h.app.awaitDaemon(ctx, 0, func() error {
		select {
		case err := <-h.gone:
			h.gone <- err
			return fmt.Errorf("%s ended at once: %w", daemonName, err)
		default:
			return nil
		}
	})
	return err
}

// startWrap starts the wrapped agent. lines is closed when its output ends;
// ended waits for it, and first ends it when it is told to.
func (h *demoHome) startWrap(ctx context.Context) (lines <-chan demoLine, ended func(now bool) error, err error) {
	h.wrap = h.command(h.self, "wrap", "--no-start", "--agent-type", "custom", "--config-path", h.agentConfig(), "--",
		h.self, "demo", "agent", "--config", h.agentConfig())
	var talk strings.Builder
	h.wrap.Stderr = &talk
	stdout, err := h.wrap.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := h.wrap.Start(); err != nil {
		h.wrap = nil
		return nil, nil, fmt.Errorf("start tgctl wrap: %w", err)
	}
	out := make(chan demoLine)
	read := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(read)
		defer close(out)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			var line demoLine
			if json.Unmarshal(scanner.Bytes(), &line) != nil {
				continue
			}
			select {
			case out <- line:
			case <-stop:
			}
		}
	}()
	return out, func(now bool) error {
		close(stop)
		ended := make(chan error, 1)
		go func() {
			ended <- h.wrap.Wait()
			<-read
		}()
		err := h.await(h.wrap, ended, now)
		h.wrap = nil
		if err != nil && talk.Len() > 0 && !now {
			err = fmt.Errorf("%w; it said:\n%s", err, strings.TrimSpace(talk.String()))
		}
		return err
	}, nil
}

// await waits for a process, which gets SIGTERM at once or when its time is
// up, and SIGKILL with all of its group when that doesn't help.
func (h *demoHome) await(cmd *exec.Cmd, ended <-chan error, now bool) error {
	pid := cmd.Process.Pid
	if !now {
		select {
		case err := <-ended:
			return err
		case <-time.After(demoGrace):
		}
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	select {
	case err := <-ended:
		return err
	case <-time.After(demoGrace):
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return <-ended
}

// close ends what still runs and removes the home.
func (h *demoHome) close() error {
	if h.daemon != nil {
		_ = h.await(h.daemon, h.gone, true)
	}
	if err := os.RemoveAll(h.root); err != nil {
		return fmt.Errorf("remove the demo's folder: %w", err)
	}
	return nil
}

// tellLog prints the end of what the daemon said, for whoever finds out why the
// demo failed: its log is about to be removed.
func (h *demoHome) tellLog() {
	if said, _ := host.Tail(h.daemonLog(), 0, complaintMost); len(said) > 0 { // without one there is nothing to tell
		h.app.say("What thoughtgated said:\n%s", display.Lines(strings.TrimSpace(string(said))))
	}
}
