package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	// atRest is how long after its work a process has given back what it does not keep.
	atRest = time.Second
	// longRest is how long after a large message it is looked at what of it stays.
	longRest = 10 * time.Second
	// stayingMessage is the size of that message.
	stayingMessage = 10_000_000
)

// work is what is done before memory is looked at.
type work struct {
	name       string // of the figure
	tool, text string // text is in the arguments
	n, flight  int
	daemon     string // what the daemon's memory is called then; empty to leave it out
}

// do makes the calls of a work.
func (s *session) do(k work) error {
	if k.text == "" {
		_, err := s.pipeline(governed.method, k.tool, k.n, k.flight)
		return err
	}
	for range k.n {
		if err := s.call(governed.method, k.tool, k.text); err != nil {
			return err
		}
	}
	return nil
}

// gates is a contest of the ways with a gate in them.
func (h *house) gates() *contest {
	return h.contest().without(func(place int) bool { return place < ours })
}

// held is the row of what processes hold, by the place of their way.
func (c *contest) held(found map[int]memory) row {
	var r row
	for _, place := range c.entered {
		m, known := found[place]
		o := other{Name: c.ways[place].name, Share: m.share, Peak: m.peak}
		if known {
			o.Figure = once(m.resident)
		}
		if err := c.failed[place]; err != nil {
			o = other{Name: o.Name, Failed: err.Error()}
		}
		if place == ours {
			r.Ours, r.Share, r.Peak = o.Figure, m.share, m.peak
		} else if known || o.Failed != "" {
			r.Others = append(r.Others, o)
		}
	}
	return r
}

// daemons is what the daemons of the ways hold.
func (c *contest) daemons() map[int]memory {
	found := map[int]memory{}
	for _, place := range c.entered {
		if h := c.ways[place].house; h != nil {
			found[place] = memoryOf(h.daemon.Process.Pid)
		}
	}
	return found
}

// forgetPeak lets the peak of a way's daemon begin at what it holds now.
func (w way) forgetPeak() {
	if w.house != nil {
		forgetPeak(w.house.daemon.Process.Pid)
	}
}

// measureMemory looks at the daemon, and at a shim of its own for each kind of work,
// when that is done and a moment has passed. The peak is that of the work.
func measureMemory(h *house, r *report, _ options) error {
	c := h.gates()
	for _, w := range c.ways { // a start takes more for a moment than is kept
		w.forgetPeak()
	}
	r.add("memory.daemon.idle", c.held(c.daemons()))
	large := strings.Repeat("y", largeMessage)
	for _, k := range []work{
		{"memory.shim.1", "read", "", 1, 1, ""},
		{"memory.shim.10000", "read", "", 10_000, 32, "memory.daemon.10000"},
		{"memory.shim.5MB", "size-5000000", "", 1, 1, ""},
		{"memory.shim.8MB", largeTool, "", 1, 1, ""},
		{"memory.shim.8MBs", largeTool, "", 20, 1, "memory.daemon.8MBs"},
		{"memory.shim.arguments", "write", large, 20, 1, "memory.daemon.arguments"},
	} {
		if err := h.measureWork(r, k); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return h.measureStays(r)
}

// measureWork has each gate do k, and looks at it and its daemon.
func (h *house) measureWork(r *report, k work) error {
	c, shims, daemons := h.gates(), map[int]memory{}, map[int]memory{}
	err := c.inTurns(1, func(place int) error {
		w := c.ways[place]
		w.forgetPeak()
		s, err := w.start()
		if err != nil {
			return err
		}
		if err = s.do(k); err == nil {
			time.Sleep(atRest)
			shims[place] = memoryOf(s.pid())
			if w.house != nil {
				daemons[place] = memoryOf(w.house.daemon.Process.Pid)
			}
		}
		if cerr := s.close(); err == nil {
			err = cerr
		}
		return err
	})
	if err != nil {
		return err
	}
	r.add(k.name, c.held(shims))
	if k.daemon != "" {
		r.add(k.daemon, c.without(func(place int) bool { return c.ways[place].isPeer() }).held(daemons))
	}
	return nil
}

// measureStays sends a large message through each gate, and looks a while later at
// what all processes of the gate hold more than before.
func (h *house) measureStays(r *report) error {
	c, stays := h.gates(), map[int]memory{}
	sessions, err := c.open()
	if err != nil {
		return err
	}
	gate := func(place int) memory {
		m := memoryOf(sessions[place].pid())
		if w := c.ways[place]; w.house != nil {
			m.add(memoryOf(w.house.daemon.Process.Pid), 1)
		}
		return m
	}
	text := strings.Repeat("y", stayingMessage-1000) // the message has more in it
	time.Sleep(atRest)
	err = c.inTurns(1, func(place int) error {
		c.ways[place].forgetPeak()
		forgetPeak(sessions[place].pid())
		stays[place] = gate(place)
		return sessions[place].call(governed.method, "write", text)
	})
	if err == nil {
		time.Sleep(longRest)
		for _, place := range c.entered {
			stays[place] = gate(place).minus(stays[place])
		}
	}
	if cerr := sessions.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	r.add("memory.stays", c.held(stays))
	return nil
}

// add adds a part of what another holds: one of so many.
func (m *memory) add(other memory, parts int) {
	m.resident += other.resident / float64(parts)
	m.share += other.share / float64(parts)
	m.peak += other.peak / float64(parts)
}

// minus is how much more m is than before.
func (m memory) minus(before memory) memory {
	return memory{resident: m.resident - before.resident, share: m.share - before.share, peak: m.peak - before.peak}
}
