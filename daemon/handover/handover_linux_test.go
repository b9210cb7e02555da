package handover_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/serve"
	"github.com/thoughtgate/thoughtgated/daemon/handover"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Roles of the test binary, with their arguments behind them on the command line.
const (
	shimRole    = "play-shim"    // tg-shim, for the server
	silentRole  = "play-silent"  // attaches and dies before it reports on its server
	foreignRole = "play-foreign" // uses the id of another one
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case shimRole:
			state, err := serve.Run(serve.Options{
				Hello:  attach.Hello{Build: "test", Server: "x", Command: os.Args[3:]},
				Socket: os.Getenv("THOUGHTGATE_SOCKET"), Times: serve.DefaultTimes,
			})
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(125)
			}
			serve.Leave(state)
		case silentRole, foreignRole:
			if err := attachOnly(os.Args[1] == foreignRole, os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	rig.Main(m)
}

// attachOnly hands descriptors over, or fails to if id belongs to another shim.
func attachOnly(foreign bool, id string) error {
	var pipes [3][2]*os.File
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		pipes[i] = [2]*os.File{r, w}
	}
	c, ctx := attach.Daemon(os.Getenv("THOUGHTGATE_SOCKET")), context.Background()
	_, err := c.Attach(ctx, &attach.Hello{Build: "test", Attachment: id, Server: "x", Executable: "/bin/cat", Command: []string{"cat"}, Cwd: "/"},
		0, 1, int(pipes[0][1].Fd()), int(pipes[1][0].Fd()), int(pipes[2][1].Fd()))
	if !foreign {
		return err
	}
	var refused *attach.Status
	if !errors.As(err, &refused) {
		return fmt.Errorf("attached as another shim: %v", err)
	}
	for what, err := range map[string]error{
		"signal": c.Signal(ctx, id, 15), "ended": c.Ended(ctx, id, 0, 0), "started": c.Started(ctx, id, 0, "so be it"),
	} {
		if !errors.As(err, &refused) {
			return fmt.Errorf("%s was heard of another shim: %v", what, err)
		}
	}
	return nil
}

type pair struct {
	*rig.Shim
	t            *testing.T
	agent, taken int // lines that were read from each side
}

// instead returns the command line of this binary as a shim.
func instead() []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{self, shimRole, "--"}
}

func start(t *testing.T, h *rig.Fixture) *pair {
	t.Helper()
	// The parent of a shim is an agent, and agents decide nothing.
	p := &pair{Shim: h.Shim(t, rig.Options{Instead: instead(), Agent: true}), t: t}
	if err := p.Join(); err != nil {
		t.Fatal(err, p.Stderr())
	}
	return p
}

func (p *pair) call(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

func (p *pair) says(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if err := p.Send([]byte(line + "\n")); err != nil {
			p.t.Fatal(err)
		}
	}
}

// answers checks that the server reads the call with the id next, answers it, and checks that
// the agent reads the answer.
func (p *pair) answers(id int, tool string) {
	p.t.Helper()
	p.taken = p.await(p.Server.Inbox, p.taken, p.call(id, tool))
	result := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, id)
	if err := p.Server.Send([]byte(result + "\n")); err != nil {
		p.t.Fatal(err)
	}
	p.agent = p.await(p.Agent, p.agent, result)
}

func (p *pair) await(in *rig.Inbox, from int, want string) int {
	p.t.Helper()
	if _, err := in.Await(from, rig.Timeout, func([]byte) bool { return true }); err != nil {
		p.t.Fatalf("%q does not come: %v\n%s", want, err, p.Stderr())
	}
	lines, _ := in.Since(from)
	if got := strings.TrimSuffix(string(lines[0]), "\n"); got != want {
		p.t.Fatalf("got  %s\nwant %s", got, want)
	}
	return from + 1
}

// eventually waits until done returns true.
func eventually(t *testing.T, done func() bool, problem func() string) {
	t.Helper()
	for end := time.Now().Add(rig.Timeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(problem())
		}
	}
}

// awaitKept waits until n descriptors are kept.
func awaitKept(t *testing.T, h *rig.Fixture, n int) {
	t.Helper()
	eventually(t, func() bool { return h.Kept() == n }, func() string { return fmt.Sprintf("%d descriptors are kept, and should be %d", h.Kept(), n) })
}

