package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	// atRest is how long after its work a process has released what it does not keep.
	atRest = 2 * time.Second
	// longRest is how long after a large message the remaining memory is measured.
	longRest = 10 * time.Second
	// stayingMessage is the size of that message.
	stayingMessage = 10_000_000
)

// work is what is done before memory is measured.
type work struct {
	name       string // name of the figure
	tool, text string // text is in the arguments
	n, flight  int
	daemon     string // name of the figure of the daemon's memory; empty for none
}

// do makes the calls of k.
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

// gates returns a contest of the ways that have a gate.
func (h *fixture) gates() *contest {
	return h.contest().without(func(place int) bool { return place < ours })
}

// held returns the row of the memory of processes, by the place of their way.
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

// daemons returns the memory of the daemons of the ways.
func (c *contest) daemons() map[int]memory {
	found := map[int]memory{}
	for _, place := range c.entered {
		if h := c.ways[place].fixture; h != nil {
			found[place] = memoryOf(h.daemon.Process.Pid)
		}
	}
	return found
}

// forgetPeak resets the peak memory of a way's daemon.
func (w way) forgetPeak() {
	if w.fixture != nil {
		forgetPeak(w.fixture.daemon.Process.Pid)
	}
}

// measureMemory measures the memory of the daemon and, for each kind of work, of a tg-shim, a
// moment after the work. The peak is that during the work.
func measureMemory(h *fixture, r *report, _ options) error {
	c := h.gates()
	for _, w := range c.ways { // a start briefly takes more than is kept
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

// measureWork has each gate do k and measures its memory and that of its daemon.
func (h *fixture) measureWork(r *report, k work) error {
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
			if w.fixture != nil {
				daemons[place] = memoryOf(w.fixture.daemon.Process.Pid)
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

// measureStays sends a large message through each gate and measures, a while later, how much
// more memory all processes of the gate have than before.
func (h *fixture) measureStays(r *report) error {
	c, stays := h.gates(), map[int]memory{}
	sessions, err := c.open()
	if err != nil {
		return err
	}
	gate := func(place int) memory {
		m := memoryOf(sessions[place].pid())
		if w := c.ways[place]; w.fixture != nil {
			m.add(memoryOf(w.fixture.daemon.Process.Pid), 1)
		}
		return m
	}
	text := strings.Repeat("y", stayingMessage-1000) // the message contains more than the text
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

// add adds a fraction of other: one of parts.
func (m *memory) add(other memory, parts int) {
	m.resident += other.resident / float64(parts)
	m.share += other.share / float64(parts)
	m.peak += other.peak / float64(parts)
}

// minus returns how much more m is than before.
func (m memory) minus(before memory) memory {
	return memory{resident: m.resident - before.resident, share: m.share - before.share, peak: m.peak - before.peak}
}
