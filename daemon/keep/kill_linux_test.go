package keep_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

const patience = time.Minute

// fixture is a daemon and its keeper.
type fixture struct {
	t       *testing.T
	program string // a symbolic link
	socket  string
	keeper  *exec.Cmd
	ended   chan error
	last    int // the last daemon that was killed
}

func newFixture(t *testing.T) *fixture {
	dir := tempdir.New(t, "/tmp", "tg-keep-") // t.TempDir would be too long for a socket
	h := &fixture{t: t, program: filepath.Join(dir, "p"), socket: filepath.Join(dir, "s"), ended: make(chan error, 1)}
	h.install(os.Args[0])
	h.keeper = exec.Command(os.Args[0])
	h.keeper.Env = append(os.Environ(), roleVariable+"=keeper", programVariable+"="+h.program, socketVariable+"="+h.socket)
	h.keeper.Stderr = os.Stderr
	if err := h.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { h.ended <- h.keeper.Wait() }()
	t.Cleanup(func() {
		_ = h.keeper.Process.Kill()
		_, _ = ask(h.socket, "e") // for a daemon without a keeper
	})
	h.until("a daemon answers", func() bool { _, err := ask(h.socket, "p"); return err == nil })
	return h
}

// install replaces the program that the keeper starts.
func (h *fixture) install(program string) {
	h.t.Helper()
	if err := errors.Join(os.Symlink(program, h.program+"~"), os.Rename(h.program+"~", h.program)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) until(what string, done func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("it does not come to it that %s", what)
		}
	}
}

// daemon returns the process id of the running daemon.
func (h *fixture) daemon() int {
	h.t.Helper()
	var pid int
	h.until("a daemon says its number", func() bool {
		answer, err := ask(h.socket, "p")
		if err == nil {
			pid, err = strconv.Atoi(answer)
		}
		return err == nil
	})
	return pid
}

// open returns the number of a process's descriptors.
func open(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(fds)
}

// agent is an agent with a session.
type agent struct {
	to, from *os.File
}

// attach starts a session. It repeats the attempt until a daemon accepts it.
func (h *fixture) attach() *agent {
	h.t.Helper()
	a := &agent{}
	h.until("a session is welcome", func() bool {
		in, to, err := os.Pipe()
		if err != nil {
			h.t.Fatal(err)
		}
		from, out, err := os.Pipe()
		if err != nil {
			h.t.Fatal(err)
		}
		answer, err := ask(h.socket, "a", int(in.Fd()), int(out.Fd()))
		in.Close()
		out.Close()
		if err != nil || answer != "welcome" {
			to.Close()
			from.Close()
			return false
		}
		a.to, a.from = to, from
		return true
	})
	return a
}

// alive checks that the daemon answers the agent.
func (a *agent) alive() error {
	if _, err := a.to.Write([]byte{'x'}); err != nil {
		return err
	}
	_ = a.from.SetReadDeadline(time.Now().Add(patience)) // pipes support deadlines
	b := make([]byte, 1)
	_, err := io.ReadFull(a.from, b)
	return err
}

func (a *agent) leave() {
	a.to.Close()
	a.from.Close()
}

// However often the daemon is killed, all sessions and its socket are recovered, and no
// descriptor is left when they have ended.
func TestNothingIsLostWhenTheDaemonIsKilled(t *testing.T) {
	h := newFixture(t)
	keeper := h.keeper.Process.Pid
	first := h.attach() // so that everything is opened that stays open after the first use
	if err := first.alive(); err != nil {
		t.Fatal(err)
	}
	h.kill()
	first.leave()
	idle := func() (int, int) {
		h.until("no session is left", func() bool { answer, _ := ask(h.socket, "n"); return answer == "0 0" })
		return open(keeper), open(h.daemon())
	}
	keeperIdle, daemonIdle := idle() // of the keeper perhaps two more, while it starts the daemon

	var agents []*agent
	for range 12 {
		agents = append(agents, h.attach())
	}
	for i := range 50 {
		time.Sleep(time.Duration(rand.IntN(8000)) * time.Microsecond) // the moment of the kill, not a wait
		h.kill()
		if i%3 == 0 { // one leaves and another attaches meanwhile
			agents[i%len(agents)].leave()
			agents[i%len(agents)] = h.attach()
		}
	}
	for i, a := range agents {
		if err := a.alive(); err != nil {
			t.Errorf("session %d: %v", i, err)
		}
		a.leave()
	}
	h.until(fmt.Sprintf("the keeper has %d descriptors again and the daemon %d", keeperIdle, daemonIdle), func() bool {
		k, d := idle()
		return k <= keeperIdle && d <= daemonIdle
	})
	h.end(syscall.SIGTERM)
}

