package daemon

import "github.com/thoughtgate/thoughtgated/daemon/supervise"

// fleets are the programs that the daemon keeps running, by what keeps them.
func (d *Daemon) fleets() []supervise.Fleet {
	return []supervise.Fleet{joined{d.extensions.Fleet(), d.offers}}
}
