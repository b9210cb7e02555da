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
// ends it and waits.
func (a *app) untilInterrupted() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	terminations := make(chan os.Signal, 1)
	a.interrupts = make(chan os.Signal, 1)
	signal.Notify(terminations, syscall.SIGTERM)
	signal.Notify(a.interrupts, os.Interrupt)
	var work sync.WaitGroup
	work.Go(func() {
		defer cancel()
		select {
		case <-terminations:
		case <-a.interrupts:
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		work.Wait()
		signal.Stop(terminations)
		signal.Stop(a.interrupts)
	}
}

// leaveInterrupts leaves each SIGINT that comes until restore is called to the
// program that has the terminal: it is from a key that was meant for that.
func (a *app) leaveInterrupts() (restore func()) {
	theirs := make(chan os.Signal, 1)
	signal.Notify(theirs, os.Interrupt)
	if a.interrupts != nil {
		signal.Stop(a.interrupts)
	}
	return func() {
		// What came while the program ran may not have been handed out yet. Stop waits
		// until it was.
		last := make(chan os.Signal, 1)
		signal.Notify(last, os.Interrupt)
		signal.Stop(last)
		if a.interrupts != nil {
			signal.Notify(a.interrupts, os.Interrupt)
		}
		signal.Stop(theirs)
	}
}
