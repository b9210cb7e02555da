package wrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// wrapFixture is a home with one agent's configuration, and a fake daemon.
type wrapFixture struct {
	pb.UnimplementedDaemonServer
	pb.UnimplementedSessionsServer
	t      *testing.T
	home   string
	config string
	socket string

	mu       sync.Mutex
	problem  *pb.Diagnostic // of the configuration
	inForce  string         // path of the configuration in force
	opened   []*pb.SessionSpec
	amended  []*pb.AmendSessionRequest
	closed   int
	finished int
	slow     bool   // Status hangs
	orphans  int    // calls of List until the first session is restored
	failing  string // why the daemon could not restore the file of the first session
	restored []string
	unlock   func()                // called before that session is restored
	tell     chan *pb.SessionEvent // events for the open session
	wait     sync.WaitGroup
}

const wrapConfig = `{
  // two servers
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "files"], "env": { "TOKEN": "s3cr3t" } },
    "clock": { "command": "clock-mcp" },
    "web": { "type": "ws", "url": "wss://example.test" },
  },
}
`

func newWrapFixture(t *testing.T) *wrapFixture {
	h := &wrapFixture{t: t, home: consoletest.ShortDir(t), tell: make(chan *pb.SessionEvent, 8)}
	h.config = filepath.Join(h.home, "agent.json")
	h.socket = filepath.Join(h.home, "control.sock")
	h.write(h.config, wrapConfig, 0o640)
	h.write(filepath.Join(h.home, "tg-shim"), "#!/bin/sh\n", 0o755)
	l, err := net.Listen("unix", h.socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.socket, 0o600); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true)) // handlers start the restoring
	pb.RegisterDaemonServer(server, h)
	pb.RegisterSessionsServer(server, h)
	pb.RegisterPoliciesServer(server, wrapPolicies{h: h})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
		h.wait.Wait()
	})
	return h
}

func (h *wrapFixture) write(path, text string, mode os.FileMode) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		h.t.Fatal(err)
	}
}

type wrapPolicies struct {
	pb.UnimplementedPoliciesServer
	h *wrapFixture
}

func (p wrapPolicies) Validate(context.Context, *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	resp := &pb.ValidateResponse{}
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if p.h.problem != nil {
		resp.Problems = append(resp.Problems, p.h.problem)
	}
	return resp, nil
}

func (h *wrapFixture) shimSocket() string { return filepath.Join(h.home, "shim.sock") }

func (h *wrapFixture) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	h.mu.Lock()
	slow := h.slow
	h.mu.Unlock()
	if slow {
		if err := os.WriteFile(filepath.Join(h.home, "asked"), []byte("yes\n"), 0o600); err != nil {
			return nil, err
		}
		<-ctx.Done()
	}
	return &pb.StatusResponse{ShimSocket: h.shimSocket()}, nil
}

// Open does what the daemon does: when the stream ends, it restores the files.
func (h *wrapFixture) Open(req *pb.OpenSessionRequest, stream grpc.ServerStreamingServer[pb.SessionEvent]) error {
	spec := req.GetSpec()
	h.mu.Lock()
	h.opened = append(h.opened, spec)
	inForce := h.inForce
	h.mu.Unlock()
	err := stream.Send(&pb.SessionEvent{Event: &pb.SessionEvent_Opened{Opened: &pb.SessionOpened{
		ShimSocket: h.shimSocket(), Profile: pb.Profile_PROFILE_PRODUCTION, Config: inForce, Warnings: []string{"a warning\x1b[2J"},
	}}})
	for err == nil {
		select {
		case <-stream.Context().Done():
			err = stream.Context().Err()
		case ev := <-h.tell:
			err = stream.Send(ev)
		}
	}
	if !spec.GetKeep() {
		h.wait.Go(func() { h.restore(spec) })
	}
	return nil
}

