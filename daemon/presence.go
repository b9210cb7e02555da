package daemon

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/presence"
)

// openPresence takes up the secret with which people prove to be there.
func (d *Daemon) openPresence() (err error) {
	d.presence, err = presence.New(d.store, presence.Options{
		Recorder: d.audit, Logger: d.log,
		// The queue is there before anybody can call.
		Void: func(ctx context.Context, by, why string, grants bool) error {
			return d.queue.Void(ctx, by, why, grants)
		},
	})
	if err != nil {
		return fmt.Errorf("take up presence: %w", err)
	}
	return nil
}
