package handover_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

var sessionsPerEnding = flag.Int("sessions", 8, "how many sessions TestNothingIsLeft has of each kind of ending")

// sessionsAtOnce is how many sessions of TestNothingIsLeft run at a time, and sessionsPerRound
// how many of each kind run between two checks of what is left.
const (
	sessionsAtOnce   = 32
	sessionsPerRound = 50
)

// Servers in one line of shell: there are many, so each must cost little.
const (
	answering = `while read l; do echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'; done`
	crashing  = `read l; kill -9 $$`
)

const endingsConfiguration = rig.Configuration + `
limits: {pending: 1024, pending_per_server: 1024}
`

// An agentProcess uses one tg-shim, at the other ends of its standard streams.
type agentProcess struct {
	cmd    *exec.Cmd // tg-shim, or its parent
	input  *os.File  // what the agent reads
	output *os.File
	lines  *bufio.Reader
	socket bool // both are one socket
}

// endings are the ways in which a session can end. Each starts tg-shim, and returns when that
// has exited. An agent that is passed to keep stays as it is, with its ends open, until the
// next check of what is left.
var endings = []struct {
	name string
	run  func(s *endingRun) error
}{
	{"agent closes", func(s *endingRun) error {
		a, err := s.start("sh", "-c", answering)
		return errors.Join(err, a.asks("echo", `"result"`), a.hangUp(), a.ends(anyStatus), a.close())
	}},
	{"agent is killed", func(s *endingRun) error { return s.killAgent() }},
	{"tg-shim is killed", func(s *endingRun) error {
		a, err := s.start("sh", "-c", answering)
		return errors.Join(err, a.asks("echo", `"result"`), a.cmd.Process.Kill(), a.ends(-1), a.close())
	}},
	{"server crashes", func(s *endingRun) error {
		a, err := s.start("sh", "-c", crashing)
		return errors.Join(err, a.asks("echo", `"error"`), a.ends(-1), a.close())
	}},
	{"server can't be started", func(s *endingRun) error {
		a, err := s.start("/nowhere/server")
		return errors.Join(err, a.asks("echo", `"error"`), a.hangUp(), a.ends(127), a.close())
	}},
	{"call is held", func(s *endingRun) error {
		a, err := s.start("sh", "-c", answering)
		// A call behind the held one is answered after that is held.
		return errors.Join(err, a.says(fmt.Sprintf(callText, 2, "held")), a.asks("echo", `"result"`), a.close(), a.waits(anyStatus))
	}},
	{"server ends, agent is silent", func(s *endingRun) error {
		a, err := s.start("sh", "-c", "exit 3")
		s.keep(a)
		return errors.Join(err, a.ends(3))
	}},
	{"server can't be started, agent is silent", func(s *endingRun) error {
		a, err := s.start("/nowhere/server")
		s.keep(a)
		return errors.Join(err, a.asks("echo", `"error"`), a.cmd.Process.Signal(syscall.SIGTERM), a.ends(127))
	}},
	{"server is withheld, agent is silent", func(s *endingRun) error {
		s.flags = []string{"--from", s.fixture.Path("work/project.json")}
		a, err := s.start("sh", "-c", answering)
		s.keep(a)
		return errors.Join(err, a.asks("echo", `"error"`), a.cmd.Process.Signal(syscall.SIGTERM), a.ends(125))
	}},
}

