package wrap

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// started starts a tgctl and waits until its agent has written its PID.
func (h *wrapFixture) started(cmd *exec.Cmd) (agent int, end func() result) {
	h.t.Helper()
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	return pidOf(h.t, h.appears("pid")), func() result { return h.end(cmd, &out, &talk) }
}

// EC-STDIO-012, EC-STDIO-013: signals are passed to the agent, and tgctl exits when the agent
// does. The configuration is always restored.
func TestWrapSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			h := newWrapFixture(t)
			name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
			cmd := h.wrap("trap 'echo got " + name + "; exit 7' " + name + "; echo $$ > pid; while :; do sleep 0.01; done")
			agent, end := h.started(cmd)
			cmd.Process.Signal(sig)
			if r := end(); r.code != 7 || r.out != "got "+name+"\n" {
				t.Errorf("exit %d: %q %s", r.code, r.out, r.err)
			}
			if alive(agent) {
				t.Error("the agent is alive")
			}
			h.wantAsBefore()
		})
	}
}

// Before the agent starts, a signal ends wrap itself, which leaves nothing behind.
func TestWrapSignalBeforeAgent(t *testing.T) {
	h := newWrapFixture(t)
	h.mu.Lock()
	h.slow = true
	h.mu.Unlock()
	cmd := h.wrap("touch ran")
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.appears("asked")
	cmd.Process.Signal(unix.SIGTERM)
	if r := h.end(cmd, &out, &talk); r.code != 128+15 || !strings.Contains(r.err, "before the agent was started: terminated") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if _, err := os.Stat(filepath.Join(h.home, "ran")); err == nil {
		t.Error("the agent ran")
	}
	h.wantAsBefore()
}

// A signal that nohup ignores stays ignored, also in the agent.
func TestWrapHangupIgnored(t *testing.T) {
	h := newWrapFixture(t)
	cmd := h.wrap("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; exit 9")
	nohup(cmd)
	agent, end := h.started(cmd)
	cmd.Process.Signal(unix.SIGHUP)
	unix.Kill(agent, unix.SIGHUP)
	time.Sleep(50 * time.Millisecond) // nothing should happen
	h.write(filepath.Join(h.home, "go"), "", 0o600)
	if r := end(); r.code != 9 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}

// An agent that ignores SIGTERM is killed, with its children.
func TestWrapKillsStubbornAgent(t *testing.T) {
	h := newWrapFixture(t)
	cmd := h.tgctl("sh", "-c", "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > pid; while :; do sleep 0.01; done")
	cmd.Env = append(cmd.Env, "TGCTL_TEST_KILL=never")
	agent, end := h.started(cmd)
	child := pidOf(t, h.appears("child"))
	cmd.Process.Signal(unix.SIGTERM)
	if r := end(); r.code != 128+9 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	eventually(t, "the agent's child ends", func() bool { return !alive(child) && !alive(agent) })
	h.wantAsBefore()
}

// If tgctl is killed at any step, the daemon restores everything, and the agent does not keep
// running.
func TestKillTgctl(t *testing.T) {
	for _, step := range []string{"locked", "backed up", "opened", "applied", "started", "ended", "closed", "restored"} {
		t.Run(step, func(t *testing.T) {
			h := newWrapFixture(t)
			cmd := h.tgctl("sh", "-c", "echo $$ > pid; case "+strconv.Quote(step)+" in started) while :; do sleep 0.01; done;; esac")
			cmd.Env = append(cmd.Env, "TGCTL_TEST_KILL="+step)
			if r := h.run(cmd); r.code != -9 {
				t.Fatalf("exit %d: %s", r.code, r.err)
			}
			if step == "locked" || step == "backed up" { // nothing was changed, and the daemon does not know of it
				if r := h.run(h.tgctl("unwrap", h.config)); r.code != 0 {
					t.Errorf("unwrap: exit %d: %s", r.code, r.err)
				}
			}
			eventually(t, "the file is back", func() bool {
				got, _ := os.ReadFile(h.config)
				left, _ := filepath.Glob(h.config + ".*")
				return string(got) == wrapConfig && len(left) == 0
			})
			if text, err := os.ReadFile(filepath.Join(h.home, "pid")); err == nil && len(text) > 0 {
				agent := pidOf(t, strings.TrimSpace(string(text)))
				eventually(t, "the agent ends", func() bool { return !alive(agent) })
			}
			h.wantAsBefore()
		})
	}
}

