package ui

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// UntilInterrupted returns a context that ends on SIGINT or SIGTERM, and a function that
// cancels it and releases its resources.
func (a *App) UntilInterrupted() (context.Context, func()) {
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

// LeaveInterrupts ignores SIGINT until restore is called. Another program has the
// terminal meanwhile, and the key was meant for it.
func (a *App) LeaveInterrupts() (restore func()) {
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
