package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// Timeout is the timeout for anything that should happen soon. It is long because machines
// that run tests are busy; only a test that is about to fail waits that long.
const Timeout = 60 * time.Second

// Configuration forwards everything except calls of the tool "held", which wait for approval,
// and of "denied", which are denied.
const Configuration = `
schema: 1
governance:
  defaults: {action: forward, asks: forward}
  rules:
    - {match: held, action: approve}
    - {match: denied, action: deny}
approval:
  me: {destination: {type: local}, timeout: 10m}
pins: {mode: off}
`

// Fixture is a fixture: a user with folders of their own, and ThoughtGate for that user.
type Fixture struct {
	tb     testing.TB
	root   string
	Env    []string // environment of every program; a test may append to it
	Daemon *Process // nil while none runs

	// Shipped starts the daemon without the race detector, under which the largest messages
	// take it longer than tg-shim waits.
	Shipped bool

	// Program, if set, is started as the daemon in place of the built one.
	Program string

	// Keep runs the daemon under its own keeper. Then Daemon is the keeper, which restarts the
	// daemon whenever it dies.
	Keep bool

	service string // unit of the user's systemd that runs the daemon; empty for none

	held  []*os.File // the daemon's sockets, if the test acts as the service manager
	store *FDStore
}

// NewFixture creates a Fixture. If any of its processes still runs when the test ends, that process
// is killed and the test fails.
func NewFixture(tb testing.TB) *Fixture {
	tb.Helper()
	root := tempdir.New(tb, "/tmp", "tg-rig-") // the path of tb.TempDir is too long for a socket
	h := &Fixture{tb: tb, root: root}
	for _, dir := range []string{"home", "config/thoughtgate", "state", "run", "work"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	h.Env = []string{
		"HOME=" + root + "/home", "XDG_CONFIG_HOME=" + root + "/config", "XDG_STATE_HOME=" + root + "/state",
		"XDG_RUNTIME_DIR=" + root + "/run", "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0",
	}
	h.store = NewFDStore(tb, h.Path("notify.sock"))
	tb.Cleanup(h.leave)
	return h
}

// Path returns a path below the folder of the Fixture.
func (h *Fixture) Path(elem ...string) string {
	return filepath.Join(append([]string{h.root}, elem...)...)
}

// Configure writes text to thoughtgate.yaml, atomically: a daemon that starts reads the new
// file or the old one.
func (h *Fixture) Configure(text string) {
	h.tb.Helper()
	path := h.Path("config/thoughtgate/thoughtgate.yaml")
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		h.tb.Fatal(err)
	}
}

// Socket returns the path of the socket for tg-shim.
func (h *Fixture) Socket() string { return h.Path("run/thoughtgate/shim.sock") }