// An agent that ignores SIGHUP because its wrap was started with nohup still ends with tgctl.
func TestKillTgctlUnderNohup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent has died")
	}
	h := newWrapFixture(t)
	cmd := h.wrap("echo $$ > pid; while :; do sleep 0.01; done")
	nohup(cmd)
	agent, end := h.started(cmd)
	cmd.Process.Kill()
	if r := end(); r.code != -9 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	eventually(t, "the agent ends", func() bool { return !alive(agent) })
}

// nohup makes cmd start with SIGHUP ignored.
func nohup(cmd *exec.Cmd) {
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, append([]string{os.Args[0]}, cmd.Args[1:]...)...)
	cmd.Path = "/bin/sh"
}

// If a launcher returns at once, the session stays open until the last server of the launched
// program has left.
func TestWrapLauncher(t *testing.T) {
	h := newWrapFixture(t)
	cmd := h.wrap("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done")
	// They are sent before the launcher is started, and so are there long before it returns.
	h.attached(1)
	h.attached(2)
	agent, end := h.started(cmd)
	h.write(filepath.Join(h.home, "go"), "", 0o600)
	eventually(t, "the launcher ends", func() bool { return !alive(agent) })
	h.attached(1)
	time.Sleep(1500 * time.Millisecond)
	if got, _ := os.ReadFile(h.config); string(got) == wrapConfig {
		t.Error("restored while a server was in use")
	}
	h.attached(0)
	r := end()
	if r.code != 0 || !strings.Contains(r.err, "sh has returned; the session stays open until its last server has ended") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}

// Servers of an instance that was already running are reported, also if the first one attaches
// before the launcher has returned.
func TestWrapHandsOver(t *testing.T) {
	h := newWrapFixture(t)
	agent, end := h.started(h.wrap("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done", "--wait"))
	claimed := func(n uint32) {
		h.tell <- &pb.SessionEvent{Event: &pb.SessionEvent_Shim{Shim: &pb.ShimEvent{Server: "files", Attached: n, Claimed: true}}}
	}
	claimed(1)
	time.Sleep(50 * time.Millisecond) // as above; if the event is late, the warning is the same
	h.write(filepath.Join(h.home, "go"), "", 0o600)
	eventually(t, "the launcher ends", func() bool { return !alive(agent) })
	claimed(0)
	r := end()
	want := "warning: sh seems to have handed over to an already running instance; the servers that it started stay ungoverned until it restarts them: clock, files"
	if r.code != 0 || strings.Count(r.err, want) != 1 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}

func TestWrapWait(t *testing.T) {
	h := newWrapFixture(t)
	cmd := h.wrap("echo $$ > pid", "--wait")
	_, end := h.started(cmd)
	time.Sleep(200 * time.Millisecond) // the launched program takes its time
	h.attached(1)
	h.attached(0)
	if r := end(); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()

	// Nothing attached, and the person presses Ctrl-C.
	os.Remove(filepath.Join(h.home, "pid"))
	cmd = h.wrap("echo $$ > pid", "--wait")
	agent, end := h.started(cmd)
	eventually(t, "the launcher ends", func() bool { return !alive(agent) })
	cmd.Process.Signal(unix.SIGINT)
	if r := end(); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}

// Processes that the agent leaves behind become children of tgctl, which reaps them.
func TestWrapReapsOrphans(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("needs /proc")
	}
	h := newWrapFixture(t)
	script := `sh -c '(sh -c "echo \$\$ > orphan; while [ ! -e gone ]; do sleep 0.01; done" &)'; echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done`
	cmd := h.wrap(script)
	_, end := h.started(cmd)
	orphan := h.appears("orphan")
	eventually(t, "tgctl adopts the orphan", func() bool { return parentOf(orphan) == cmd.Process.Pid })
	h.write(filepath.Join(h.home, "gone"), "", 0o600)
	eventually(t, "the orphan is reaped", func() bool { return parentOf(orphan) == 0 })
	h.write(filepath.Join(h.home, "go"), "", 0o600)
	if r := end(); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}

