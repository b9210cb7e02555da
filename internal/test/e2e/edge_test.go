package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const forwardRules = "schema: 1\ngovernance: {defaults: {action: forward}}\n"

// shim is a tg-shim that a test speaks to itself.
type shim struct {
	*process
	t     *testing.T
	stdin io.WriteCloser
	lines chan string
}

func (h *fixture) shim(command ...string) *shim {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(h.bin, "tg-shim"), append([]string{"--server-id", "one", "--"}, command...)...)
	cmd.Env = append(h.env, "THOUGHTGATE_SOCKET="+h.path("run/thoughtgate/shim.sock"), roleVar+"=server")
	cmd.Dir = h.path("work")
	cmd.Stderr = os.Stderr
	if h.shimLog != "" {
		log, err := os.OpenFile(h.shimLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			h.t.Fatal(err)
		}
		defer log.Close()
		cmd.Stderr = log
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	stdout, write, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Stdout = write
	s := &shim{t: h.t, stdin: stdin, lines: make(chan string, 64)}
	s.process = h.start(cmd)
	write.Close()
	go func() {
		defer close(s.lines)
		defer stdout.Close()
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	return s
}

func (s *shim) write(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		s.t.Error(err)
	}
}

// errorCode waits for a line and returns the code of the error in it, 0 for a
// result.
func (s *shim) errorCode() int {
	s.t.Helper()
	select {
	case line := <-s.lines:
		var m struct{ Error struct{ Code int } }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			s.t.Errorf("%v: %q", err, line)
		}
		return m.Error.Code
	case <-time.After(patience):
		s.t.Fatal("no answer")
		return 0
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// EC-STDIO-009: a server that can't be started.
func TestServerThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	h.startDaemon()
	s := h.shim(h.path("no-such-server"))
	s.write(initialize)
	if code := s.errorCode(); code != -31011 {
		t.Errorf("initialize is answered with %d, want -31011", code)
	}
	s.stdin.Close() // it is answered as long as it stays
	if code := s.wait(t); code != 127 {
		t.Errorf("exit %d, want 127", code)
	}
}

// EC-STDIO-036: a shim that is started before the daemon is.
func TestShimBeforeTheDaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	s := h.shim(testBinary(t), h.path("work"))
	s.write(initialize)
	select {
	case line := <-s.lines:
		t.Errorf("answered without a daemon: %s", line)
	case <-time.After(500 * time.Millisecond):
	}
	h.startDaemon()
	if code := s.errorCode(); code != 0 {
		t.Errorf("initialize is answered with error %d", code)
	}
	s.write(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_notes","arguments":{}}}`)
	if code := s.errorCode(); code != 0 {
		t.Errorf("a call is answered with error %d", code)
	}
	s.stdin.Close()
	if code := s.wait(t); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// EC-STDIO-037: a daemon that hangs. Nothing passes it, and what waits goes on with it,
// or with the next one: who keeps it ends one that hangs.
func TestDaemonThatHangs(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	if r := a.call("one", "list_notes", nil); r.IsError || r.Error != "" {
		t.Fatalf("%+v", r)
	}
	if err := h.daemon.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return stopped(h.daemon.pid()) }, patience) {
		t.Fatal("the daemon does not stop")
	}
	_, result := a.begin(order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": "x", "text": "y"}})
	select {
	case r := <-result:
		t.Errorf("a call that nobody judged: %+v", r)
	case <-time.After(2 * time.Second):
	}
	wantNever(t, h, "one", "write_note")
	if err := h.daemon.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r := a.await(result, "the call once the daemon goes on"); r.IsError || r.Error != "" {
		t.Errorf("the call once the daemon goes on: %+v", r)
	}
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
}

// stopped reports whether each thread of a process has been stopped.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		if state(thread) != 'T' {
			return false
		}
	}
	return true
}

// EC-STDIO-040: what the daemon needs is taken, by another daemon or by a file
// that lies where its socket belongs.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	h.startDaemon()
	if r := h.run(nil, "thoughtgated"); r.code == 0 || !strings.Contains(r.stderr, "thoughtgated.lock") && !strings.Contains(r.stderr, "runs") {
		t.Errorf("a second daemon: exit %d, %s", r.code, r.stderr)
	}
	h.tgctl("status")
	h.stopDaemon()
	h.write("run/thoughtgate/shim.sock", "", 0o600)
	if r := h.run(nil, "thoughtgated"); r.code == 0 || !strings.Contains(r.stderr, h.path("run/thoughtgate/shim.sock")) {
		t.Errorf("a file in the socket's place: exit %d, %s", r.code, r.stderr)
	}
}

// EC-STDIO-022, EC-STDIO-041: tgctl is told to end, with a question open and
// with nothing to do.
func TestWrapIsToldToEnd(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "SIGTERM": syscall.SIGTERM} {
		for _, pending := range []bool{true, false} {
			title := name + " when idle"
			if pending {
				title = name + " with a question open"
			}
			t.Run(title, func(t *testing.T) {
				t.Parallel()
				h := newFixture(t)
				h.rules(killRules)
				config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
				before := h.read("work/mcp.json")
				h.startDaemon()
				a := h.wrap(config)
				if pending {
					a.begin(order{Server: "one", Tool: "send_mail", Arguments: map[string]any{"to": "x@example.com"}})
					h.question()
				}
				if err := syscall.Kill(a.pid(), sig); err != nil {
					t.Fatal(err)
				}
				if code := a.wait(t); code != 128+int(sig) {
					t.Errorf("exit %d, want %d\n%s", code, 128+int(sig), a.talk())
				}
				if after := h.read("work/mcp.json"); after != before {
					t.Errorf("the configuration stays rewritten:\n%s", after)
				}
				if !eventually(func() bool { return len(h.questions()) == 0 }, patience) {
					t.Error("the question stays open")
				}
				if !eventually(func() bool { return len(h.pids()) == 1 }, patience) {
					t.Errorf("left running: %q", h.processes())
				}
				wantNever(t, h, "one", "send_mail")
			})
		}
	}
}

// EC-STDIO-028: what a server says on stderr arrives, as it is where that is no terminal
// which it could act on. The tests of tg-shim have one that is.
func TestServerStderr(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	a.call("one", "noise", map[string]any{"lines": 3})
	if !eventually(func() bool { return strings.Contains(a.talk(), "noise 2") }, patience) {
		t.Errorf("stderr: %q", a.talk())
	}
	if !strings.Contains(a.talk(), "\x1b[31mred") {
		t.Errorf("it does not arrive as it is: %q", a.talk())
	}
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d", code)
	}
}
