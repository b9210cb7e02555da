package wrap

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// mortalDaemon is the name under which the test binary runs the real daemon, which can
// kill itself while it restores a file.
const mortalDaemon = "mortal-thoughtgated"

func playMortalDaemon() int {
	err := func() error {
		paths, err := sock.DefaultPaths(os.Getenv)
		if err != nil {
			return err
		}
		if err := paths.Prepare(); err != nil {
			return err
		}
		lock, err := sock.Lock(paths.LockFile())
		if err != nil {
			return err
		}
		defer lock.Close()
		control, err := sock.Listen(paths.ControlSocket())
		if err != nil {
			return err
		}
		shim, err := sock.Listen(paths.ShimSocket())
		if err != nil {
			return err
		}
		d, err := daemon.New(daemon.Options{
			Paths: paths, Getenv: os.Getenv, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Build: "test",
			Control: sock.Checked(control), Shim: sock.Checked(shim), Step: dieAfter(os.Getenv("TGCTL_TEST_AT")),
		})
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		return d.Run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// dieAfter returns a callback for steps. After the step with the number or the name last it
// kills the processes that TGCTL_TEST_VICTIMS lists, each a pid or "self". It appends each
// step to the file steps in the home.
func dieAfter(last string) func(string) {
	var mu sync.Mutex
	taken := 0
	return func(step string) {
		mu.Lock()
		defer mu.Unlock()
		taken++
		log, err := os.OpenFile(filepath.Join(os.Getenv("HOME"), "steps"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(log, step)
		log.Close()
		if strconv.Itoa(taken) != last && step != last {
			return
		}
		for _, victim := range strings.Fields(os.Getenv("TGCTL_TEST_VICTIMS")) {
			pid, err := strconv.Atoi(victim)
			if err != nil {
				pid = os.Getpid()
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
			for pid != os.Getpid() && running(pid) {
				time.Sleep(time.Millisecond)
			}
			if pid == os.Getpid() {
				select {}
			}
		}
	}
}

// running reports whether pid runs. A process that has ended but was not reaped does not.
func running(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return alive(pid)
	}
	return !strings.Contains(string(text[strings.LastIndexByte(string(text), ')'):]), " Z ")
}

// mortalFixture is a home with the configuration of one agent and a real daemon.
type mortalFixture struct {
	t      *testing.T
	dir    string
	config string
	daemon *exec.Cmd
}

const (
	mortalRest = "\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a-mcp\" },\n    \"b\": { \"command\": \"b-mcp\", \"args\": [ \"-y\" ] }\n  },\n" +
		"  \"hooks\": { \"BeforeTool\": [ {\"hooks\": [ {\"type\":\"command\", \"command\":\"true\"} ]} /* mine */ ] }\n}\n"
	mortalConfig = "{" + mortalRest
	mortalEdited = "{ // edited" + mortalRest

	// The agent saves the file in the way of an editor, with a comment added.
	mortalAgent = `sed '1s/$/ \/\/ edited/' .gemini/settings.json > new && mv new .gemini/settings.json && echo edited > edited`
)

// newState returns the state of a new daemon. Creating it is most of the work when a
// daemon starts in a new home.
var newState = sync.OnceValues(func() ([]byte, error) {
	dir, remove, err := tempdir.Make("", "state")
	if err != nil {
		return nil, err
	}
	defer remove()
	path := filepath.Join(dir, "state.db")
	db, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func newMortalFixture(t *testing.T) *mortalFixture {
	t.Helper()
	h := &mortalFixture{t: t, dir: consoletest.ShortDir(t)}
	h.config = filepath.Join(h.dir, ".gemini", "settings.json")
	state, err := newState()
	for _, dir := range []string{"thoughtgate", ".gemini"} {
		if err == nil {
			err = os.Mkdir(filepath.Join(h.dir, dir), 0o700)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(h.dir, "thoughtgate", "state.db"), state, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{h.config: mortalConfig, filepath.Join(h.dir, "tg-shim"): "#!/bin/sh\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(h.endDaemon)
	return h
}

// command returns a command that runs the test binary as the named program.
func (h *mortalFixture) command(name string, vars ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Args[0] = name
	cmd.Dir = h.dir
	cmd.Env = append([]string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + h.dir, "XDG_STATE_HOME=" + h.dir,
		"XDG_CONFIG_HOME=" + h.dir, "GORACE=atexit_sleep_ms=0"}, vars...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// startDaemon starts a daemon that dies after the step with the number last, 0 for never.
// It returns when the daemon answers or has died.
func (h *mortalFixture) startDaemon(last int) {
	h.t.Helper()
	h.daemon = h.command(mortalDaemon, "TGCTL_TEST_AT="+strconv.Itoa(last), "TGCTL_TEST_VICTIMS=self")
	h.daemon.Stderr = io.Discard
	if err := h.daemon.Start(); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, "the daemon answers", func() bool {
		c, err := client.Dial(h.t.Context(), client.WithSocket(filepath.Join(h.dir, "thoughtgate", "control.sock")))
		if err != nil {
			return !running(h.daemon.Process.Pid)
		}
		defer c.Close()
		_, err = c.Status(h.t.Context())
		return err == nil || !running(h.daemon.Process.Pid)
	})
}

func (h *mortalFixture) endDaemon() {
	if h.daemon != nil {
		_ = h.daemon.Process.Kill()
		_ = h.daemon.Wait()
		h.daemon = nil
	}
}

// wrap runs a wrap that kills the victims after a step, and returns its output.
func (h *mortalFixture) wrap(last int, victims string) string {
	cmd := h.command("tgctl", "TGCTL_TEST_BIN="+h.dir, "TGCTL_TEST_AT="+strconv.Itoa(last), "TGCTL_TEST_VICTIMS="+victims)
	cmd.Args = append(cmd.Args, "sh", "-c", mortalAgent)
	out, _ := cmd.CombinedOutput() // its exit code does not matter here
	return string(out)
}

// steps returns the steps taken by the process that was to die.
func (h *mortalFixture) steps() []string {
	text, err := os.ReadFile(filepath.Join(h.dir, "steps"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// isBack reports whether the configuration is restored: with the agent's comment if the
// agent has saved it, without any of ThoughtGate's lines, and with no files left beside
// it.
func (h *mortalFixture) isBack() bool {
	got, err := os.ReadFile(h.config)
	if err != nil {
		h.t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(h.dir, "edited"))
	left, _ := filepath.Glob(h.config + ".*")
	return len(left) == 0 && (string(got) == mortalEdited || err != nil && string(got) == mortalConfig)
}

func (h *mortalFixture) look() string {
	text, _ := os.ReadFile(h.config)
	left, _ := filepath.Glob(h.config + "*")
	return fmt.Sprintf("%q\n%s", left, text)
}

var allKills = flag.Bool("all-kills", false, "kill everybody after each step; otherwise each step has its turn with one of them")

// stride returns the interval between the steps that are tested with each of so many ways.
func stride(ways int) int {
	if *allKills {
		ways = 1
	}
	if testing.Short() {
		return 5 * ways
	}
	return ways
}

// tgctl, the daemon or both are killed after any step of wrapping and restoring. The
// configuration is restored, with what the agent has saved meanwhile: by the survivor if
// it knows of the change, otherwise by one command or by the next daemon.
//
//gotest:plain it starts hundreds of programs
func TestKillAfterAnyStep(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	ways := []string{"tgctl", "daemon", "both, then unwrap", "both, then a daemon"}
	t.Cleanup(func() { // after all ways, which run in parallel
		for _, step := range []string{"locked", "backed up", "opened", "temp written", "compared", "swapped", "renamed", "folder synced", "applied",
			"started", "ended", "closed", "agent unlocked", "backup removed", "restored", "unlocked"} {
			if !seen[step] && !testing.Short() {
				t.Errorf("never killed after %q", step)
			}
		}
	})
	for i, who := range ways {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			for last := 1 + i%stride(len(ways)); ; last += stride(len(ways)) {
				h := newMortalFixture(t)
				h.startDaemon(0)
				daemon := strconv.Itoa(h.daemon.Process.Pid)
				victims := map[string]string{"tgctl": "self", "daemon": daemon}[who]
				if victims == "" {
					victims = daemon + " self"
				}
				said := h.wrap(last, victims)
				steps := h.steps()
				if len(steps) < last {
					if !h.isBack() {
						t.Errorf("nobody was killed: %s\n%s", said, h.look())
					}
					break
				}
				step := steps[last-1]
				mu.Lock()
				seen[step] = true
				mu.Unlock()
				opened := strings.Contains(strings.Join(steps[:last], " "), "opened")
				switch {
				case who == "daemon": // tgctl survives and restores it
				case who == "both, then a daemon" && opened:
					h.endDaemon()
					h.startDaemon(0)
					fallthrough
				case who == "tgctl" && opened:
					for over := time.Now().Add(time.Minute); !h.isBack() && time.Now().Before(over); time.Sleep(2 * time.Millisecond) {
					}
				default: // no process is left that knows of the change
					h.unwrap()
				}
				if !h.isBack() {
					t.Errorf("killed after %q, number %d; it said\n%s\n%s", step, last, said, h.look())
				}
				h.endDaemon()
			}
		})
	}
}

// unwrap runs tgctl unwrap. If the agent has saved the file, the backup differs from the
// configuration; then the backup stays and is reported.
func (h *mortalFixture) unwrap() {
	h.t.Helper()
	cmd := h.command("tgctl", "TGCTL_TEST_BIN="+h.dir)
	cmd.Args = append(cmd.Args, "unwrap", h.config)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Errorf("unwrap: %v\n%s", err, out)
	}
	backup := h.config + ".thoughtgate-backup"
	if text, err := os.ReadFile(backup); err == nil {
		if !strings.Contains(string(out), backup+" differs from the current file and was kept") || string(text) != mortalConfig {
			h.t.Errorf("the backup stays: %s\n%s", text, out)
		}
		_ = os.Remove(backup)
	}
}

// A daemon is killed after any step of restoring what a killed tgctl has left. The next
// daemon continues, or one command restores it.
//
//gotest:plain it starts dozens of programs
func TestKillRestoringDaemon(t *testing.T) {
	for i, by := range []string{"a daemon", "a person"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			for last := 1 + i%stride(2); ; last += stride(2) {
				h := newMortalFixture(t)
				h.startDaemon(last)
				cmd := h.command("tgctl", "TGCTL_TEST_BIN="+h.dir, "TGCTL_TEST_KILL=ended")
				cmd.Args = append(cmd.Args, "sh", "-c", mortalAgent)
				_, _ = cmd.CombinedOutput()
				killed := false
				eventually(t, "the daemon restores or dies", func() bool {
					killed = !running(h.daemon.Process.Pid)
					return killed || h.isBack()
				})
				h.endDaemon()
				if killed && by == "a daemon" {
					h.startDaemon(0)
					eventually(t, "the next daemon restores", h.isBack)
				} else if killed {
					h.unwrap()
				}
				if !h.isBack() {
					t.Errorf("killed after step %d of %q:\n%s", last, h.steps(), h.look())
				}
				if !killed {
					if last < 6 && !testing.Short() {
						t.Errorf("it took %d steps only: %q", last-1, h.steps())
					}
					break
				}
				h.endDaemon()
			}
		})
	}
}

// If tgctl and the daemon were killed, the next wrap waits until the next daemon has restored
// the file, also while nobody holds its lock: the daemon may be about to take it, or may have
// restored the file since the wrap read it.
func TestWrapWaitsForDaemonWithoutLock(t *testing.T) {
	h := newMortalFixture(t)
	h.startDaemon(0)
	killed := h.command("tgctl", "TGCTL_TEST_BIN="+h.dir, "TGCTL_TEST_CONFIG="+h.config,
		"TGCTL_TEST_AT=started", "TGCTL_TEST_VICTIMS="+strconv.Itoa(h.daemon.Process.Pid)+" self")
	killed.Args = append(killed.Args, "true")
	_ = killed.Run() // by a signal
	h.endDaemon()

	// A shared lock keeps the daemon from restoring the file, and is not seen by those who only
	// look whether it is locked.
	lock, err := os.Open(h.config + agentconf.Infix + "lock")
	if err == nil {
		defer lock.Close()
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.startDaemon(0)
	wrap := h.command("tgctl", "TGCTL_TEST_BIN="+h.dir)
	wrap.Args = append(wrap.Args, "wrap", "--verbose", "--agent-type", "custom", "--config-path", h.config, "--", "true")
	says, err := wrap.StderrPipe()
	if err == nil {
		err = wrap.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	waits := false
	for lines := bufio.NewScanner(says); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if !waits && strings.Contains(lines.Text(), "waiting until the daemon has restored") {
			waits = true
			h.wantNoSession()
			_ = lock.Close() // it was only read
		}
	}
	if err := wrap.Wait(); err != nil || !waits {
		t.Fatalf("waited %v, %v:\n%s", waits, err, said.String())
	}
	eventually(t, "the file is as it was", h.isBack)
}

// wantNoSession fails if the daemon lists a session: one that is about to be restored is not news.
func (h *mortalFixture) wantNoSession() {
	c, err := client.Dial(h.t.Context(), client.WithSocket(filepath.Join(h.dir, "thoughtgate", "control.sock")))
	if err != nil {
		h.t.Error(err)
		return
	}
	defer c.Close()
	if sessions, err := c.ListSessions(h.t.Context()); err != nil || len(sessions) > 0 {
		h.t.Errorf("sessions: %v, %v", sessions, err)
	}
}