// parentOf returns the parent of a process, or 0 if there is no such process.
func parentOf(pid string) int {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// inTerminal runs a tgctl in a terminal of its own.
func (h *wrapFixture) inTerminal(cmd *exec.Cmd) (*os.File, *exec.Cmd) {
	h.t.Helper()
	cmd.SysProcAttr = nil
	terminal, err := pty.StartWithAttrs(cmd, nil, &syscall.SysProcAttr{Setsid: true, Setctty: true})
	if err != nil {
		h.t.Skipf("no terminal to be had: %v", err)
	}
	h.t.Cleanup(func() { terminal.Close() })
	go func() { // an unread terminal blocks its writers
		buffer := make([]byte, 4096)
		for {
			if _, err := terminal.Read(buffer); err != nil {
				return
			}
		}
	}()
	return terminal, cmd
}

func (h *wrapFixture) code(cmd *exec.Cmd) int {
	h.t.Helper()
	return h.end(cmd, &bytes.Buffer{}, &bytes.Buffer{}).code
}

// On a terminal the agent is in the foreground process group. A Ctrl-C that the agent survives
// does not end anything.
func TestTerminalInterrupt(t *testing.T) {
	h := newWrapFixture(t)
	script := `n=0; trap 'n=$((n+1)); echo $n > got$n' INT; echo $$ > pid; while [ ! -e got2 ]; do sleep 0.01; done; sleep 0.2; echo $n > total; stty raw -echo; exit 5`
	terminal, cmd := h.inTerminal(h.wrap(script))
	before, err := unix.IoctlGetTermios(int(terminal.Fd()), ioctlReadTermios)
	if err != nil {
		t.Fatal(err)
	}
	agent := pidOf(t, h.appears("pid"))
	if mine, err := unix.Getpgid(agent); err != nil || mine != cmd.Process.Pid {
		t.Errorf("the agent is in group %d, %v; tgctl is %d", mine, err, cmd.Process.Pid)
	}
	terminal.Write([]byte{3})
	h.appears("got1")
	terminal.Write([]byte{3})
	h.appears("got2")
	if total := h.appears("total"); total != "2" {
		t.Errorf("the agent got %s interrupts for two", total)
	}
	if code := h.code(cmd); code != 5 {
		t.Errorf("exit %d", code)
	}
	after, err := unix.IoctlGetTermios(int(terminal.Fd()), ioctlReadTermios)
	if err != nil || after.Lflag != before.Lflag {
		t.Errorf("the terminal was left in another mode: %x, before %x, %v", after.Lflag, before.Lflag, err)
	}
	h.wantAsBefore()
}

// A SIGINT that was not typed is passed to the agent on a terminal too: an agent that reads
// keys itself gets no SIGINT from them.
func TestTerminalSentInterrupt(t *testing.T) {
	h := newWrapFixture(t)
	_, cmd := h.inTerminal(h.wrap(`stty raw; trap 'exit 6' INT; echo $$ > pid; while :; do sleep 0.01; done`))
	h.appears("pid")
	cmd.Process.Signal(unix.SIGINT)
	if code := h.code(cmd); code != 6 {
		t.Errorf("exit %d", code)
	}
	h.wantAsBefore()
}

// An agent that stops itself also stops tgctl, so that the waiting shell can continue. A
// SIGCONT to the group continues both.
func TestTerminalStop(t *testing.T) {
	h := newWrapFixture(t)
	_, cmd := h.inTerminal(h.wrap(`echo $$ > pid; kill -STOP $$; exit 4`))
	h.appears("pid")
	stopped := func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
		return err == nil && bytes.Contains(text[bytes.LastIndexByte(text, ')'):], []byte(" T "))
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	eventually(t, "tgctl stops", stopped)
	if err := unix.Kill(-cmd.Process.Pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := h.code(cmd); code != 4 {
		t.Errorf("exit %d", code)
	}
	h.wantAsBefore()
}
