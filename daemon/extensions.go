package daemon

import (
	"context"
	"sync"

	"github.com/thoughtgate/thoughtgated/daemon/extension"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// openExtensions takes up the programs of the user's that join the gate.
func (d *Daemon) openExtensions(recorder gate.Recorder) (err error) {
	d.extensions, err = extension.Open(extension.Options{
		Dir: d.options.Paths.ExtensionsDir(), Store: d.store, Recorder: recorder, Logger: d.log,
		Getenv: d.options.Getenv, Build: d.options.Build,
		Changed: func() {
			if offers := d.offers; offers != nil { // not while they are taken up
				offers.Changed()
			}
		},
	})
	return err
}

// runExtensions runs them until what it returns is called, which is when nobody asks
// them any more. It returns when none runs.
func (d *Daemon) runExtensions(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.extensions.Run(ctx); err != nil {
			d.log.Error("run extensions", "err", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// scanExtensions looks again at what is installed.
func (d *Daemon) scanExtensions() {
	if err := d.extensions.Scan(context.Background()); err != nil { // it is local
		d.log.Error("look at extensions again", "err", err)
	}
}