// However sessions end, nothing is left of them: no open or kept descriptor, and no process,
// thread, mapping or database row.
func TestNothingIsLeft(t *testing.T) {
	h := rig.NewFixture(t)
	h.Configure(endingsConfiguration)
	if err := os.WriteFile(h.Path("work/project.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.StartDaemon()
	c := control(t, h)
	runEndings(t, h, 0, 2)     // what is opened once stays
	awaitNothing(t, h, c, nil) // but nothing of a session
	before := lookAt(t, h, c)
	for done := 0; done < *sessionsPerEnding && !t.Failed(); done += sessionsPerRound {
		n := min(sessionsPerRound, *sessionsPerEnding-done)
		release := runEndings(t, h, done, n)
		awaitNothing(t, h, c, before)
		release()
	}
	h.StopDaemon()
	db, err := store.Open(h.Path("state/thoughtgate/state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if held, err := db.Held(t.Context()); len(held) != 0 || err != nil {
		t.Errorf("the state has %d sessions, %v", len(held), err)
	}
}

// runEndings runs n sessions of each kind. release closes the ends of agents that stay.
func runEndings(t *testing.T, h *rig.Fixture, first, n int) (release func()) {
	t.Helper()
	shim := rig.Program(t, "tg-shim")
	stderr, err := os.OpenFile(h.Path("stderr"), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	var mu sync.Mutex // guards silent
	var silent []*agentProcess
	room := make(chan struct{}, sessionsAtOnce)
	var running sync.WaitGroup
	begun := time.Now()
	for i := range n {
		for _, e := range endings {
			room <- struct{}{}
			running.Go(func() {
				defer func() { <-room }()
				s := &endingRun{fixture: h, shim: shim, name: fmt.Sprintf("s%d", first+i), stderr: stderr, socket: i%2 == 1, keep: func(a *agentProcess) {
					mu.Lock()
					defer mu.Unlock()
					silent = append(silent, a)
				}}
				if err := e.run(s); err != nil {
					said, _ := os.ReadFile(stderr.Name())
					t.Errorf("%s, session %d: %v\n%s", e.name, first+i, err, said[max(0, len(said)-2<<10):])
				}
			})
		}
	}
	running.Wait()
	t.Logf("%d sessions of each kind of ending in %v", n, time.Since(begun).Round(time.Millisecond))
	return func() {
		for _, a := range silent {
			if err := a.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// holding is what a daemon holds.
type holding struct {
	descriptors map[string]int // by kind; nil if they can't be read
	mappings    int            // of sessions
	goroutines  int
	threads     int
}

func lookAt(t *testing.T, h *rig.Fixture, c *client.Client) *holding {
	t.Helper()
	look := &holding{}
	samples, err := c.MetricSamples(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		switch s.GetName() {
		case "go_goroutines":
			look.goroutines = int(s.GetValue())
		case "go_threads":
			look.threads = int(s.GetValue())
		}
	}
	if look.goroutines == 0 || look.threads == 0 {
		t.Fatal("the daemon does not say how many goroutines and threads it has")
	}
	dir := fmt.Sprintf("/proc/%d/", h.Daemon.PID())
	open, err := os.ReadDir(dir + "fd")
	if errors.Is(err, os.ErrPermission) {
		return look // only root may read it
	} else if err != nil {
		t.Fatal(err)
	}
	look.descriptors = map[string]int{}
	for _, fd := range open {
		to, _ := os.Readlink(dir + "fd/" + fd.Name()) // it may be closed by now
		kind, _, _ := strings.Cut(to, ":[")
		switch {
		case strings.HasPrefix(to, "/memfd:"):
			kind = "memfd"
		case strings.Contains(to, "pidfd"): // the text differs between kernels
			kind = "pidfd"
		case strings.HasPrefix(to, "/"):
			kind = "file"
		}
		look.descriptors[kind]++
	}
	maps, err := os.ReadFile(dir + "maps")
	if err != nil {
		t.Fatal(err)
	}
	look.mappings = strings.Count(string(maps), "memfd:thoughtgate-session")
	return look
}

// left returns what a daemon holds in addition to before, empty for nothing. Idle threads
// stay, so there may be as many as concurrent sessions had. A database opens files as it needs
// them.
func (now *holding) left(before *holding) string {
	var all []string
	note := func(what string, n, most int) {
		if n > most {
			all = append(all, fmt.Sprintf("%d %s, %d before", n, what, most))
		}
	}
	const threadsPerSession, files = 8, 8
	note("goroutines", now.goroutines, before.goroutines+2) // those of one call
	note("threads", now.threads, before.threads+threadsPerSession*sessionsAtOnce)
	note("mappings", now.mappings, before.mappings)
	for kind, n := range now.descriptors {
		most := before.descriptors[kind]
		if kind == "file" {
			most += files
		}
		note(kind+" descriptors", n, most)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// awaitNothing waits until nothing of sessions is left. before is nil for the first call.
func awaitNothing(t *testing.T, h *rig.Fixture, c *client.Client, before *holding) {
	t.Helper()
	var left string
	eventually(t, func() bool {
		left = ""
		if n := h.Kept(); n > 0 {
			left = fmt.Sprintf("%d descriptors are kept", n)
		} else if running := h.Processes(); len(running) > 0 {
			left = fmt.Sprintf("there run %v", running)
		} else if now := lookAt(t, h, c); now.mappings+now.descriptors["memfd"] > 0 || now.descriptors["pidfd"] > 1 { // the one of the connected process: the test
			left = fmt.Sprintf("the daemon has %v, and %d mappings", now.descriptors, now.mappings)
		} else if before != nil {
			left = now.left(before)
		}
		return left == ""
	}, func() string { return "what is left of sessions: " + left })
}

// endingRun is one session of a kind.
type endingRun struct {
	fixture *rig.Fixture
	shim    string
	name    string // of the server; the number of questions about one server is limited
	stderr  *os.File
	socket  bool // the agent has one socket for both streams, as Node.js does, and not two pipes
	flags   []string
	keep    func(*agentProcess)
}

func (s *endingRun) command(server ...string) *exec.Cmd {
	args := slices.Concat([]string{"--server-id", s.name}, s.flags, []string{"--"}, server)
	return s.prepare(exec.Command(s.shim, args...))
}

func (s *endingRun) prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(slices.Clone(s.fixture.Env), "THOUGHTGATE_SOCKET="+s.fixture.Socket())
	cmd.Dir, cmd.Stderr = s.fixture.Path("work"), s.stderr
	return cmd
}

// start starts tg-shim for a server.
func (s *endingRun) start(server ...string) (*agentProcess, error) {
	a := &agentProcess{cmd: s.command(server...), socket: s.socket}
	var theirs [2]*os.File
	if s.socket {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return a, err
		}
		if err := unix.SetNonblock(ends[0], true); err != nil { // for deadlines
			return a, err
		}
		a.input = os.NewFile(uintptr(ends[0]), "agent")
		a.output = a.input
		theirs[0] = os.NewFile(uintptr(ends[1]), "tg-shim")
		theirs[1] = theirs[0]
	} else {
		var err error
		if theirs[0], a.input, err = os.Pipe(); err != nil {
			return a, err
		}
		if a.output, theirs[1], err = os.Pipe(); err != nil {
			return a, err
		}
	}
	a.lines = bufio.NewReader(a.output)
	a.cmd.Stdin, a.cmd.Stdout = theirs[0], theirs[1]
	err := a.cmd.Start()
	theirs[0].Close()
	theirs[1].Close()
	deadline := time.Now().Add(rig.Timeout)
	return a, errors.Join(err, a.input.SetDeadline(deadline), a.output.SetDeadline(deadline))
}

// killAgent starts an agent as a separate process, and kills it.
func (s *endingRun) killAgent() error {
	const script = `rm -f "$0.in" "$0.out" && mkfifo "$0.in" "$0.out" && { "$@" <"$0.in" >"$0.out" & } && exec 3>"$0.in" 4<"$0.out" &&
		echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}' >&3 && read answer <&4 && echo "$answer" && exec sleep 300`
	shim := s.command("sh", "-c", answering)
	cmd := s.prepare(exec.Command("sh", slices.Concat([]string{"-c", script, s.fixture.Path("work", s.name)}, shim.Args)...))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && !strings.Contains(line, `"result"`) {
		err = fmt.Errorf("the agent reads %q", line)
	}
	err = errors.Join(err, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	return err
}

const callText = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`

func (a *agentProcess) says(line string) error {
	_, err := io.WriteString(a.input, line+"\n")
	return err
}

// asks makes a call, and checks that the answer contains a text.
func (a *agentProcess) asks(tool, want string) error {
	if err := a.says(fmt.Sprintf(callText, 1, tool)); err != nil {
		return err
	}
	line, err := a.lines.ReadString('\n')
	if err == nil && !(strings.Contains(line, `"id":1,`) && strings.Contains(line, want)) {
		err = fmt.Errorf("the answer is %q; want one with %s", line, want)
	}
	return err
}

func (a *agentProcess) hangUp() error {
	if a.socket {
		raw, err := a.input.SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Control(func(fd uintptr) { failed = unix.Shutdown(int(fd), unix.SHUT_WR) })
		return errors.Join(err, failed)
	}
	return a.input.Close()
}

// anyStatus is for a server that must end in time: on a busy machine it may be killed by a
// signal.
const anyStatus = -2

// ends checks that the agent's input ends, and the exit code, -1 for a signal.
func (a *agentProcess) ends(status int) error {
	rest, err := io.ReadAll(a.lines)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("more than was asked for: %q", rest)
	}
	return errors.Join(err, a.waits(status))
}

func (a *agentProcess) waits(status int) error {
	ctx, cancel := context.WithTimeout(context.Background(), rig.Timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			_ = a.cmd.Process.Kill()
		}
	})()
	_ = a.cmd.Wait() // its error is the status
	if got := a.cmd.ProcessState.ExitCode(); got != status && status != anyStatus {
		return fmt.Errorf("it ends with %v, want exit status %d", a.cmd.ProcessState, status)
	}
	return nil
}

func (a *agentProcess) close() error {
	err := a.output.Close()
	if !a.socket {
		if closing := a.input.Close(); !errors.Is(closing, os.ErrClosed) {
			err = errors.Join(err, closing)
		}
	}
	return err
}

// A daemon stops in time even if an agent reads nothing of what its server writes, and the
// next daemon recovers the session.
func TestStopWhileAgentReadsNothing(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	stderr, err := os.Create(h.Path("stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	s := &endingRun{fixture: h, shim: rig.Program(t, "tg-shim"), name: "x", stderr: stderr, socket: true}
	a, err := s.start("sh", "-c", `read l; touch ready; exec yes '{"jsonrpc":"2.0","method":"notifications/message"}'`)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.says(fmt.Sprintf(callText, 1, "echo")); err != nil {
		t.Fatal(err)
	}
	// When the agent's socket is full, its number of unread bytes no longer rises.
	raw, err := a.output.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	unread := func() (n int) {
		if err := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	last, since := 0, time.Now()
	eventually(t, func() bool {
		if n := unread(); n != last {
			last, since = n, time.Now()
		}
		return last > 64<<10 && time.Since(since) > time.Second/2
	}, func() string { return fmt.Sprintf("the agent's socket does not fill: %d bytes", last) })
	h.StopDaemon() // which checks that the daemon exits by itself, and in time
	h.StartDaemon()
	if err := a.close(); err != nil {
		t.Error(err)
	}
	if err := a.waits(anyStatus); err != nil {
		t.Error(err)
	}
	awaitKept(t, h, 0)
}
