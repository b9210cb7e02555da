package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

// tmuxFixture is a home with a daemon's configuration and a terminal that runs a shell.
type tmuxFixture struct {
	t    *testing.T
	dir  string
	env  []string
	last string // last captured screen
}

// newTmuxFixture starts a terminal of 80 by 24 that runs script.
func newTmuxFixture(t *testing.T, script string) *tmuxFixture {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("needs tmux")
	}
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	h := newTerminal(t, bin)
	h.write("config/thoughtgate/thoughtgate.yaml", "schema: 1\ngovernance:\n  rules:\n    - {match: \"write_*\", action: approve, description: \"read it twice\"}\napproval:\n  me: {destination: {type: local}, timeout: 1h}\n")
	h.write("mcp.json", `{"mcpServers": {"notes": {"command": "fake-server", "args": ["done.log"]}}}`)
	h.write("script.txt", "call notes read_note {\"name\": \"plan\"}\ncall notes write_note {\"name\": \"plan\", \"text\": \"ship \\u202e it\"}\ncall notes write_note {\"name\": \"plan\", \"text\": \"ship nothing\"}\n")
	t.Cleanup(func() {
		h.tmux("kill-server")
		_ = h.command("tgctl", "daemon", "stop").Run() // it may have ended already
		nothingLeft(t, h.dir)
	})
	h.must("tmux", "-f", "/dev/null", "-u", "new-session", "-d", "-x", "80", "-y", "24", script)
	return h
}

// newTerminal returns a fixture with an empty home, in which no terminal runs yet.
func newTerminal(t *testing.T, bin string) *tmuxFixture {
	t.Helper()
	h := &tmuxFixture{t: t, dir: consoletest.ShortDir(t)}
	h.env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TERM=xterm", "LANG=C.UTF-8", "TZ=UTC", "TMUX_TMPDIR=" + h.dir, "NO_COLOR=1", "GORACE=" + os.Getenv("GORACE")}
	for name, dir := range map[string]string{"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"} {
		path := filepath.Join(h.dir, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, name+"="+path)
	}
	return h
}

func (h *tmuxFixture) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *tmuxFixture) command(name string, args ...string) *exec.Cmd {
	for _, entry := range h.env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok && name == "tgctl" {
			name = filepath.Join(filepath.SplitList(path)[0], name)
		}
	}
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = h.env, h.dir
	return cmd
}

