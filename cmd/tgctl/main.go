// Tgctl is how a person uses ThoughtGate: it wraps an agent, shows the
// questions that wait and answers them, reads the record, and looks after the
// daemon.
//
// Every verb is one function that returns its command, in a file of its name or
// of its group. What a verb needs of the world is in one value, the app, which a
// test can make: nothing here reads os.Stdin, os.Stdout or the environment by
// itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := newApp().run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
