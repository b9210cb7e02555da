package daemon

import "errors"

// leave ends what judges for agents. What is under way has no verdict: the next daemon
// judges it. So it comes before the end of extensions, which may have been asked.
func (d *Daemon) leave() {
	d.left.Do(func() {
		if d.runs != nil {
			d.runs.Close() // their sessions go with them
		}
		if d.handed != nil {
			d.handed.Close()
		}
		if d.sessions != nil {
			d.sessions.Close()
		}
	})
}

// close ends the parts, each before those it stands on.
func (d *Daemon) close() {
	var err error
	if d.textfile != nil {
		d.textfile.Close()
	}
	d.leave()
	d.traces.Close() // what calls that are not over have come to is told first
	if d.guard != nil {
		d.guard.Close()
	}
	if d.queue != nil {
		err = errors.Join(err, d.queue.Close())
	}
	if d.presence != nil {
		d.presence.Close()
	}
	if d.listings != nil {
		d.listings.Close()
	}
	if d.standing != nil {
		d.standing.close()
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	if d.audit != nil {
		err = errors.Join(err, d.audit.Close())
	}
	if d.index != nil {
		err = errors.Join(err, d.index.Close())
	}
	if err != nil {
		d.log.Error("close", "err", err)
	}
}