func (h *tmuxFixture) must(name string, args ...string) string {
	h.t.Helper()
	out, err := h.command(name, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// tmux runs a tmux command. It ignores errors, since the terminal may have ended.
func (h *tmuxFixture) tmux(args ...string) string {
	out, _ := h.command("tmux", args...).Output()
	return string(out)
}

func (h *tmuxFixture) press(keys ...string) {
	h.t.Helper()
	h.must("tmux", append([]string{"send-keys"}, keys...)...)
}

// sees waits until each text is on the screen.
func (h *tmuxFixture) sees(texts ...string) {
	h.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		h.last = h.tmux("capture-pane", "-p")
		missing := ""
		for _, text := range texts {
			if !strings.Contains(h.last, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the screen never had %q:\n%s", missing, h.last)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// changing lists what differs from run to run on a screen, and what replaces it.
var changing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^(. A-\d+ +)[0-9a-f]{8}( +)\S+( +)[\d:]+`), "${1}(digest)${2}0s${3}59:59"},
	{regexp.MustCompile(`(?m)^(. A-\d+ +)[0-9a-f]{8}( +)[\d:]+`), "${1}(digest)${2}59:59"},
	{regexp.MustCompile(`(A-\d+) [0-9a-f]{8}`), "${1} (digest)"},
	{regexp.MustCompile(`\d+:\d\d left`), "59:59 left"},
	{regexp.MustCompile(`(?m)^(asked +)\d.*`), "${1}(time)"},
	{regexp.MustCompile(`session \S+`), "session (id)"},
	{regexp.MustCompile(`(?m)^(in the log +)\S+`), "${1}(id)"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "(hash)"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d  `), "12:00:00  "},
	{regexp.MustCompile(`by \S+ \(uid \d+.*?\), terminal`), "by (somebody), terminal"},
}

// golden compares the last captured screen with a golden file.
func (h *tmuxFixture) golden(name string) {
	h.t.Helper()
	screen := h.last
	for _, c := range changing {
		screen = c.pattern.ReplaceAllString(screen, c.instead)
	}
	consoletest.Golden(h.t, "tmux-"+name, screen)
}

// daemonPid returns the pid of the daemon.
func (h *tmuxFixture) daemonPid() int {
	h.t.Helper()
	var status struct {
		Pid int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(h.must("tgctl", "status", "--json")), &status); err != nil || status.Pid == 0 {
		h.t.Fatalf("no pid in the status: %v", err)
	}
	return status.Pid
}

const watchScript = `stty -g >before; tgctl approvals watch; echo "exit $?"; stty -g >after; cmp before after && echo as before; exec cat`

// The queue in a real terminal with a real daemon: it works without a question and when
// the daemon is killed, shows a question when it is asked, and answers it.
func TestWatchInATerminal(t *testing.T) {
	h := newTmuxFixture(t, watchScript)
	h.sees("No question is waiting", "q quit")
	h.golden("empty")

	if err := syscall.Kill(h.daemonPid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.sees("Not connected")
	h.golden("gone")
	h.must("tgctl", "daemon", "start")
	h.sees("connected again")

	agent := h.command("tgctl", "wrap", "--agent-type", "custom", "--config-path", "mcp.json", "--", "fake-agent", "mcp.json", "script.txt")
	var said bytes.Buffer
	agent.Stdout, agent.Stderr = &said, &said
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	h.sees("> A-1 ", "read it twice")
	h.golden("list")
	h.press("Enter")
	h.sees("write_note on notes", "previous calls of this session", "lines 1-")
	h.golden("detail")
	h.press("Escape")
	h.sees("1 question waits")
	h.must("tmux", "resize-window", "-x", "40", "-y", "12")
	h.sees("a approve  d deny")
	h.golden("small")
	h.press("Down", "a")                 // after a key press, a need not wait for the list to settle
	h.sees(`"text": "ship \u{202e} it"`) // not all of it was on the small screen: it is read first
	h.press("a")
	h.sees("Approve A-1", "y/N")
	h.press("y")
	h.sees("A-1 approved")
	h.growUnnoticed()

	// The second question is selected by itself and differs from the approved one.
	h.sees("> A-2 ", "a approve")
	h.press("Enter")
	h.sees("compared with the last approved call, A-1")
	h.press("End")
	h.sees(`-   "text": "ship \u{202e} it"`, `+   "text": "ship nothing"`)
	h.press("d")
	h.sees("Deny A-2", "reason (optional)")
	h.press("-l", "not on a Friday")
	h.sees("not on a Friday_")
	h.press("Enter")
	h.sees("A-2 denied", "No question is waiting")
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	for _, want := range []string{"write_note: error false", "write_note: error true", "not on a Friday"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the agent never heard %q:\n%s", want, said.String())
		}
	}
	if done, err := os.ReadFile(filepath.Join(h.dir, "done.log")); err != nil || bytes.Count(done, []byte("write_note")) != 1 {
		t.Errorf("the server did, %v:\n%s", err, done)
	}
	h.press("q")
	h.sees("exit 0", "as before")
	h.tmux("kill-server")
}

// growUnnoticed resizes the terminal to 80 by 24 so that the queue learns of it too late:
// the scroll margins still end where those of the 40 by 12 terminal did.
func (h *tmuxFixture) growUnnoticed() {
	h.t.Helper()
	for pid, name := range processesOf(h.dir) {
		argv, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if name == "tgctl" && bytes.Contains(argv, []byte("\x00watch\x00")) {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			defer syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	h.must("tmux", "resize-window", "-x", "80", "-y", "24")
	terminal := strings.TrimSpace(h.must("tmux", "display-message", "-p", "#{pane_tty}"))
	if err := os.WriteFile(terminal, []byte("\x1b[1;12r"), 0); err != nil {
		h.t.Fatal(err)
	}
}

// A signal ends the queue and restores the terminal.
func TestWatchGivesTheTerminalBack(t *testing.T) {
	h := newTmuxFixture(t, watchScript)
	h.sees("No question is waiting")
	signalled := 0
	for pid, name := range processesOf(h.dir) {
		if name == "tgctl" {
			signalled++
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if signalled != 1 {
		t.Fatalf("%d processes of tgctl", signalled)
	}
	h.sees("exit 0", "as before")
}

// On terminals of other sizes the same queue holds 500 open questions, and 50 new ones each second don't move
// the cursor. The daemon is a test's, whose limits are higher than the real one's.
func TestQueueOfManyInATerminal(t *testing.T) {
	h := newTmuxFixture(t, "exec cat")
	daemon := consoletest.Start(t)
	ask := func(n int) {
		q := proto.CloneOf(consoletest.Questions()[1])
		q.Id, q.Subject = fmt.Sprint("A-", n), fmt.Appendf(nil, "subject %8d", n)
		q.Facts = []string{"secret"}
		q.Created, q.Expires = timestamppb.Now(), timestamppb.New(time.Now().Add(time.Hour))
		daemon.Mu.Lock()
		daemon.Approvals = append(daemon.Approvals, q)
		daemon.Mu.Unlock()
	}
	for i := range 500 {
		ask(i + 1)
	}
	for at, size := range []struct {
		columns, rows, vars string
		split               bool
	}{{"80", "24", "", false}, {"120", "40", "COLORFGBG='0;15'", true}, {"160", "50", "NO_COLOR=1", true}} {
		h.must("tmux", "resize-window", "-x", size.columns, "-y", size.rows)
		h.must("tmux", "respawn-pane", "-k", "unset NO_COLOR; "+size.vars+" TERM=screen-256color THOUGHTGATE_CONTROL="+daemon.Socket+" tgctl queue; exec cat")
		h.sees("> A-1 ", " questions wait")
		h.press("Down", "Down", "Down", "Down")
		h.sees("> A-5 ")
		pace := time.NewTicker(20 * time.Millisecond)
		for i := range 50 {
			<-pace.C
			ask(501 + 50*at + i)
		}
		pace.Stop()
		h.sees(fmt.Sprintf("%d questions wait", 550+50*at), "> A-5 ")
		if size.split {
			h.sees("forwards exactly this call to filesystem, once")
		}
		colours := h.tmux("capture-pane", "-p", "-e")
		if has := regexp.MustCompile(`\x1b\[[\d;]*3[0-7]`).MatchString(colours); has == strings.Contains(size.vars, "NO_COLOR") {
			t.Errorf("with %q colours are drawn: %v\n%q", size.vars, has, colours)
		}
		h.press("a")
		h.sees("Approve A-5 ")
		h.press("n", "Escape", "q")
	}
}