// StartDaemon starts thoughtgated and returns when tg-shim and a person can connect.
func (h *Fixture) StartDaemon() {
	h.tb.Helper()
	log, err := os.OpenFile(h.Path("daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.tb.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(or(h.Program, program(h.tb, "thoughtgated", h.Shipped)), "--log-format", "text")
	cmd.Env, cmd.Dir = h.Env, "/"
	cmd.Stdout, cmd.Stderr = log, log
	if h.Keep {
		cmd.Args = append(cmd.Args, "--keep")
		h.Daemon = start(h.tb, cmd)
	} else {
		h.store.Start(cmd, h.held, func() { h.Daemon = start(h.tb, cmd) })
	}
	end := time.Now().Add(Timeout)
	for _, name := range sockets {
		for ; ; time.Sleep(10 * time.Millisecond) {
			if conn, err := net.Dial("unix", h.Path("run/thoughtgate", name+".sock")); err == nil {
				conn.Close()
				break
			} else if h.Daemon.HasEnded() || time.Now().After(end) {
				h.tb.Fatalf("the daemon does not answer: %v\n%s", err, h.DaemonLog())
			}
		}
	}
}

// StopDaemon stops the daemon as a service manager does.
func (h *Fixture) StopDaemon() {
	h.tb.Helper()
	h.Daemon.Signal(syscall.SIGTERM)
	if code, ok := h.Daemon.Wait(Timeout); !ok || code != 0 {
		h.tb.Errorf("the daemon: exit status %d, ended %v, want 0", code, ok)
	}
	h.Daemon = nil
}

// KillDaemon kills the daemon with SIGKILL.
func (h *Fixture) KillDaemon() {
	h.tb.Helper()
	h.Daemon.Signal(syscall.SIGKILL)
	h.Daemon.Wait(Timeout)
	h.Daemon = nil
}

// LoseDaemon kills the daemon and drops the descriptors kept for the next one, as when the
// whole service ends: its sessions end.
func (h *Fixture) LoseDaemon() {
	h.tb.Helper()
	h.KillDaemon()
	h.store.Drop()
}

// DaemonLog returns the daemon's log.
func (h *Fixture) DaemonLog() string {
	raw, _ := os.ReadFile(h.Path("daemon.log"))
	return string(raw)
}

// lastWords returns the end of a daemon's log, behind the errors that came before.
func lastWords(log string) string {
	const most, mostErrors = 8 << 10, 4 << 10
	end := max(0, len(log)-most)
	var errors strings.Builder
	for line := range strings.Lines(log[:end]) {
		if strings.Contains(line, "level=error") && errors.Len() < mostErrors {
			errors.WriteString(line)
		}
	}
	return errors.String() + log[end:]
}

func (h *Fixture) leave() {
	if h.Daemon != nil {
		h.Daemon.Signal(syscall.SIGCONT) // a test may have stopped it
		h.StopDaemon()
	}
	h.store.Drop()
	h.CheckEmpty()
	if h.tb.Failed() {
		h.tb.Logf("the daemon said:\n%s", lastWords(h.DaemonLog()))
	}
	if err := os.RemoveAll(h.root); err != nil {
		h.tb.Error(err)
	}
}

// CheckEmpty fails the test if a process of the Fixture, except the daemon, does not end soon,
// and kills that process. Without /proc it does nothing.
func (h *Fixture) CheckEmpty() {
	h.tb.Helper()
	var left map[int]string
	end := time.Now().Add(Timeout)
	for wait := 10 * time.Millisecond; time.Now().Before(end); wait = min(2*wait, time.Second/4) { // each check examines all processes
		if left = h.Processes(); len(left) == 0 {
			return
		}
		time.Sleep(wait)
	}
	for pid, what := range left {
		h.tb.Errorf("still running: %d %s", pid, what)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Processes returns the command lines of the processes of the Fixture, except the daemon, by pid.
// They are recognized by the HOME in their environment, which the programs pass on.
func (h *Fixture) Processes() map[int]string {
	found := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || h.Daemon != nil && pid == h.Daemon.PID() {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !strings.Contains(string(env), "="+h.root+"/home\x00") {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		found[pid] = strings.ReplaceAll(strings.TrimSuffix(string(line), "\x00"), "\x00", " ")
	}
	return found
}

// Process is a program started by the test. Wait may be called any number of times.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	go func() { // ends with the process
		_ = cmd.Wait() // the status is in ProcessState
		close(p.ended)
	}()
	return p
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Stop sends SIGSTOP and returns when the process has stopped: after the signal alone, its
// threads may still run for a moment.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && !status.Stopped() {
			err = fmt.Errorf("process %d ended when it was to stop", p.PID())
		}
		return err
	}
}

// HasEnded reports whether the process has ended.
func (p *Process) HasEnded() bool {
	_, ok := p.Wait(0)
	return ok
}

// Wait waits for the end of the process, for d at most, and returns the exit code, which is 128
// plus the signal's number after a signal.
func (p *Process) Wait(d time.Duration) (code int, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	select {
	case <-p.ended:
	case <-ctx.Done():
		select {
		case <-p.ended:
		default:
			return 0, false
		}
	}
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), true
	}
	return p.cmd.ProcessState.ExitCode(), true
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }
