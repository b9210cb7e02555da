// Package connect connects the commands of tgctl to the daemon, and starts it where it does not
// run.
package connect

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// App is a ui.App with what is needed to find the daemon, and to start it.
type App struct {
	*ui.App

	Environ    func() []string
	Executable func() (string, error) // path of this program

	NoStart bool // --no-start

	Skew *Skew // between the versions of the daemon and tgctl

	Completing time.Duration // timeout for completing a word with names from the daemon; 0 for the usual one

	ConfigMismatchChecked bool // the daemon's configuration was compared with the named one, or need not be
}

// New returns the App of this process, which reads and prints by a.
func New(a *ui.App) *App {
	return &App{App: a, Environ: os.Environ, Executable: os.Executable, Skew: &Skew{}}
}

// Clone returns a copy of a whose streams and environment can be replaced.
func (a *App) Clone() *App {
	own, streams := *a, *a.App
	own.App = &streams
	return &own
}

// Dial connects to the daemon. If none runs, it starts one, unless --no-start forbids it.
func (a *App) Dial(ctx context.Context) (*client.Client, error) {
	c, err := a.DialRunning(ctx)
	if err == nil || !errors.Is(err, client.ErrNotRunning) || a.NoStart {
		return c, err
	}
	// A command that merely needs a daemon starts it with the default configuration: the
	// directory that the terminal is in may have set the variable.
	if err := a.StartDaemon(ctx, ""); err != nil {
		return nil, err
	}
	return a.DialRunning(ctx)
}

// OnDaemon returns a RunE function that connects to the daemon and calls do.
func (a *App) OnDaemon(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.Dial(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd.Context(), c, args)
	}
}

// PrintListed returns a RunE function that prints what list returns, see [ui.PrintList].
func PrintListed[T any](a *App, list func(*client.Client, context.Context) ([]T, error), line func(T) any, none string, table func([]T) *display.Table) func(*cobra.Command, []string) error {
	return a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
		all, err := list(c, ctx)
		if err != nil {
			return err
		}
		return ui.PrintList(a, all, line, none, table)
	})
}

// DialRunning connects to the daemon. It never starts one.
func (a *App) DialRunning(ctx context.Context) (*client.Client, error) {
	c, err := client.Dial(ctx, client.WithEnv(a.Getenv), client.WithBuild(a.Skew.recordBuild))
	if err == nil {
		a.reportConfigMismatch(ctx, c)
	}
	return c, err
}

// DefaultPath returns one of the default paths, or "" if they cannot be determined.
func (a *App) DefaultPath(which func(sock.Paths) string) string {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return ""
	}
	return which(paths)
}