// A killed daemon loses nothing: the next one recovers the lines, what is held and the
// attachments.
func TestKilled(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	p := start(t, h)
	p.says(p.call(1, "echo"))
	p.answers(1, "echo")
	p.says(p.call(2, "held"))
	question(t, h)
	h.KillDaemon()
	p.says(p.call(3, "echo"), p.call(4, "denied"), p.call(5, "echo"))
	h.StartDaemon()
	if n, err := p.Agent.Await(p.agent, rig.Timeout, func(line []byte) bool { return strings.Contains(string(line), `"id":4,"result":{`) }); err != nil || n != p.agent {
		t.Fatalf("the denied call is answered as line %d, and not %d: %v", n, p.agent, err)
	}
	p.agent++
	p.answers(3, "echo")
	p.answers(5, "echo")
	c, q := question(t, h)
	if _, err := c.Decide(t.Context(), &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "terminal"}); err != nil {
		t.Fatal(err)
	}
	p.answers(2, "held")
	p.HangUp()
	if code, ok := p.Wait(rig.Timeout); !ok || code != 0 {
		t.Errorf("the shim: exit status %d, ended %v\n%s", code, ok, p.Stderr())
	}
	awaitKept(t, h, 0)
}

// A shim exits with its server's exit code, even if another daemon was running when the server
// started.
func TestServerEndsAfterAnotherDaemonCame(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	p := start(t, h)
	p.says(p.call(1, "echo"))
	p.answers(1, "echo")
	h.StopDaemon()
	h.StartDaemon()
	p.says(p.call(2, "echo"))
	p.taken = p.await(p.Server.Inbox, p.taken, p.call(2, "echo"))
	if err := p.Server.Exit(7); err != nil {
		t.Fatal(err)
	}
	if code, ok := p.Wait(rig.Timeout); !ok || code != 7 {
		t.Errorf("the shim: exit status %d, ended %v\n%s", code, ok, p.Stderr())
	}
	if _, err := p.Agent.Await(p.agent, rig.Timeout, func(line []byte) bool { return strings.Contains(string(line), `"id":2,"error":{"code":-31012`) }); err != nil {
		t.Error("the call that was not answered:", err)
	}
	awaitKept(t, h, 0)
}

// A shim that dies before it has started its server leaves nothing behind, and no other
// process can act for it.
func TestForeignAndSilentShims(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	p := start(t, h)
	p.says(p.call(1, "echo"))
	p.answers(1, "echo")
	kept := h.Kept()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	silent := h.Shim(t, rig.Options{Instead: []string{self, silentRole}, Command: []string{"fedcba9876543210fedcba9876543210"}})
	if code, ok := silent.Wait(rig.Timeout); !ok || code != 0 {
		t.Fatalf("exit status %d, ended %v\n%s", code, ok, silent.Stderr())
	}
	awaitKept(t, h, kept)
	foreign := h.Shim(t, rig.Options{Instead: []string{self, foreignRole}, Command: []string{p.attachment()}})
	if code, ok := foreign.Wait(rig.Timeout); !ok || code != 0 {
		t.Errorf("exit status %d, ended %v\n%s", code, ok, foreign.Stderr())
	}
	p.says(p.call(2, "echo"))
	p.answers(2, "echo")
}

// attachment returns the id of the shim, which marks its server.
func (p *pair) attachment() string {
	p.t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Server.PID))
	if err != nil {
		p.t.Fatal(err)
	}
	_, mark, _ := strings.Cut(string(environ), "THOUGHTGATE_SERVER=")
	id, _, found := strings.Cut(mark, "\x00")
	if !found {
		p.t.Fatal("the server has no mark")
	}
	return id
}

// question waits for the only open question.
func question(t *testing.T, h *rig.Fixture) (*client.Client, *pb.Approval) {
	t.Helper()
	c := control(t, h)
	var open []*pb.Approval
	eventually(t, func() bool {
		var err error
		if open, err = c.ListApprovals(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		return len(open) == 1
	}, func() string { return fmt.Sprintf("%d questions are open", len(open)) })
	return c, open[0]
}

func control(t *testing.T, h *rig.Fixture) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A killed shim can't end the processes that its server has started. The daemon does that, and
// the next daemon ends those that the previous one had no time for.
func TestShimKilled(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"daemon": false, "no daemon": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rig.NewFixture(t)
			h.Configure(rig.Configuration)
			h.StartDaemon()
			p := h.Shim(t, rig.Options{
				Instead: instead(), Command: []string{"sh", "-c", "sleep 300 & read line; touch ready; exec cat"},
			})
			if err := p.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return exists(h.Path("work/ready")) }, func() string { return "the server reads nothing\n" + p.Stderr() })
			if killed {
				h.KillDaemon()
			}
			p.Signal(syscall.SIGKILL)
			p.Wait(rig.Timeout)
			if killed {
				h.StartDaemon()
			}
			h.CheckEmpty()
			awaitKept(t, h, 0)
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The number of attached servers is limited by the configuration and by the limit on open
// files. One more is refused with the reason, and is attached when another one has left.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration + "limits: {sessions: 2}\n")
	h.KeepAtMost(2*keep.PerSession - 1)
	h.StartDaemon()
	warned(t, h, "limits.sessions is 2, but only the pipes of 1 servers can be kept")
	first := start(t, h)
	start(t, h)
	refuses(t, h, "2 servers are already attached, and limits.sessions allows 2: end some, or raise the limit")
	first.HangUp()
	first.Wait(rig.Timeout)
	limit := unix.Rlimit{Cur: 256 + 2*handover.DescriptorsPerSession - 1, Max: 1024}
	var third *rig.Shim // the daemon may notice the end of the first a little later
	eventually(t, func() bool {
		third = h.Shim(t, rig.Options{Instead: instead()})
		joined := make(chan error, 1)
		go func() { joined <- third.Join() }() // ends with the shim
		for {
			select {
			case err := <-joined:
				return err == nil
			case <-time.After(time.Millisecond):
				if strings.Contains(third.Stderr(), "are already attached") {
					third.HangUp() // so that it ends
				}
			}
		}
	}, func() string { return "no shim is attached after one has left\n" + third.Stderr() })
	if err := unix.Prlimit(h.Daemon.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	third.HangUp()
	third.Wait(rig.Timeout)
	refuses(t, h, fmt.Sprintf("the daemon's limit of %d open files allows 1", limit.Cur))
	warned(t, h, "limits.sessions is 2, but the daemon's limit of")
}

