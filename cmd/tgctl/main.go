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
	"sync"
	"syscall"
)

func main() {
	a := newApp()
	ctx, stop := a.untilInterrupted()
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// untilInterrupted returns a context that ends with SIGINT or SIGTERM, and what
// ends it and waits. A SIGINT that comes while an editor has the terminal is from a
// key that was meant for the editor.
func (a *app) untilInterrupted() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt || !a.editing.Load() {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() {
		cancel()
		work.Wait()
		signal.Stop(signals)
	}
}
