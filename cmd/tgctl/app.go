package main

import (
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/private"
)

// app holds what the commands use of their environment.
type app struct {
	*connect.App

	disableCoreDumps func() // keeps the memory of this process out of core files; may be nil
}

// newApp returns the app of this process.
func newApp() *app {
	ui.Release = release
	return &app{
		App:              connect.New(ui.New()),
		disableCoreDumps: func() { _ = private.NoCore() }, // on failure, a crash leaves a file that only its owner can read
	}
}
