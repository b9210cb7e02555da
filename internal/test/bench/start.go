package main

import "time"

// measureStart starts a server each way and waits for its first answer. It also starts the
// daemon with an empty log.
func measureStart(h *fixture, r *report, o options) error {
	c, all := h.contest(), compared{}
	err := c.inTurns(2*o.turns, func(place int) error {
		began := time.Now()
		s, err := c.ways[place].start()
		if err != nil {
			return err
		}
		err = s.call("tools/call", "read", "")
		all.note(place, millis(time.Since(began)))
		if cerr := s.close(); err == nil {
			err = cerr
		}
		return err
	})
	if err != nil {
		return err
	}
	r.add("start.first", c.row(all))
	starts, err := h.restarts(max(5, o.turns/2))
	if err != nil {
		return err
	}
	r.add("daemon.start", row{Ours: starts, Note: "a few hundred records are in its log, of the servers before"})
	return nil
}

// restarts returns how long the daemon takes to start until it answers, in ms.
func (h *fixture) restarts(n int) (*spread, error) {
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
