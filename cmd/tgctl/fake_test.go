package main

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

// console is a terminal with all of tgctl.
type console struct {
	*consoletest.Console
	app *app
}

// newConsole returns a terminal of 80 columns whose tgctl connects to socket.
func newConsole(socket string) *console {
	c := consoletest.New(socket)
	return &console{c, &app{App: c.App}}
}

// pipe replaces the terminal by pipes.
func (c *console) pipe() *console {
	c.Pipe()
	return c
}

// run runs one command line and returns its exit code.
func (c *console) run(t *testing.T, args ...string) int {
	t.Helper()
	c.Clear()
	return c.app.run(t.Context(), args)
}
