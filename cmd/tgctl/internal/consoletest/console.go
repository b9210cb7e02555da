// Package consoletest is test material: a console that runs commands of tgctl, a daemon that answers
// them what a test has put into it, and samples of what a daemon holds.
package consoletest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
)

// Console runs commands of tgctl and keeps their output.
type Console struct {
	App      *connect.App
	Out, Err bytes.Buffer
	Env      map[string]string

	Main func(context.Context, []string) int // runs a command line; nil: only the given commands do

	commands []func(*connect.App) *cobra.Command
}

// New returns a terminal of 80 columns whose tgctl has the given commands and connects to socket.
func New(socket string, commands ...func(*connect.App) *cobra.Command) *Console {
	c := &Console{Env: map[string]string{"THOUGHTGATE_CONTROL": socket}, commands: commands}
	c.App = &connect.App{
		App: &ui.App{
			In: strings.NewReader(""), Out: &c.Out, Err: &c.Err,
			InTerminal: true, OutTerminal: true, ErrTerminal: true, Columns: 80,
			Getenv: func(name string) string { return c.Env[name] },
			Now:    func() time.Time { return Noon },
		},
		Skew:       &connect.Skew{},
		Environ:    func() []string { return nil },
		Executable: func() (string, error) { return "/nowhere/tgctl", nil },
		Completing: time.Minute,
	}
	return c
}

// Pipe replaces the terminal by pipes.
func (c *Console) Pipe() *Console {
	c.App.InTerminal, c.App.OutTerminal, c.App.ErrTerminal, c.App.Columns = false, false, false, 0
	return c
}

// Clear forgets what was printed.
func (c *Console) Clear() {
	c.Out.Reset()
	c.Err.Reset()
}

// Run runs one command line and returns its exit code.
func (c *Console) Run(t *testing.T, args ...string) int {
	t.Helper()
	c.Clear()
	return c.Execute(t.Context(), args...)
}

// Execute runs one command line and returns its exit code. It keeps what was printed before.
func (c *Console) Execute(ctx context.Context, args ...string) int {
	if c.Main != nil {
		return c.Main(ctx, args)
	}
	return c.App.ExecuteOnly(ctx, args, c.commands...)
}

// LooksLike runs a command line on the terminal and compares what it prints with a golden file.
func (c *Console) LooksLike(t *testing.T, name string, args ...string) {
	t.Helper()
	was := ui.Release
	ui.Release = "v0.1.0"
	defer func() { ui.Release = was }()
	if code := c.Run(t, args...); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	if !strings.Contains(name, "json") && !strings.Contains(name, "wide") {
		MustFit(t, c.Out.String(), 80)
	}
	Golden(t, name, c.Out.String()+"--- stderr\n"+c.Err.String())
}

// Beside puts a program called thoughtgated beside this tgctl.
func (c *Console) Beside(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, connect.DaemonName), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c.App.Executable = func() (string, error) { return filepath.Join(dir, "tgctl"), nil }
}

// At returns the time d after noon.
func At(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(Noon.Add(d)) }

// MustFit fails if a line is wider than columns or has control characters.
func MustFit(t *testing.T, text string, columns int) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if w := display.Width(display.Safe(line)); w > columns {
			t.Errorf("this line takes %d columns of %d:\n%s", w, columns, line)
		}
		if strings.ContainsAny(line, "\x1b\x07\r\u202e\u200b") {
			t.Errorf("this line holds what a terminal obeys: %q", line)
		}
	}
}

// Golden compares got with a golden file, see [golden.Compare].
func Golden(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", "golden", name+".txt"), got)
}

// WriterFunc is a function as an io.Writer.
type WriterFunc func([]byte) (int, error)

// Write calls f.
func (f WriterFunc) Write(p []byte) (int, error) { return f(p) }
