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

// CatchSignals returns a channel of the signals that would end this process, until release is
// called. A signal that is ignored, as by nohup, stays ignored. A write to a closed terminal or pipe
// fails from now on, also after release, and no longer ends the process.
func CatchSignals() (caught chan os.Signal, release func()) {
	caught = make(chan os.Signal, 16)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return caught, func() { signal.Stop(caught) }
}