func (h *wrapFixture) restore(spec *pb.SessionSpec) {
	for _, f := range spec.GetFiles() {
		for {
			unlock, held, err := agentconf.TryLock(f.GetJournal())
			if err != nil {
				h.t.Error(err)
				return
			}
			if held {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			report, err := agentconf.Restore(f.GetJournal(), nil)
			unlock()
			if err != nil {
				h.t.Error(err)
			}
			h.mu.Lock()
			h.restored = append(h.restored, string(report.State))
			h.mu.Unlock()
			break
		}
	}
}

func (h *wrapFixture) List(context.Context, *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	resp := &pb.ListSessionsResponse{}
	if h.failing != "" {
		resp.Sessions = append(resp.Sessions, &pb.Session{Spec: h.opened[0], Orphaned: true, Problem: h.failing})
		return resp, nil
	}
	if h.orphans == 0 {
		return resp, nil
	}
	if h.orphans--; h.orphans == 0 {
		spec := h.opened[0]
		h.mu.Unlock()
		h.unlock()
		h.restore(spec)
		h.mu.Lock()
	}
	resp.Sessions = append(resp.Sessions, &pb.Session{Spec: h.opened[0], Orphaned: h.orphans == 1})
	return resp, nil
}

func (h *wrapFixture) Close(_ context.Context, req *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if req.GetRestored() {
		h.finished++
	} else {
		h.closed++
	}
	return &pb.CloseSessionResponse{}, nil
}

// session returns the spec of the first wrap.
func (h *wrapFixture) session() *pb.SessionSpec {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.opened) == 0 {
		h.t.Fatal("no session was opened")
	}
	return h.opened[0]
}

func (h *wrapFixture) attached(n uint32) {
	h.tell <- &pb.SessionEvent{Event: &pb.SessionEvent_Shim{Shim: &pb.ShimEvent{Server: "files", Attached: n}}}
}

