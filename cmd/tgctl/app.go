package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/private"
)

// app holds what the commands use of their environment.
type app struct {
	*ui.App

	environ    func() []string
	executable func() (string, error) // path of this program

	disableCoreDumps func() // keeps the memory of this process out of core files; may be nil

	hideMemory func() error // keeps other programs from reading the memory of this process

	noStart bool // --no-start

	machine *machine // what doctor examines; nil means this machine

	interrupts chan os.Signal // nil unless somebody waits for an interrupt

	skew *skew // between the versions of the daemon and tgctl

	configMismatchChecked bool // the daemon's configuration was compared with the named one, or need not be
}

// newApp returns the app of this process.
func newApp() *app {
	return &app{
		App:              ui.New(),
		environ:          os.Environ,
		executable:       os.Executable,
		hideMemory:       private.NoReading,
		skew:             &skew{},
		disableCoreDumps: func() { _ = private.NoCore() }, // on failure, a crash leaves a file that only its owner can read
	}
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
	c, err := client.Dial(ctx, client.WithEnv(a.Getenv), client.WithBuild(a.skew.recordBuild))
	if err == nil {
		a.reportConfigMismatch(ctx, c)
	}
	return c, err
}
