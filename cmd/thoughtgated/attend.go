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

// notify tells the service manager, when there is one that listens.
func notify(store *keep.Store, log *slog.Logger, state string) {
	if err := store.Notify(context.Background(), state); err != nil { // which has bounds of its own
		log.Warn("tell the service manager", "state", state, "err", err)
	}
}

// checksPerWatchdog is how many self-checks fit into the time after which the
// service manager takes a daemon for hung: one may be lost.
const checksPerWatchdog = 3

// attend does what the daemon's surroundings ask of it while it runs: it reloads
// on SIGHUP, and answers a watchdog, if there is one, for as long as the daemon
// passes its self-check. It goes on until ctx ends; what is returned waits for that.
func attend(ctx context.Context, d *daemon.Daemon, store *keep.Store, log *slog.Logger) (wait func()) {
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
			log.Error("the keeper has ended: if this daemon dies, no other is started, and agents lose their servers; `tgctl daemon restart` starts both anew")
		}
	})
	within, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog can't be answered", "err", err)
	}
	if within > 0 {
		tasks.Go(func() { d.Watch(ctx, within/checksPerWatchdog, func() { notify(store, log, sd.SdNotifyWatchdog) }) })
	}
	return func() {
		tasks.Wait()
		signal.Stop(hup)
	}
}
