package main

import "time"

// measureStart starts a server each way and waits for its first answer; and the
// daemon, with nothing on record.
func measureStart(h *house, r *report, o options) error {
	var all compared
	commands := h.ways()
	err := inTurns(2*o.turns, func(way int) error {
		began := time.Now()
		p, err := startPeer(commands[way], h.env)
		if err != nil {
			return err
		}
		err = p.call("tools/call", "read", "")
		all[way] = append(all[way], millis(time.Since(began)))
		if cerr := p.close(); err == nil {
			err = cerr
		}
		return err
	})
	if err != nil {
		return err
	}
	r.add("start.first", all.row())
	starts, err := h.restarts(max(5, o.turns/2))
	if err != nil {
		return err
	}
	r.add("daemon.start", row{Ours: starts, Note: "a few hundred records are in its log, of the servers before"})
	return nil
}

// restarts is how long the daemon takes to start until it answers, in ms.
func (h *house) restarts(n int) (*spread, error) {
	var all []float64
	for range n {
		if err := h.stop(); err != nil {
			return nil, err
		}
		took, err := h.start()
		if err != nil {
			return nil, err
		}
		all = append(all, millis(took))
	}
	return over(all), nil
}
