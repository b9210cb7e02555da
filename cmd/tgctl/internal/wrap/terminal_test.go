package wrap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Ctrl-Z stops the agent and tgctl, so that the shell shows its prompt. After fg both continue,
// and the agent has the terminal.
func TestTerminalSuspend(t *testing.T) {
	h := newWrapFixture(t)
	agent := `echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; read line; echo "$line" > line; exit 4`
	wrap := h.wrap(agent)
	shell := exec.Command("sh", "-c", `set -m; "$@"; echo $? > stopped; echo now > go; fg %1 > talk; echo $? > code`, "sh")
	shell.Args = append(shell.Args, wrap.Args...)
	shell.Env, shell.Dir = wrap.Env, wrap.Dir
	terminal, cmd := h.inTerminal(shell)
	pid := pidOf(t, h.appears("pid"))
	terminal.Write([]byte{26})
	if code := h.appears("stopped"); code != strconv.Itoa(128+int(unix.SIGTSTP)) {
		t.Errorf("the shell was told %s", code)
	}
	terminal.Write([]byte("typed\n"))
	if line := h.appears("line"); line != "typed" {
		t.Errorf("the agent read %q", line)
	}
	if code := h.appears("code"); code != "4" {
		t.Errorf("exit %s", code)
	}
	h.code(cmd)
	if alive(pid) {
		t.Error("the agent is alive")
	}
	h.wantAsBefore()
}

// The agent is notified when the terminal's size changes.
func TestTerminalSize(t *testing.T) {
	h := newWrapFixture(t)
	terminal, cmd := h.inTerminal(h.wrap(`trap 'stty size > size' WINCH; echo $$ > pid; while [ ! -s size ]; do sleep 0.01; done`))
	h.appears("pid")
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 33, Cols: 99}); err != nil {
		t.Fatal(err)
	}
	if code := h.code(cmd); code != 0 {
		t.Errorf("exit %d", code)
	}
	text, err := os.ReadFile(filepath.Join(h.home, "size"))
	if err != nil || strings.TrimSpace(string(text)) != "33 99" {
		t.Errorf("the agent sees %q, %v", text, err)
	}
	h.wantAsBefore()
}
