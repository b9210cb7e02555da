package main

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
)

// What the service manager is told, when there is one that listens.

func notifyReady(log *slog.Logger)    { notify(log, daemon.SdNotifyReady) }
func notifyStopping(log *slog.Logger) { notify(log, daemon.SdNotifyStopping) }

// notifyReload says that a reload has begun, and when it is over.
func notifyReload(log *slog.Logger, reload func()) {
	notify(log, daemon.SdNotifyReloading)
	reload()
	notify(log, daemon.SdNotifyReady)
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("tell the service manager", "state", state, "err", err)
	}
}