// kill kills the running daemon, however far it has come.
func (h *fixture) kill() {
	h.t.Helper()
	keeper := h.keeper.Process.Pid
	h.until("a daemon runs", func() bool {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.last))
		if fields := strings.Fields(string(raw)); len(fields) > 3 && fields[2] != "Z" && fields[3] == strconv.Itoa(keeper) {
			return true
		}
		h.last = child(keeper)
		return false
	})
	_ = syscall.Kill(h.last, syscall.SIGKILL)
	// Until it has exited it may read what the next daemon should get, and stores nothing.
	h.until("the daemon has gone", func() bool { return syscall.Kill(h.last, 0) != nil })
}

// child returns a child of a process, 0 if there is none.
func child(parent int) int {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	for _, thread := range threads {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, thread.Name()))
		if fields := strings.Fields(string(raw)); len(fields) > 0 {
			pid, _ := strconv.Atoi(fields[0])
			return pid
		}
	}
	return 0
}

// end ends the keeper and all its descendants.
func (h *fixture) end(s syscall.Signal) {
	h.t.Helper()
	pid := h.daemon()
	if err := h.keeper.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
	<-h.ended
	h.until("the daemon has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	if _, err := os.Lstat(h.socket); !errors.Is(err, fs.ErrNotExist) {
		h.t.Errorf("the file of the socket: %v, want none", err)
	}
}

// A daemon that exits by itself is not restarted, and one that fails is. A keeper that is told
// to end ends its daemon.
func TestKeeperEndsWithItsDaemon(t *testing.T) {
	h := newFixture(t)
	_, _ = ask(h.socket, "e")
	if err := <-h.ended; err != nil {
		t.Errorf("with a daemon that has ended by itself the keeper ends with %v", err)
	}
	h = newFixture(t)
	pid := h.daemon()
	_, _ = ask(h.socket, "f")
	h.until("another daemon runs after a fault", func() bool { return h.daemon() != pid })
	h.end(syscall.SIGTERM)
}

// A keeper that is told to replaces the daemon, with all sessions, by the program that is then
// installed. It repeats the attempt until that can be started.
func TestDaemonIsFollowed(t *testing.T) {
	h := newFixture(t)
	a := h.attach()
	defer a.leave()
	first := h.daemon()
	update := filepath.Join(t.TempDir(), "update")
	if err := os.WriteFile(update, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.install(update)
	h.kill() // a daemon that dies is replaced by the program of the keeper's start
	second := h.daemon()
	if second == first {
		t.Fatal("the daemon was not killed")
	}
	if err := h.keeper.Process.Signal(keep.Again); err != nil {
		t.Fatal(err)
	}
	h.until("the daemon ends", func() bool { return syscall.Kill(second, 0) != nil })
	h.install(os.Args[0])
	if err := h.keeper.Process.Signal(keep.Again); err != nil {
		t.Fatal(err)
	}
	h.daemon()
	if err := a.alive(); err != nil {
		t.Error(err)
	}
	h.end(syscall.SIGTERM)
}

// A daemon that does not exit when it is told to is killed.
func TestDaemonHangs(t *testing.T) {
	h := newFixture(t)
	a := h.attach()
	defer a.leave()
	pid := h.daemon()
	if err := errors.Join(syscall.Kill(pid, syscall.SIGSTOP), h.keeper.Process.Signal(keep.Again)); err != nil {
		t.Fatal(err)
	}
	h.until("another daemon runs", func() bool { return syscall.Kill(pid, 0) != nil })
	pid = h.daemon()
	if err := a.alive(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(syscall.Kill(pid, syscall.SIGSTOP), h.keeper.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	<-h.ended
	h.until("the daemon has ended", func() bool { return syscall.Kill(pid, 0) != nil })
}

// Without its keeper a daemon continues, and knows it. Without both, the agent sees the end of
// its input.
func TestKeeperIsKilled(t *testing.T) {
	h := newFixture(t)
	a := h.attach()
	defer a.leave()
	pid := h.daemon()
	told := make(chan string, 1)
	go func() {
		answer, _ := ask(h.socket, "l")
		told <- answer
	}()
	if err := h.keeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-h.ended
	if answer := <-told; answer != "true" {
		t.Errorf("the daemon waits for the end of its keeper, and gets %s", answer)
	}
	if h.daemon() != pid {
		t.Error("the daemon does not go on without its keeper")
	}
	if err := a.alive(); err != nil {
		t.Errorf("without the keeper: %v", err)
	}
	if answer, _ := ask(h.socket, "a", 0, 1); !strings.HasPrefix(answer, "refused") {
		t.Errorf("a session that nobody keeps: %q", answer)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = a.from.SetReadDeadline(time.Now().Add(patience)) // pipes support deadlines
	if n, err := a.from.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("without both the agent reads %d bytes, %v", n, err)
	}
}