// refuses checks that a shim is refused for a reason, which its agent reads.
func refuses(t *testing.T, h *rig.Fixture, reason string) {
	t.Helper()
	p := h.Shim(t, rig.Options{Instead: instead(), Command: []string{"touch", "ran"}})
	if err := p.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Agent.Await(0, rig.Timeout, func(line []byte) bool {
		return strings.Contains(string(line), `"id":1,"error":{"code":-31010`) && strings.Contains(string(line), reason)
	}); err != nil {
		t.Errorf("%v\n%s", err, p.Stderr())
	}
	p.HangUp()
	if code, ok := p.Wait(rig.Timeout); !ok || code != 125 || !strings.Contains(p.Stderr(), reason) || exists(h.Path("work/ran")) {
		t.Errorf("exit status %d, ended %v\n%s", code, ok, p.Stderr())
	}
}

// A session's memory is a large file, of which little is used. If the daemon can't create it,
// it says what to do.
func TestLimitOnFileSize(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	limit := unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}
	if err := unix.Prlimit(h.Daemon.PID(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	const reason = "raise the daemon's limit on the size of files (ulimit -f"
	refuses(t, h, reason)
	warned(t, h, "no server can be attached: create the memory of a session, a sparse file of")
	awaitKept(t, h, 0)
}

// warned checks that the daemon logs a warning.
func warned(t *testing.T, h *rig.Fixture, of string) {
	t.Helper()
	st, err := control(t, h).Status(t.Context())
	if all := strings.Join(st.GetWarnings(), "\n"); err != nil || !strings.Contains(all, of) {
		t.Errorf("warnings: %q, %v; want %q", all, err, of)
	}
	if log := h.DaemonLog(); strings.Contains(of, "kept") && !strings.Contains(log, of) {
		t.Errorf("not in the log: %q", of)
	}
}

// The way in which a server ended is counted, even if it ended before the daemon looked at it.
func TestServersThatEndAtOnce(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	const servers = 20
	for range servers {
		p := h.Shim(t, rig.Options{Instead: instead(), Command: []string{"sh", "-c", "kill -9 $$"}})
		p.HangUp()
		p.Wait(rig.Timeout)
	}
	c := control(t, h)
	want := fmt.Sprintf(`state="signalled"} %d`, servers)
	var metrics []byte
	eventually(t, func() bool {
		var err error
		if metrics, err = c.Metrics(t.Context()); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(metrics), want)
	}, func() string { return fmt.Sprintf("no %q in\n%s", want, metrics) })
}

// A server whose tg-shim ended while no daemon ran is ended. After a restart of the system a
// process with its numbers is another one.
func TestServersOfAnotherBoot(t *testing.T) {
	h := rig.NewFixture(t)
	boot, _ := store.Boot()
	if boot == "" {
		t.Skip("this system does not tell one boot from another")
	}
	db, err := store.Open(h.Path("state/thoughtgate/state.db"))
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]proc.Process{}
	for _, of := range []string{boot, "another boot"} {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) })
		server, err := proc.Read(int32(cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		servers[of] = server.Process
		name := fmt.Sprintf("%x", of)
		about := fmt.Sprintf(`{"Shim":{"Attachment":%q,"Server":"x"},"Peer":{"PID":1,"Start":1},"Server":{"PID":%d,"Start":%d},"Begun":true,"Boot":%q}`, name, server.PID, server.Start, of)
		if err := db.PutHeld(t.Context(), &store.Held{Name: name, About: []byte(about)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h.StartDaemon()
	for limit := time.Now().Add(rig.Timeout); servers[boot].Alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the server that was left behind still runs\n%s", h.DaemonLog())
		}
	}
	h.StopDaemon()
	if !servers["another boot"].Alive() {
		t.Errorf("a process that is no server was ended\n%s", h.DaemonLog())
	}
}
