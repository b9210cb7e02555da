package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// launchedAt is the variable with the name of the file in which the agent writes when it was
// launched.
const launchedAt = "TGBENCH_LAUNCHED"

// launched is the agent: it writes the time to a file and exits.
func launched() int {
	now := strconv.FormatInt(time.Now().UnixNano(), 10)
	if err := os.WriteFile(os.Getenv(launchedAt), []byte(now), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// measureWrap measures by how much wrapping delays the start of an agent.
func measureWrap(h *fixture, r *report, o options) error {
	mcp := filepath.Join(h.dir, "agent.json")
	if err := os.WriteFile(mcp, []byte(fmt.Sprintf(`{"mcpServers":{"bench":{"command":%q,"args":["server"]}}}`+"\n", h.self)), 0o600); err != nil {
		return err
	}
	var running, cold []float64
	for range o.turns {
		took, err := h.wrap(mcp)
		if err != nil {
			return err
		}
		running = append(running, millis(took))
	}
	for range max(3, o.turns/3) {
		if err := h.stop(); err != nil {
			return err
		}
		took, err := h.wrap(mcp)
		if err != nil {
			return err
		}
		cold = append(cold, millis(took))
		if err := h.tgctl("daemon", "stop"); err != nil {
			return err
		}
		if _, err := h.start(); err != nil {
			return err
		}
	}
	r.add("wrap.running", row{Ours: over(running)})
	r.add("wrap.cold", row{Ours: over(cold)})
	return nil
}

// wrap wraps an agent once and returns the time until the agent was launched.
func (h *fixture) wrap(config string) (time.Duration, error) {
	note := filepath.Join(h.dir, "launched")
	cmd := exec.Command(filepath.Join(h.bin, "tgctl"), "wrap", "--agent-type", "custom", "--config-path", config, "--", h.self, "agent")
	cmd.Env = append(h.env, launchedAt+"="+note)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("wrap: %w: %s", err, out)
	}
	at, err := strconv.ParseInt(readFile(note), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the agent has not said when it was launched: %w", err)
	}
	return time.Unix(0, at).Sub(began), nil
}
