package notify

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// terminalGrace is the grace period of a terminal that is told to end.
const terminalGrace = 2 * time.Second

// terminals lists programs that open a terminal, those that the user configures first.
// before holds the arguments that precede the command.
var terminals = []struct {
	name   string
	before []string
}{
	{"xdg-terminal-exec", nil},
	{"x-terminal-emulator", []string{"-e"}},
	{"gnome-terminal", []string{"--"}},
	{"kgx", []string{"--"}},
	{"konsole", []string{"-e"}},
	{"xfce4-terminal", []string{"-x"}},
	{"mate-terminal", []string{"-x"}},
	{"kitty", nil},
	{"foot", nil},
	{"alacritty", []string{"-e"}},
	{"wezterm", []string{"start", "--"}},
	{"xterm", []string{"-e"}},
}

// terminalCommand returns the command line that opens a terminal and runs command in it.
func (a *app) terminalCommand(command []string) ([]string, error) {
	if own := a.Getenv("TERMINAL"); own != "" {
		before := []string{"-e"}
		for _, t := range terminals {
			if t.name == filepath.Base(own) {
				before = t.before
			}
		}
		path, err := exec.LookPath(own)
		if err != nil {
			return nil, fmt.Errorf("open the terminal that TERMINAL names: %w", err)
		}
		return append(append([]string{path}, before...), command...), nil
	}
	for _, t := range terminals {
		if path, err := exec.LookPath(t.name); err == nil {
			return append(append([]string{path}, t.before...), command...), nil
		}
	}
	return nil, errors.New("no terminal emulator was found; set TERMINAL to yours")
}

// runTerminal opens a terminal that runs tgctl with args, and returns when it has been
// closed. It ends the terminal when ctx ends.
func (a *app) runTerminal(ctx context.Context, args ...string) error {
	self, err := a.Executable()
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	line, err := a.terminalCommand(append([]string{self}, args...))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = a.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C at the terminal of notify is not meant for this one
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = terminalGrace
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("open a terminal with %s: %w", line[0], err)
	}
	return nil
}
