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
)

// What the service manager is told, when there is one that listens.
const (
	sdReady     = sd.SdNotifyReady
	sdReloading = sd.SdNotifyReloading
	sdStopping  = sd.SdNotifyStopping
	sdWatchdog  = sd.SdNotifyWatchdog
)

func notify(log *slog.Logger, state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		log.Warn("tell the service manager", "state", state, "err", err)
	}
}

// checksPerWatchdog is how many self-checks fit into the time after which the
// service manager takes a daemon for hung: one may be lost.
const checksPerWatchdog = 3

// attend does what the daemon's surroundings ask of it while it runs: it reloads
// on SIGHUP, and answers a watchdog, if there is one, for as long as the daemon
// passes its self-check. It goes on until ctx ends; what is returned waits for that.
func attend(ctx context.Context, d *daemon.Daemon, log *slog.Logger) (wait func()) {
	var tasks sync.WaitGroup
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	tasks.Go(func() {
		for {
			select {
			case <-hup:
				notify(log, sdReloading)
				d.Reload(ctx, "SIGHUP")
				notify(log, sdReady)
			case <-ctx.Done():
				return
			}
		}
	})
	within, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog can't be answered", "err", err)
	}
	if within > 0 {
		tasks.Go(func() { d.Watch(ctx, within/checksPerWatchdog, func() { notify(log, sdWatchdog) }) })
	}
	return func() {
		tasks.Wait()
		signal.Stop(hup)
	}
}
