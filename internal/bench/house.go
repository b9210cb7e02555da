package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// house is a daemon of its own in a folder of its own.
type house struct {
	dir    string
	self   string
	bin    string
	env    []string
	daemon *exec.Cmd
	log    bytes.Buffer
}

const policy = `schema: 1
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - {match: "delete_*", action: deny}
`

func newHouse(bin string) (*house, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tgbench")
	if err != nil {
		return nil, err
	}
	h := &house{dir: dir, self: self, bin: bin, env: []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + dir + "/run",
		"XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state",
	}}
	if err := h.start(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *house) start() error {
	for _, sub := range []string{"run", "config/thoughtgate", "state"} {
		if err := os.MkdirAll(filepath.Join(h.dir, sub), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(h.dir, "config/thoughtgate/thoughtgate.yaml"), []byte(policy), 0o600); err != nil {
		return err
	}
	h.daemon = exec.Command(filepath.Join(h.bin, "thoughtgated"), "--log-format", "text")
	h.daemon.Env = h.env
	h.daemon.Stderr = &h.log
	if err := h.daemon.Start(); err != nil {
		return err
	}
	socket := filepath.Join(h.dir, "run/thoughtgate/shim.sock")
	for over := time.Now().Add(10 * time.Second); time.Now().Before(over); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
	}
	return errors.New("the daemon does not come up: " + h.log.String())
}

func (h *house) close() {
	if h.daemon != nil && h.daemon.Process != nil {
		_ = h.daemon.Process.Signal(syscall.SIGTERM)
		_ = h.daemon.Wait()
	}
	os.RemoveAll(h.dir)
}

// ways are the commands that are compared, in the order of their turns.
func (h *house) ways() [3][]string {
	server := []string{h.self, "server"}
	return [3][]string{
		server,
		slices.Concat([]string{h.self, "floor"}, server),
		slices.Concat([]string{filepath.Join(h.bin, "tg-shim"), "--server-id", "bench", "--"}, server),
	}
}

// open starts a peer for each way.
func (h *house) open() ([3]*peer, error) {
	var peers [3]*peer
	for i, way := range h.ways() {
		p, err := startPeer(way, h.env)
		if err != nil {
			return peers, err
		}
		peers[i] = p
		for range 100 { // warm
			if err := p.call("tools/call", "read"); err != nil {
				return peers, fmt.Errorf("%s: %w", way[0], err)
			}
		}
	}
	return peers, nil
}

func closeAll(peers [3]*peer) error {
	var err error
	for _, p := range peers {
		if p != nil {
			err = errors.Join(err, p.close())
		}
	}
	return err
}

// cpu is the processor time that a process has used, its ended children
// included.
func cpu(pid int) time.Duration {
	stat := readFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(stat, ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0
	}
	var ticks int
	for _, f := range fields[11:15] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// resident is the memory that a process holds, in MB: all of it, and its share
// of what it shares.
func resident(pid int) (rss, pss float64) {
	for line := range strings.Lines(readFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "Rss:":
			rss = kb / 1024
		case "Pss:":
			pss = kb / 1024
		}
	}
	return rss, pss
}

// children are the processes that pid has started.
func children(pid int) []int {
	var all []int
	text := readFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(text) {
		if n, err := strconv.Atoi(f); err == nil {
			all = append(all, n)
		}
	}
	return all
}
