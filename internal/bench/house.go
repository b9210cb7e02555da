package main

import (
	"bytes"
	"context"
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

	"github.com/thoughtgate/thoughtgated/client"
)

// house is a daemon of its own in a folder of its own.
type house struct {
	dir    string
	self   string
	bin    string
	env    []string
	config string // more of the configuration
	daemon *exec.Cmd
	log    bytes.Buffer
}

const policy = `schema: 1
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - {match: "delete_*", action: deny}
`

// newHouse starts a daemon. config is put behind policy.
func newHouse(bin, config string) (*house, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tgbench")
	if err != nil {
		return nil, err
	}
	h := &house{dir: dir, self: self, bin: bin, config: config, env: []string{
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
func (h *house) furnish() error {
	for _, sub := range []string{"run", "config/thoughtgate", "state"} {
		if err := os.MkdirAll(filepath.Join(h.dir, sub), 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(h.dir, "config/thoughtgate/thoughtgate.yaml"), []byte(policy+h.config), 0o600)
}

// start starts the daemon, and returns how long it took until it answered.
func (h *house) start() (time.Duration, error) {
	began := time.Now()
	h.daemon = exec.Command(filepath.Join(h.bin, "thoughtgated"), "--log-format", "text")
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

// stop ends the daemon.
func (h *house) stop() error {
	if err := h.daemon.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return h.daemon.Wait()
}

func (h *house) control() string { return filepath.Join(h.dir, "run/thoughtgate/control.sock") }

// syncs is the median time that it takes to put 400 bytes at the end of a file and
// onto stable storage, where the audit log lies.
func (h *house) syncs(n int) (time.Duration, error) {
	f, err := os.CreateTemp(filepath.Join(h.dir, "state"), "sync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var all []time.Duration
	for range n {
		began := time.Now()
		if _, err := f.Write(make([]byte, 400)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(began))
	}
	return median(all), nil
}

func (h *house) close() {
	if h.daemon != nil && h.daemon.Process != nil && h.daemon.ProcessState == nil {
		_ = h.stop() // what it was good for is done
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

// children are the processes that pid has started, whichever of its threads did.
func children(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, list := range lists {
		for _, f := range strings.Fields(readFile(list)) {
			if n, err := strconv.Atoi(f); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}
