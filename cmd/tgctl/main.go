// Tgctl is the command line of ThoughtGate: it wraps agents, shows the waiting questions
// and answers them, reads the audit log, and manages the daemon.
//
// Every command is a method that returns a cobra command, in a file named after it or
// after its group, here or in the package of its subject below internal. Commands use
// their environment only through the app type, so that tests can replace it: nothing else
// reads os.Stdin, os.Stdout or the environment.
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

// untilInterrupted returns a context that ends on SIGINT or SIGTERM, and a function that
// cancels it and releases its resources.
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

// leaveInterrupts ignores SIGINT until restore is called. Another program has the
// terminal meanwhile, and the key was meant for it.
func (a *app) leaveInterrupts() (restore func()) {
	theirs := make(chan os.Signal, 1)
	signal.Notify(theirs, os.Interrupt)
	if a.interrupts != nil {
		signal.Stop(a.interrupts)
	}
	return func() {
		// A signal that arrived while the program ran may not be delivered yet. Stop
		// waits for its delivery.
		last := make(chan os.Signal, 1)
		signal.Notify(last, os.Interrupt)
		signal.Stop(last)
		if a.interrupts != nil {
			signal.Notify(a.interrupts, os.Interrupt)
		}
		signal.Stop(theirs)
	}
}
