package hook

import (
	"io"
	"os/exec"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// An agent is told to ask its own user only in a session of its own, while a person may be there.
func TestCanAsk(t *testing.T) {
	mode := func(mode string) *agenthook.Event {
		return &agenthook.Event{Kind: agenthook.Before, Name: "PreToolUse", ID: "1", Mode: mode, Writer: "claude-code"}
	}
	for name, tt := range map[string]struct {
		dialect, session string
		event            *agenthook.Event
		attended, want   bool
	}{
		"asked":                               {"claude-code", "claude-code", mode("default"), true, true},
		"nobody is there":                     {"claude-code", "claude-code", mode("default"), false, false},
		"asks nobody":                         {"claude-code", "claude-code", mode("bypassPermissions"), true, false},
		"does not say whether it asks":        {"claude-code", "claude-code", mode(""), true, false},
		"below another agent that is wrapped": {"claude-code", "gemini", mode("default"), true, false},
		"can't be told":                       {"codex", "codex", mode("default"), true, false},
	} {
		r := &Registry{attended: func(*agenthook.Contract, proc.Process) bool { return tt.attended }}
		a := &agent{registry: r, contract: agenthook.Of(tt.dialect), joined: &session.Joined{}}
		a.joined.Shim.Agent = tt.session
		if got := a.canAsk(tt.event); got != tt.want {
			t.Errorf("%s: can ask: %v", name, got)
		}
	}
}

// A person may be at a terminal, unless the agent was started to print one answer.
func TestIsAttended(t *testing.T) {
	for name, tt := range map[string]struct {
		terminal bool
		arg      string
		want     bool
	}{"at a terminal": {true, "x", true}, "to print an answer": {true, "-p", false}, "elsewhere": {false, "x", false}, "with overwritten arguments": {true, "", false}} {
		cmd := exec.Command("sh", "-c", "echo; read line", "claude", tt.arg)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		read, start := cmd.StdoutPipe, cmd.Start
		var out io.Reader
		var err error
		if tt.terminal {
			terminal, err := pty.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			defer terminal.Close()
			out = terminal
		} else {
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if out, err = read(); err == nil {
				err = start()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err = out.Read(make([]byte, 1)) // it runs the program now
		p, failed := proc.Read(int32(cmd.Process.Pid))
		if got := isAttended(agenthook.Of("claude-code"), p.Process); err != nil || failed != nil || got != tt.want {
			t.Errorf("%s: attended: %v, %v, %v", name, got, err, failed)
		}
		p.Start++
		if isAttended(agenthook.Of("claude-code"), p.Process) {
			t.Errorf("%s: another process of that number is attended", name)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}
