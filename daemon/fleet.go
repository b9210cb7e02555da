package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/fleet"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// openFleet reads which fleet this machine is in.
func (d *Daemon) openFleet() error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	dir := d.options.Paths.FleetDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the fleet: %w", err)
	}
	d.fleet, err = fleet.Open(fleet.Options{
		Dir: dir, Recorder: d.recorder, Logger: d.log, Label: d.user + "@" + host, Presence: d.presence,
		Head: d.audit.Head, Redact: d.audit.Redacted,
		RedactJSON: func(params []byte) []byte {
			return facts.Redact(params, nil, func([]byte) string { return "(secret)" })
		},
		Foreign: d.policies.foreign,
	})
	return err
}

// foreign returns how the set in force has people asked the questions of other machines.
func (p *policies) foreign() fleet.Asking {
	cfg := p.current.Load().config
	_, w := new(config.Config).Workflow("") // the built-in one
	if cfg.Fleet.Approval != "" {
		_, w = cfg.Workflow(cfg.Fleet.Approval)
	}
	a := fleet.Asking{Workflow: cfg.Fleet.Approval}
	for _, s := range w.Surfaces {
		a.Surfaces = append(a.Surfaces, string(s))
	}
	switch w.Require {
	case config.RequirePresence:
		a.Level = gate.LevelPresence
	case config.RequireAny:
		a.Level = gate.LevelWatch
	}
	return a
}

// sending returns what is known of the records that leave for the fleet.
func (d *Daemon) sending(log string) audit.Sending {
	through, sends := d.fleet.Sent(log)
	return audit.Sending{Sends: sends, Through: through, Drops: d.fleetPolicy.Drops()}
}

// socketRetry is how long to wait before fleet.sock is tried again.
const socketRetry = 10 * time.Second

// serveFleet serves fleet.sock while this machine is in a fleet. The daemon opens that socket itself,
// whoever holds the others: a courier connects again after a restart, and is not meant to start one.
func (d *Daemon) serveFleet(ctx context.Context) error {
	for ctx.Err() == nil {
		member, changed := d.fleet.Member()
		var retry <-chan time.Time
		stop := func() {}
		if member.Joins() {
			l, err := sock.Listen(d.options.Paths.FleetSocket())
			if err != nil {
				d.log.Error("no courier of the fleet can connect", "err", err)
				retry = time.After(socketRetry)
			} else {
				checked := sock.Checked(l)
				checked.Refused = func(err error) { d.log.Warn("refused a connection", "socket", l.Addr().String(), "err", err) }
				stop = d.server.ServeFleet(checked)
			}
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
		}
		stop()
	}
	return nil
}