// tgctl returns a command that runs tgctl in the home.
func (h *wrapFixture) tgctl(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = h.home
	cmd.Env = []string{"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "TGCTL_TEST_BIN=" + h.home, "TGCTL_TEST_CONFIG=" + h.config,
		"THOUGHTGATE_CONTROL=" + h.socket, "XDG_RUNTIME_DIR=" + h.home, "XDG_STATE_HOME=" + h.home, "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	return cmd
}

// wrap returns a command that wraps a shell script.
func (h *wrapFixture) wrap(script string, flags ...string) *exec.Cmd {
	args := append([]string{"wrap", "--agent-type", "custom", "--config-path", h.config}, flags...)
	return h.tgctl(append(args, "--", "sh", "-c", script)...)
}

// result is the output and the exit code of a command.
type result struct {
	out, err string
	code     int
}

func (h *wrapFixture) run(cmd *exec.Cmd) result {
	h.t.Helper()
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	return h.end(cmd, &out, &talk)
}

// end waits for a started command.
func (h *wrapFixture) end(cmd *exec.Cmd, out, talk *bytes.Buffer) result {
	h.t.Helper()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !late.Stop() {
		h.t.Errorf("tgctl did not end; it said %s", talk)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	code := cmd.ProcessState.ExitCode()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		code = -int(status.Signal())
	}
	return result{out.String(), talk.String(), code}
}

// wantAsBefore checks that the configuration is as before, and that no other files are left
// beside it.
func (h *wrapFixture) wantAsBefore() {
	h.t.Helper()
	h.wantConfig(wrapConfig)
	if info, err := os.Stat(h.config); err == nil && info.Mode().Perm() != 0o640 {
		h.t.Errorf("its mode is %o", info.Mode().Perm())
	}
}

// wantConfig checks the content of the configuration, and that no other files are left beside
// it.
func (h *wrapFixture) wantConfig(want string) {
	h.t.Helper()
	if got, err := os.ReadFile(h.config); err != nil || string(got) != want {
		h.t.Errorf("the configuration is\n%s\nwant\n%s\n%v", got, want, err)
	}
	// The daemon holds the lock for a moment, to check that nothing is left to do.
	eventually(h.t, "nothing is left beside it", func() bool {
		left, _ := filepath.Glob(h.config + ".*")
		return len(left) == 0
	})
}

// eventually waits until holds returns true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// appears waits for a file that an agent writes, and returns its text.
func (h *wrapFixture) appears(name string) string {
	h.t.Helper()
	var text []byte
	eventually(h.t, name+" appears", func() bool {
		text, _ = os.ReadFile(filepath.Join(h.home, name))
		return bytes.HasSuffix(text, []byte("\n"))
	})
	return strings.TrimSpace(string(text))
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func pidOf(t *testing.T, text string) int {
	t.Helper()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestWrap(t *testing.T) {
	h := newWrapFixture(t)
	r := h.run(h.wrap(`cat agent.json; echo "active=$THOUGHTGATE_ACTIVE session=$THOUGHTGATE_SESSION"; echo agent talks >&2; exit 3`))
	if r.code != 3 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	spec := h.session()
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(spec.GetId()) || spec.GetAgent() != "custom" || spec.GetProject() != h.home ||
		strings.Join(spec.GetCommand()[:2], " ") != "sh -c" || spec.GetProfile() != pb.Profile_PROFILE_UNSPECIFIED || len(spec.GetFiles()) != 1 ||
		spec.GetFiles()[0].GetPath() != h.config {
		t.Errorf("session %v", spec)
	}
	env := `"THOUGHTGATE_SOCKET": "` + h.shimSocket() + `", "THOUGHTGATE_SESSION": "` + spec.GetId() + `"`
	for _, part := range []string{
		`"command": "` + h.home + `/tg-shim", "args": ["--server-id", "files", "--", "npx", "-y", "files"], "env": { ` + env + `, "TOKEN": "s3cr3t" }`,
		"active=1 session=" + spec.GetId() + "\n",
	} {
		if !strings.Contains(r.out, part) {
			t.Errorf("the agent's output lacks %q:\n%s", part, r.out)
		}
	}
	want := "thoughtgate: warning: a warning\\u{1b}[2J\n" +
		"thoughtgate: governing 2 servers of custom (clock, files); answer questions with `tgctl approvals`\n" +
		"thoughtgate: not governed: web: a remote server (ws), left as it is: its transport \"ws\" is not supported\n" +
		"agent talks\n" +
		"thoughtgate: warning: nothing was governed: no server of custom connected to this session\n"
	if got := r.err; got != want {
		t.Errorf("talk\n got %q\nwant %q", got, want)
	}
	h.mu.Lock()
	if h.closed != 1 || h.finished != 1 {
		t.Errorf("closed %d times, finished %d", h.closed, h.finished)
	}
	h.mu.Unlock()
	h.wantAsBefore()
}

func TestWrapProfile(t *testing.T) {
	h := newWrapFixture(t)
	r := h.run(h.wrap("cat agent.json", "--profile", "development"))
	if r.code != 0 || h.session().GetProfile() != pb.Profile_PROFILE_DEVELOPMENT ||
		!strings.Contains(r.out, `"--server-id", "clock", "--profile", "development", "--", "clock-mcp"`) {
		t.Errorf("exit %d, %s\n%s%s", r.code, h.session().GetProfile(), r.out, r.err)
	}
	if r := h.run(h.wrap("true", "--profile", "lax")); r.code != ui.ExitUsage || !strings.Contains(r.err, "production or development") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}

// EC-STDIO-008, EC-STDIO-011: however the agent ends, or fails to start, the configuration is
// restored and the exit code reports it.
func TestWrapExitCodes(t *testing.T) {
	h := newWrapFixture(t)
	h.write(filepath.Join(h.home, "plain"), "no program", 0o644)
	h.write(filepath.Join(h.home, "broken"), "\x7fELF", 0o755)
	wrap := []string{"wrap", "--agent-type", "custom", "--config-path", h.config, "--"}
	tests := []struct {
		argv []string
		code int
		says string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 42"}, 42, ""},
		{[]string{"sh", "-c", "kill -9 $$"}, 128 + 9, ""},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 128 + 11, ""},
		{[]string{"no-such-agent"}, 127, "cannot run no-such-agent: executable file not found"},
		{[]string{"./no-such-agent"}, 127, "cannot run ./no-such-agent: "},
		{[]string{"./plain"}, 126, "cannot run ./plain: permission denied"},
		{[]string{"./broken"}, 126, "cannot run ./broken: "},
	}
	for _, test := range tests {
		r := h.run(h.tgctl(append(wrap, test.argv...)...))
		if r.code != test.code || !strings.Contains(r.err, test.says) {
			t.Errorf("%q: exit %d, want %d; it said %s", test.argv, r.code, test.code, r.err)
		}
		h.wantAsBefore()
	}
}

// What cannot be wrapped is refused with 125, and nothing is changed or started.
func TestWrapRefuses(t *testing.T) {
	tests := []struct {
		name string
		set  func(*wrapFixture)
		args []string
		says []string
	}{
		{"an agent that nobody knows", func(*wrapFixture) {}, []string{"wrap", "--", "true"}, []string{`can't tell which agent "true" is`, "zed, "}},
		{"EC-STDIO-001", func(h *wrapFixture) { os.Remove(h.config) }, nil, []string{"no configuration of custom was found; searched ", "agent.json"}},
		{"EC-STDIO-002", func(h *wrapFixture) { os.Truncate(h.config, 0) }, nil, []string{"agent.json: line 1, column 1: the file is empty"}},
		{"EC-STDIO-003", func(h *wrapFixture) { h.write(h.config, "{}", 0o600) }, nil, []string{"No MCP servers found in config"}},
		{"EC-STDIO-004", func(h *wrapFixture) {
			h.write(h.config, `{"mcpServers":{"a":{"command":"x","disabled":true}}}`, 0o600)
		}, nil, []string{"All MCP servers are disabled"}},
		{"EC-STDIO-034", func(h *wrapFixture) {
			h.write(h.config, `{"mcpServers":{"a":{"command":"`+h.home+`/tg-shim","args":["--server-id","a","--","x"]}}}`, 0o600)
		}, nil, []string{"already managed by ThoughtGate", "tgctl unwrap "}},
		{"a configuration of ours that has errors", func(h *wrapFixture) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.problem = &pb.Diagnostic{File: "/etc/thoughtgate.yaml", Line: 3, Column: 7, Message: "unknown key", Hint: "rules"}
		}, nil, []string{"/etc/thoughtgate.yaml:3:7: error: unknown key", "nothing was rewritten"}},
		{"no daemon, and none wanted", func(h *wrapFixture) { os.Remove(h.socket) },
			[]string{"wrap", "--no-start", "--agent-type", "custom", "--config-path", "agent.json", "--", "touch", "ran"}, []string{"thoughtgated is not running"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newWrapFixture(t)
			test.set(h)
			before, _ := os.ReadFile(h.config)
			args := test.args
			if args == nil {
				args = []string{"wrap", "--agent-type", "custom", "--config-path", "agent.json", "--", "touch", "ran"}
			}
			r := h.run(h.tgctl(args...))
			if r.code != ui.ExitOurs {
				t.Errorf("exit %d", r.code)
			}
			for _, part := range test.says {
				if !strings.Contains(r.err, part) {
					t.Errorf("it lacks %q: %s", part, r.err)
				}
			}
			if after, _ := os.ReadFile(h.config); string(after) != string(before) {
				t.Errorf("the configuration is %q", after)
			}
			if left, _ := filepath.Glob(h.config + ".*"); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			if _, err := os.Stat(filepath.Join(h.home, "ran")); err == nil {
				t.Error("the agent ran")
			}
		})
	}
}

// If the person names a configuration, another one is not used silently.
func TestWrapNamedConfiguration(t *testing.T) {
	h := newWrapFixture(t)
	named := filepath.Join(h.home, "mine.yaml")
	h.write(named, "schema: 1\n", 0o600)
	for _, test := range []struct {
		inForce, says string
		code          int
	}{
		{"", "names " + named + ", but the running daemon uses its built-in default", ui.ExitOurs},
		{h.config, "but the running daemon uses " + h.config, ui.ExitOurs},
		{named, "governing 2 servers", 0},
	} {
		h.mu.Lock()
		h.inForce = test.inForce
		h.mu.Unlock()
		cmd := h.wrap("true")
		cmd.Env = append(cmd.Env, "THOUGHTGATE_CONFIG="+named)
		if r := h.run(cmd); r.code != test.code || !strings.Contains(r.err, test.says) {
			t.Errorf("in force %q: exit %d: %s", test.inForce, r.code, r.err)
		}
		h.wantAsBefore()
	}
}

// EC-STDIO-038: a dry run prints a diff, says for every server what would happen to it, in at
// most 80 columns, and changes nothing.
func TestWrapDryRun(t *testing.T) {
	h := newWrapFixture(t)
	os.Remove(h.socket) // no daemon is needed, and none is started
	r := h.run(h.wrap("touch ran", "--dry-run"))
	if r.code != 0 || !strings.HasPrefix(r.out, "--- "+h.config+"\n+++ "+h.config+"\n@@ ") || !strings.Contains(r.out, "\n+") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	want := "\n" + h.config + `
SERVER  SCOPE  GOVERNED
files   file   yes
clock   file   yes
web     file   no
        a remote server (ws), left as it is: its transport "ws" is not supported

2 servers of custom would be governed, 1 not; nothing was changed.
`
	if !strings.Contains(r.err, want) {
		t.Errorf("it says\n%s\nwant\n%s", r.err, want)
	}
	if _, err := os.Stat(filepath.Join(h.home, "ran")); err == nil {
		t.Error("the agent ran")
	}
	h.wantAsBefore()
}

// Long names are cut and long reasons wrapped to 80 columns.
func TestWrapDryRunLong(t *testing.T) {
	h := newWrapFixture(t)
	long := strings.Repeat("long-", 30)
	h.write(h.config, `{"servers":{"`+long+`":{"command":"x"},"b":{"type":"`+long+`","url":"u"},"c":{"command":"c","disabled":true}}}`, 0o600)
	r := h.run(h.wrap("touch ran", "--dry-run"))
	_, list, _ := strings.Cut(r.err, "\n"+h.config+"\n")
	list, _, _ = strings.Cut(list, "nothing was changed")
	for line := range strings.Lines(list) {
		if len([]rune(line)) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, part := range []string{"long-l…", "a remote server\n", "not started by the agent: disabled"} {
		if !strings.Contains(list, part) {
			t.Errorf("%q is missing in\n%s", part, list)
		}
	}
}

// EC-STDIO-005: a second wrap of the same file is told who holds it.
func TestWrapTwice(t *testing.T) {
	h := newWrapFixture(t)
	var out, talk bytes.Buffer
	first := h.wrap("echo ready > ready; read line")
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	first.Stdout, first.Stderr = &out, &talk
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	h.appears("ready")
	for _, args := range [][]string{{}, {"--dry-run"}} {
		r := h.run(h.wrap("true", args...))
		if want := fmt.Sprintf("%s is already wrapped by process %d since ", h.config, first.Process.Pid); r.code != ui.ExitOurs || !strings.Contains(r.err, want) || !strings.Contains(r.err, "End that session first") {
			t.Errorf("%q: exit %d: %s", args, r.code, r.err)
		}
	}
	r := h.run(h.tgctl("unwrap", h.config))
	if r.code != ui.ExitFailed || !strings.Contains(r.err, "not changed: a running wrap") {
		t.Errorf("unwrap: exit %d: %s", r.code, r.err)
	}
	fmt.Fprintln(in, "go")
	if r := h.end(first, &out, &talk); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}

// If a wrap and a daemon were killed, the next daemon restores the files, and the next wrap
// waits for that: while the daemon does not know yet that the wrap is dead, and while it
// restores the file.
func TestWrapWaitsForOrphans(t *testing.T) {
	for _, locked := range []bool{false, true} {
		t.Run(fmt.Sprintf("locked %v", locked), func(t *testing.T) {
			h := newWrapFixture(t)
			h.run(h.wrap("true", "--no-restore"))
			unlock := func() {}
			if locked {
				var held bool
				var err error
				if unlock, held, err = agentconf.TryLock(h.session().GetFiles()[0].GetJournal()); held || err != nil {
					t.Fatal(held, err)
				}
			}
			h.mu.Lock()
			h.orphans, h.unlock = 5, unlock
			h.mu.Unlock()
			r := h.run(h.wrap("true"))
			if r.code != 0 {
				t.Errorf("exit %d: %s", r.code, r.err)
			}
			h.wantAsBefore()
		})
	}
}

// If the daemon does not restore what a killed wrap has left, the next wrap says why.
func TestWrapSaysWhyNotRestored(t *testing.T) {
	h := newWrapFixture(t)
	h.run(h.wrap("true", "--no-restore"))
	h.mu.Lock()
	h.failing = "its backup is missing\x1b[2J"
	h.mu.Unlock()
	if r := h.run(h.wrap("true")); r.code != ui.ExitOurs || !strings.Contains(r.err, "`tgctl unwrap "+h.config+"`") || !strings.Contains(r.err, "the daemon has not restored it: its backup is missing") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	os.Remove(h.socket)
	if r := h.run(h.wrap("true")); r.code != ui.ExitOurs || !strings.Contains(r.err, "`tgctl unwrap "+h.config+"`") || !strings.Contains(r.err, "the daemon has not restored it: thoughtgated is not running") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

func TestWrapKeepAndUnwrap(t *testing.T) {
	h := newWrapFixture(t)
	r := h.run(h.wrap("true", "--no-restore"))
	got, _ := os.ReadFile(h.config)
	if r.code != 0 || !strings.Contains(string(got), h.session().GetId()) || !h.session().GetKeep() || !strings.Contains(r.err, "not restored: "+h.config) {
		t.Errorf("exit %d: %s\n%s", r.code, r.err, got)
	}
	r = h.run(h.tgctl("unwrap", "agent.json"))
	if r.code != 0 || r.out != h.config+": restored as it was\n" {
		t.Errorf("unwrap: exit %d: %s%s", r.code, r.out, r.err)
	}
	h.wantAsBefore()
	r = h.run(h.tgctl("unwrap", "agent.json", "gone.json"))
	if r.code != ui.ExitFailed || r.out != h.config+": it has no tg-shim entries\n" || !strings.Contains(r.err, "gone.json does not exist") {
		t.Errorf("unwrap again: exit %d: %s%s", r.code, r.out, r.err)
	}
	for _, args := range [][]string{{"unwrap"}, {"unwrap", "--all", "x"}, {"wrap"}, {"wrap", "--nonsense", "--", "x"}} {
		if r := h.run(h.tgctl(args...)); r.code != ui.ExitUsage {
			t.Errorf("%q: exit %d: %s", args, r.code, r.err)
		}
	}
}

func TestUnwrapAll(t *testing.T) {
	h := newWrapFixture(t)
	line := `{"mcpServers":{"a":{"command":"tg-shim","args":["--server-id","a","--","x","y"],"env":{"THOUGHTGATE_SESSION":"s","K":"v"}}}}`
	h.write(filepath.Join(h.home, ".claude.json"), line, 0o600)
	r := h.run(h.tgctl("unwrap", "--all"))
	if want := filepath.Join(h.home, ".claude.json") + ": the tg-shim entries were removed; everything else was kept\n"; r.code != 0 || r.out != want {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	got, _ := os.ReadFile(filepath.Join(h.home, ".claude.json"))
	if string(got) != `{"mcpServers":{"a":{"command":"x","args":["y"],"env":{"K":"v"}}}}` {
		t.Errorf("it is %s", got)
	}
	if r := h.run(h.tgctl("unwrap", "--all")); r.code != 0 || !strings.Contains(r.err, "no file that the known agents read from here") {
		t.Errorf("again: exit %d: %s%s", r.code, r.out, r.err)
	}
}
