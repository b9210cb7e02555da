package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// patience is how long anything may take that should happen soon. It is long
// because machines that run tests are busy; nothing waits for all of it unless
// the test is about to fail.
const patience = 60 * time.Second

// fixture is a user with a home of their own, and ThoughtGate in it.
type fixture struct {
	t      *testing.T
	root   string
	bin    string
	env    []string
	daemon *process
	kept   *rig.FDStore // what daemons have kept for the next one

	shimLog string // a file for what shims say that a test speaks to; empty for its own standard error
}

// newFixture makes a fixture. At the end of the test nothing of it may be left
// running; whatever is, fails the test and is ended.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	// t.TempDir would make a path too long for a socket.
	root := tempdir.New(t, "/tmp", "tg-e2e-")
	h := &fixture{t: t, root: root, bin: root + "/bin"}
	for _, dir := range []string{"bin", "home", "config/thoughtgate", "state", "run", "work"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// Programs of its own, so that its processes can be told by their names.
	for _, name := range []string{"thoughtgated", "tg-shim", "tgctl"} {
		install(t, filepath.Join(bin, name), filepath.Join(h.bin, name))
	}
	h.env = []string{"HOME=" + root + "/home", "XDG_CONFIG_HOME=" + root + "/config", "XDG_STATE_HOME=" + root + "/state", "XDG_RUNTIME_DIR=" + root + "/run",
		"PATH=" + h.bin + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=" + os.Getenv("USER"), "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0"}
	h.kept = rig.NewFDStore(t, h.path("notify.sock"))
	t.Cleanup(h.leave)
	return h
}

// install makes a program known under another path.
func install(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	raw, err := os.ReadFile(from) // on another file system
	if err == nil {
		err = os.WriteFile(to, raw, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// leave stops the daemon and looks for what is left.
func (h *fixture) leave() {
	if h.daemon != nil {
		h.stopDaemon()
	}
	h.kept.Drop()
	eventually(func() bool { return len(h.pids()) == 0 }, patience)
	for _, pid := range h.pids() {
		h.t.Errorf("still running: %s", commandLine(pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if h.t.Failed() {
		for _, log := range []string{"daemon.log", "state/thoughtgate/thoughtgated.log"} {
			if raw, err := os.ReadFile(filepath.Join(h.root, log)); err == nil && len(raw) > 0 {
				h.t.Logf("%s:\n%s", log, raw[max(0, len(raw)-8<<10):])
			}
		}
	}
	if err := os.RemoveAll(h.root); err != nil {
		h.t.Error(err)
	}
}

func (h *fixture) path(elem ...string) string {
	return filepath.Join(append([]string{h.root}, elem...)...)
}

// write writes a file of the fixture.
func (h *fixture) write(name, content string, mode os.FileMode) string {
	h.t.Helper()
	path := h.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// rules makes text the fixture's thoughtgate.yaml.
func (h *fixture) rules(text string) string {
	return h.write("config/thoughtgate/thoughtgate.yaml", text, 0o600)
}

func (h *fixture) read(name string) string {
	h.t.Helper()
	raw, err := os.ReadFile(h.path(name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(raw)
}

// servers writes a configuration that names servers, with marks of the hand
// that wrote it, and returns its path.
func (h *fixture) servers(mode os.FileMode, servers map[string]entry) string {
	h.t.Helper()
	var b strings.Builder
	b.WriteString("{\n    \"note\": \"kept by hand: \\u00e9\",\n    \"mcpServers\": {\n")
	names := 0
	for name, e := range servers {
		line, err := json.Marshal(e)
		if err != nil {
			h.t.Fatal(err)
		}
		if names++; names > 1 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "\t\t%q:   %s", name, line)
	}
	b.WriteString("\n    }\n,  \"last\": 1.50\n}")
	return h.write("work/mcp.json", b.String(), mode)
}

// entry is a server in a configuration.
type entry struct {
	Type    string            `json:"type,omitempty"`
	URL     string            `json:"url,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// fakeServer is the entry of a server that logs what it executes.
func (h *fixture) fakeServer(name string) entry {
	return entry{Command: testBinary(h.t), Args: []string{h.path("work")}, Env: map[string]string{roleVar: "server", "E2E_NAME": name, "E2E_LOG": h.path(name + ".log")}}
}

func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ran is how a program ended.
type ran struct {
	stdout, stderr string
	code           int
}

// run runs a program of the fixture to its end.
func (h *fixture) run(env []string, name string, args ...string) ran {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(h.bin, name), args...)
	cmd.Env = append(slices.Clone(h.env), env...)
	cmd.Dir = h.path("work")
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		h.t.Fatalf("%s %q: %v", name, args, err)
	}
	return ran{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// tgctl runs tgctl, which must succeed, and returns what it printed.
func (h *fixture) tgctl(args ...string) string {
	h.t.Helper()
	r := h.run(nil, "tgctl", args...)
	if r.code != 0 {
		h.t.Fatalf("tgctl %q: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// process is a program that runs beside the test.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once ended is closed
}

func (h *fixture) start(cmd *exec.Cmd) *process {
	h.t.Helper()
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// wait waits for the end, and returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Errorf("%s does not end", p.cmd.Path)
		p.kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// startDaemon starts thoughtgated and returns when it answers.
func (h *fixture) startDaemon() {
	h.t.Helper()
	log, err := os.OpenFile(h.path("daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(h.bin, "thoughtgated"), "--log-format", "text")
	cmd.Env, cmd.Dir = h.env, "/"
	cmd.Stdout, cmd.Stderr = log, log
	h.kept.Start(cmd, nil, func() { h.daemon = h.start(cmd) })
	var last ran
	if !eventually(func() bool { last = h.run(nil, "tgctl", "status", "--no-start"); return last.code == 0 }, patience) {
		h.t.Fatalf("the daemon does not answer: %s", last.stderr)
	}
}

func (h *fixture) stopDaemon() {
	h.t.Helper()
	_ = h.daemon.cmd.Process.Signal(syscall.SIGTERM)
	if code := h.daemon.wait(h.t); code != 0 {
		h.t.Errorf("the daemon ended with exit code %d", code)
	}
	h.daemon = nil
}

func (h *fixture) killDaemon() {
	h.daemon.kill()
	h.daemon = nil
}

// agent is a client program that runs, wrapped or not.
type agent struct {
	*process
	h     *fixture
	stdin *os.File

	mu      sync.Mutex // guards what follows
	last    int
	waiting map[int]chan reply
	stderr  bytes.Buffer
	gone    bool
}

// wrap starts the client under tgctl wrap and returns when it has connected.
func (h *fixture) wrap(config string, flags ...string) *agent {
	h.t.Helper()
	args := append([]string{"wrap", "--agent-type", "custom", "--config-path", config}, flags...)
	return h.agent(append(args, "--", testBinary(h.t)), roleVar+"=client", configVar+"="+config)
}

// agent starts tgctl with args and env, and a client program in it.
func (h *fixture) agent(args []string, env ...string) *agent {
	h.t.Helper()
	return h.client("tgctl", args, env...)
}

// client is agent for one that is started by a program of any name.
func (h *fixture) client(name string, args []string, env ...string) *agent {
	h.t.Helper()
	a := &agent{h: h, waiting: map[int]chan reply{}}
	cmd := exec.Command(filepath.Join(h.bin, name), args...)
	cmd.Env = append(slices.Clone(h.env), env...)
	cmd.Dir = h.path("work")
	cmd.Stderr = &lockedWriter{mu: &a.mu, to: &a.stderr}
	cmd.WaitDelay = 5 * time.Second
	// Pipes of our own: whoever inherits them may outlive tgctl.
	stdinRead, stdin, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	stdout, stdoutWrite, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = stdinRead, stdoutWrite
	a.stdin = stdin
	ready := make(chan reply, 1)
	a.waiting[0] = ready
	a.process = h.start(cmd)
	stdinRead.Close()
	stdoutWrite.Close()
	go a.listen(stdout)
	h.t.Cleanup(func() { stdin.Close() })
	select {
	case r := <-ready:
		if r.Error != "" {
			h.t.Fatalf("the client: %s\n%s", r.Error, a.talk())
		}
	case <-time.After(patience):
		h.t.Fatalf("the client does not connect\n%s", a.talk())
	}
	return a
}

// listen hands out replies until the client has gone; then it says so to
// whoever waits.
func (a *agent) listen(stdout *os.File) {
	defer stdout.Close()
	for decoder := json.NewDecoder(stdout); ; {
		var r reply
		err := decoder.Decode(&r)
		a.mu.Lock()
		if err != nil {
			a.gone = true
			for id, waiting := range a.waiting {
				waiting <- reply{ID: id, Error: "the client has gone: " + err.Error()}
			}
			a.mu.Unlock()
			return
		}
		if waiting := a.waiting[r.ID]; waiting != nil {
			waiting <- r
			delete(a.waiting, r.ID)
		}
		a.mu.Unlock()
	}
}

// begin has the client do something.
func (a *agent) begin(o order) (id int, result <-chan reply) {
	a.h.t.Helper()
	waiting := make(chan reply, 1)
	a.mu.Lock()
	a.last++
	o.ID = a.last
	if a.gone {
		waiting <- reply{Error: "the client has gone"}
	} else {
		a.waiting[o.ID] = waiting
	}
	a.mu.Unlock()
	line, err := json.Marshal(o)
	if err != nil {
		a.h.t.Fatal(err)
	}
	_, _ = a.stdin.Write(append(line, '\n')) // a client that has gone says so in result
	return o.ID, waiting
}

// call has a tool called and waits for what comes of it.
func (a *agent) call(server, tool string, arguments map[string]any) reply {
	a.h.t.Helper()
	_, result := a.begin(order{Server: server, Tool: tool, Arguments: arguments})
	return a.await(result, server+" "+tool)
}

func (a *agent) await(result <-chan reply, what string) reply {
	a.h.t.Helper()
	select {
	case r := <-result:
		return r
	case <-time.After(patience):
		a.h.t.Fatalf("%s stays unanswered\n%s", what, a.talk())
		return reply{}
	}
}

// leave has the client end, and returns the exit code of tgctl.
func (a *agent) leave() int {
	a.h.t.Helper()
	a.stdin.Close()
	return a.wait(a.h.t)
}

// talk returns what was said on stderr.
func (a *agent) talk() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stderr.String()
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// question is an open question, as tgctl lists it.
type question struct {
	ID     string `json:"id"`
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
	State  string `json:"state"`
}

// questions returns the open questions.
func (h *fixture) questions() []question {
	h.t.Helper()
	var all []question
	for line := range strings.Lines(h.tgctl("approvals", "list", "--json", "--no-start")) {
		var q question
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			h.t.Fatalf("approvals list: %v: %s", err, line)
		}
		all = append(all, q)
	}
	return all
}

// question waits until exactly one question is open.
func (h *fixture) question() question {
	h.t.Helper()
	var all []question
	if !eventually(func() bool { all = h.questions(); return len(all) == 1 }, patience) {
		h.t.Fatalf("open questions: %+v, want one", all)
	}
	return all[0]
}

// entryOf is a line of the log, as far as tests look.
type logged struct {
	Seq       uint64   `json:"seq"`
	Kind      string   `json:"kind"`
	ID        string   `json:"id"`
	Server    string   `json:"server"`
	Method    string   `json:"method"`
	Tool      string   `json:"tool"`
	Verdict   string   `json:"verdict"`
	Gate      string   `json:"gate"`
	Rule      string   `json:"rule"`
	Reason    string   `json:"reason"`
	Approval  string   `json:"approval"`
	Answerer  string   `json:"answerer"`
	Session   string   `json:"session"`
	Facts     []string `json:"facts"`
	Forwarded bool     `json:"forwarded"`
	Decider   string   `json:"decider"`
	Surface   string   `json:"surface"`

	Peer *record.Peer `json:"peer"`
}

// log returns the record as it stands on disk, which must verify.
func (h *fixture) log() []logged {
	h.t.Helper()
	if out := h.tgctl("audit", "verify"); !strings.Contains(out, "verified") {
		h.t.Errorf("audit verify: %s", out)
	}
	files, err := filepath.Glob(h.path("state/thoughtgate/audit/*.jsonl"))
	if err != nil || len(files) == 0 {
		h.t.Fatalf("no log: %v", err)
	}
	var all []logged
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			h.t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			var l logged
			if err := json.Unmarshal(line, &l); err != nil {
				h.t.Fatalf("%s: %v: %s", file, err, line)
			}
			if l.Kind != "" { // lines of values have none
				all = append(all, l)
			}
		}
	}
	return all
}

// count counts the records that are of a kind, tool and verdict; "" is any.
func count(log []logged, kind, tool, verdict string) int {
	n := 0
	for _, l := range log {
		if (kind == "" || l.Kind == kind) && (tool == "" || l.Tool == tool) && (verdict == "" || l.Verdict == verdict) {
			n++
		}
	}
	return n
}

// pids returns the processes of the fixture: those with something of it in their
// environment, which programs hand on, or as their program. What only names it on its
// command line, as a pager of its log does, may be somebody else's; but the daemon's
// environment can be read by root alone.
func (h *fixture) pids() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() || state(dir) == 'Z' {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(environ, []byte(h.root)) || bytes.HasPrefix(line, []byte(h.root)) ||
			(err != nil || len(environ) == 0) && bytes.Contains(line, []byte(h.root)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// state returns the letter of a process's state.
func state(dir string) byte {
	raw, err := os.ReadFile(filepath.Join(dir, "stat"))
	if i := bytes.LastIndexByte(raw, ')'); err == nil && i >= 0 && i+2 < len(raw) {
		return raw[i+2]
	}
	return 0
}

func (h *fixture) processes() []string {
	var all []string
	for _, pid := range h.pids() {
		if line := commandLine(pid); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// commandLine is what a process was started as, after its id; empty if it has gone.
func commandLine(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(raw, []byte{0}, []byte{' '}))
}

// pidsOf returns the processes of the fixture whose program is name.
func (h *fixture) pidsOf(name string) []int {
	var pids []int
	for _, pid := range h.pids() {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if program, _, _ := bytes.Cut(raw, []byte{0}); err == nil && string(program) == filepath.Join(h.bin, name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually polls until it is so, and reports whether it was in time.
func eventually(so func() bool, within time.Duration) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		if so() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func needProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
}
