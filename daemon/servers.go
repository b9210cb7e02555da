package daemon

import "context"

// keepServers runs the servers that sessions share. The returned function ends
// them; it is called when no session runs any more, since a server that goes is the
// end for those that have joined it.
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
		cancel()
		<-ended
	}
}
