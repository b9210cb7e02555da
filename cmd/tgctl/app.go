package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/spf13/cobra"
	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/private"
)

// app holds what the commands use of their environment.
type app struct {
	in  io.Reader
	out io.Writer // data
	err io.Writer // messages to a person

	inTerminal, outTerminal, errTerminal bool

	columns    int // width of out if it is a terminal; 0 if unknown
	errColumns int // width of err if it is a terminal; 0 if unknown

	getenv     func(string) string
	environ    func() []string
	executable func() (string, error) // path of this program
	now        func() time.Time

	disableCoreDumps func() // keeps the memory of this process out of core files; may be nil

	hideMemory func() error // keeps other programs from reading the memory of this process

	noStart bool // --no-start
	asJSON  bool // --json

	machine *machine // what doctor examines; nil means this machine

	interrupts chan os.Signal // nil unless somebody waits for an interrupt

	skew *skew // between the versions of the daemon and tgctl

	configMismatchChecked bool // the daemon's configuration was compared with the named one, or need not be
}

// newApp returns the app of this process.
func newApp() *app {
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTerminal:       term.IsTerminal(int(os.Stdin.Fd())),
		outTerminal:      term.IsTerminal(int(os.Stdout.Fd())),
		errTerminal:      term.IsTerminal(int(os.Stderr.Fd())),
		getenv:           os.Getenv,
		environ:          os.Environ,
		executable:       os.Executable,
		now:              time.Now,
		hideMemory:       private.NoReading,
		skew:             &skew{},
		disableCoreDumps: func() { _ = private.NoCore() }, // on failure, a crash leaves a file that only its owner can read
	}
	if a.outTerminal {
		a.columns, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	if a.errTerminal {
		a.errColumns, _, _ = term.GetSize(int(os.Stderr.Fd()))
	}
	return a
}

// run executes the command that args name and returns the exit code. Errors are printed
// here and nowhere else.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCmd()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	a.reportSkew()
	if err != nil {
		a.printError(err)
	}
	return exitCode(err)
}

// width returns how many columns a table may take: COLUMNS, or the width of the terminal.
// 0 means no limit: output to a file or a pipe is not cut.
func (a *app) width() int {
	if n, err := strconv.Atoi(a.getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	switch {
	case !a.outTerminal:
		return 0
	case a.columns > 0:
		return a.columns
	}
	return 80
}

// surface returns the surface that answers given through this program are recorded with.
func (a *app) surface() string {
	if a.inTerminal && a.errTerminal {
		return "terminal"
	}
	return "script"
}

// dial connects to the daemon. If none runs, it starts one, unless --no-start forbids it.
func (a *app) dial(ctx context.Context) (*client.Client, error) {
	c, err := a.dialRunning(ctx)
	if err == nil || !errors.Is(err, client.ErrNotRunning) || a.noStart {
		return c, err
	}
	// A command that merely needs a daemon starts it with the default configuration: the
	// directory that the terminal is in may have set the variable.
	if err := a.startDaemon(ctx, ""); err != nil {
		return nil, err
	}
	return a.dialRunning(ctx)
}

// onDaemon returns a RunE function that connects to the daemon and calls do.
func (a *app) onDaemon(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.dial(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd.Context(), c, args)
	}
}

// dialRunning connects to the daemon. It never starts one.
func (a *app) dialRunning(ctx context.Context) (*client.Client, error) {
	c, err := client.Dial(ctx, client.WithEnv(a.getenv), client.WithBuild(a.skew.recordBuild))
	if err == nil {
		a.reportConfigMismatch(ctx, c)
	}
	return c, err
}
