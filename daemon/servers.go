package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/backend"
	"github.com/thoughtgate/thoughtgated/daemon/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/sharing"
)

// join is how the way of a shim finds its place at a shared server.
func (d *Daemon) join(ctx context.Context, launch sharing.Launch, client sharing.Client) (sharing.Member, error) {
	if name, ok := strings.CutPrefix(launch.Server, offer.Prefix); ok && launch.Launch == offer.Launch(name) {
		return d.joinTools(name, client)
	}
	m, err := d.pool.Join(ctx, backend.Spec(launch), client)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sharing.ErrNotStarted, err)
	}
	return m, nil
}

// keepServers runs the servers that sessions share. The returned function ends
// them; it is called when no shim is attached any more, since a server that goes
// is the end for those that are.
func (d *Daemon) keepServers(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the sockets close first
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.pool.Run(ctx); err != nil {
			d.log.Error("keep shared servers", "err", err)
		}
	}()
	return func() {
		d.sharing.Close()
		cancel()
		<-ended
	}
}
