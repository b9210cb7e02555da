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

// app is what the verbs need of the world around them.
type app struct {
	in  io.Reader
	out io.Writer // data
	err io.Writer // talk

	inTerminal, outTerminal, errTerminal bool

	columns    int // width of out when that is a terminal; 0 when not known
	errColumns int // width of err likewise

	getenv     func(string) string
	environ    func() []string
	executable func() (string, error) // path of this program
	now        func() time.Time

	noCore func() // keeps what this process reads out of core files; may be nil

	hideMemory func() error // keeps other programs from reading this process

	noStart bool // --no-start
	asJSON  bool // --json

	machine *machine // what doctor looks at; nil: this one

	interrupts chan os.Signal // nil: nobody waits for one

	skew *skew // between the daemon's version and ours

	namedTold bool // it was said, or is not so, that the daemon's configuration is not the one named
}

// newApp is the app of this process.
func newApp() *app {
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		getenv:      os.Getenv,
		environ:     os.Environ,
		executable:  os.Executable,
		now:         time.Now,
		hideMemory:  private.NoReading,
		skew:        &skew{},
		noCore:      func() { _ = private.NoCore() }, // at worst a crash leaves a file that only its owner reads
	}
	if a.outTerminal {
		a.columns, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	if a.errTerminal {
		a.errColumns, _, _ = term.GetSize(int(os.Stderr.Fd()))
	}
	return a
}

// run runs the verb that args name and returns the exit code. Errors are
// printed here and nowhere else.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCmd()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	a.tellSkew()
	if err != nil {
		a.complain(err)
	}
	return exitCode(err)
}

// width is how many columns a table may take: those of the terminal, or of
// COLUMNS. 0 stands for any number: what goes into a file or a pipe is not cut.
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

// surface is what this program says of where a question was answered.
func (a *app) surface() string {
	if a.inTerminal && a.errTerminal {
		return "terminal"
	}
	return "script"
}

// dial connects to the daemon, and starts one when none runs and that is
// allowed.
func (a *app) dial(ctx context.Context) (*client.Client, error) {
	c, err := a.dialRunning(ctx)
	if err == nil || !errors.Is(err, client.ErrNotRunning) || a.noStart {
		return c, err
	}
	// What merely needs a daemon starts it with the usual configuration: the folder
	// that a terminal stands in may have set the variable.
	if err := a.startDaemon(ctx, ""); err != nil {
		return nil, err
	}
	return a.dialRunning(ctx)
}

// onDaemon is what a verb does that speaks to the daemon before all else.
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

// dialRunning connects to the daemon and never starts one.
func (a *app) dialRunning(ctx context.Context) (*client.Client, error) {
	c, err := client.Dial(ctx, client.WithEnv(a.getenv), client.WithBuild(a.skew.hear))
	if err == nil {
		a.tellElsewhere(ctx, c)
	}
	return c, err
}
