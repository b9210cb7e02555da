package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
)

// fixture is a daemon with a folder of its own.
type fixture struct {
	dir    string
	self   string
	bin    string
	env    []string
	config string // appended to the configuration
	level  string // of the daemon's log
	daemon *exec.Cmd
	log    bytes.Buffer

	base  *fixture // runs the programs to compare with; nil for none
	peers []peer
}

const policy = `schema: 1
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - {match: "delete_*", action: deny}
`

// newFixture starts a daemon. config is appended to policy.
func newFixture(bin, config string) (*fixture, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tgbench")
	if err != nil {
		return nil, err
	}
	h := &fixture{dir: dir, self: self, bin: bin, config: config, level: "info", env: []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + dir + "/run",
		"XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state",
	}}
	if err = h.furnish(); err == nil {
		_, err = h.start()
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// furnish writes the configuration.
func (h *fixture) furnish() error {
	for _, sub := range []string{"run", "config/thoughtgate", "state"} {
		if err := os.MkdirAll(filepath.Join(h.dir, sub), 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(h.dir, "config/thoughtgate/thoughtgate.yaml"), []byte(policy+h.config), 0o600)
}

// start starts the daemon and returns how long it took until it answered.
func (h *fixture) start() (time.Duration, error) {
	began := time.Now()
	h.daemon = exec.Command(filepath.Join(h.bin, "thoughtgated"), "--log-format", "text", "--log-level", h.level)
	h.daemon.Env = h.env
	h.daemon.Stderr = &h.log
	if err := h.daemon.Start(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		c, err := client.Dial(ctx, client.WithSocket(h.control()))
		if err == nil {
			_, err = c.Status(ctx)
			c.Close()
		}
		if err == nil {
			return time.Since(began), nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("the daemon does not come up: %w: %s", err, h.log.String())
		}
		time.Sleep(time.Millisecond)
	}
}

// stop stops the daemon.
func (h *fixture) stop() error {
	if err := h.daemon.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return h.daemon.Wait()
}

func (h *fixture) control() string { return filepath.Join(h.dir, "run/thoughtgate/control.sock") }

// tgctl runs tgctl with args.
func (h *fixture) tgctl(args ...string) error {
	cmd := exec.Command(filepath.Join(h.bin, "tgctl"), args...)
	cmd.Env = h.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tgctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (h *fixture) close() {
	if h.daemon != nil && h.daemon.Process != nil && h.daemon.ProcessState == nil {
		_ = h.stop() // it is not needed any more
	}
	os.RemoveAll(h.dir)
}
