package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
)

// notify notifies the service manager, if there is one.
func notify(store *keep.Store, log *slog.Logger, state string) {
	if err := store.Notify(context.Background(), state); err != nil { // Notify has its own timeout
		log.Warn("notify the service manager", "state", state, "err", err)
	}
}

// checksPerWatchdog is the number of self-checks within the watchdog timeout, so that one may
// be lost.
const checksPerWatchdog = 3

// runServiceTasks handles the daemon's environment while it runs: it reloads on SIGHUP and, if there is
// a watchdog, notifies it as long as the daemon passes its self-check. It runs until ctx ends;
// wait waits for that.
func runServiceTasks(ctx context.Context, d *daemon.Daemon, store *keep.Store, log *slog.Logger) (wait func()) {
	var tasks sync.WaitGroup
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	tasks.Go(func() {
		for {
			select {
			case <-hup:
				notify(store, log, sd.SdNotifyReloading)
				d.Reload(ctx, "SIGHUP")
				notify(store, log, sd.SdNotifyReady)
			case <-ctx.Done():
				return
			}
		}
	})
	tasks.Go(func() {
		if store.AwaitKeeperEnd(ctx) {
			log.Error("the keeper has ended: if this daemon dies, it is not restarted, and agents lose their servers; run `tgctl daemon restart` to restart both")
		}
	})
	within, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("read the service manager's watchdog settings", "err", err)
	}
	if within > 0 {
		tasks.Go(func() { d.Watch(ctx, within/checksPerWatchdog, func() { notify(store, log, sd.SdNotifyWatchdog) }) })
	}
	return func() {
		tasks.Wait()
		signal.Stop(hup)
	}
}
