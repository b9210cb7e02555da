package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// crowds is how often each number of servers is started.
const crowds = 3

// mostPeers is the maximum number of sessions of a peer that are started at once: each may be a
// virtual machine.
const mostPeers = 50

// measureShims starts many servers at once, each behind its own tg-shim, and for comparison as
// many servers alone.
func measureShims(h *fixture, r *report, _ options) error {
	for _, w := range h.ways() {
		if w.fixture != nil {
			if err := w.fixture.manyPolicies(1000); err != nil {
				return err
			}
		}
	}
	idle := h.contest().daemons()
	for _, n := range []int{1, 50, 200} {
		if err := h.measureCrowd(r, n, idle); err != nil {
			return err
		}
	}
	return nil
}

// measureCrowd starts n sessions of each way. idle is the memory of their daemons before.
func (h *fixture) measureCrowd(r *report, n int, idle map[int]memory) error {
	c := h.contest()
	c.without(func(place int) bool { return place == floor || n > mostPeers && c.ways[place].isPeer() })
	cpu, took, share, resident := compared{}, compared{}, compared{}, compared{}
	daemons, each := map[int]memory{}, map[int]memory{}
	err := c.inTurns(crowds, func(place int) error {
		found, err := c.ways[place].crowd(n)
		if err != nil {
			return err
		}
		each[place] = found.each
		own := found.each // including its share of the daemon's growth
		if c.ways[place].fixture != nil {
			daemons[place] = found.daemon
			grown := found.daemon.minus(idle[place])
			found.held.add(grown, 1)
			own.add(grown, n)
		}
		cpu.note(place, found.cpu)
		took.note(place, found.took)
		share.note(place, found.held.share)
		resident.note(place, own.resident)
		return nil
	})
	if err != nil {
		return err
	}
	name := func(format string) string { return fmt.Sprintf(format, n) }
	r.add(name("shims.%d.cpu"), c.row(cpu))
	r.add(name("shims.%d.took"), c.row(took))
	r.add(name("memory.servers.%d"), c.row(share))
	switch n {
	case mostPeers:
		delete(resident, direct) // it has no process in place of tg-shim
		r.add("memory.server", c.row(resident))
	case 200:
		r.add("memory.daemon.200", c.held(daemons))
		delete(each, direct)
		r.add("memory.shim.of200", c.held(each))
	}
	return nil
}

// crowd is the cost of many sessions at once.
type crowd struct {
	cpu    float64 // seconds until each has answered once
	took   float64 // ms
	held   memory  // memory of all of them, with their servers
	each   memory  // mean memory of a tg-shim, without its server
	daemon memory
}

// crowd starts n sessions of a way at once.
func (w way) crowd(n int) (crowd, error) {
	w.settle()
	before := w.daemonCPU()
	began := time.Now()
	sessions, errs := make([]*session, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() {
			if sessions[i], errs[i] = w.start(); errs[i] == nil {
				errs[i] = sessions[i].call("tools/call", "read", "")
			}
		})
	}
	starting.Wait()
	c := crowd{took: millis(time.Since(began))}
	w.settle()
	spent := w.daemonCPU() - before
	sessions = slices.DeleteFunc(sessions, func(s *session) bool { return s == nil })
	for _, s := range sessions {
		for _, pid := range family(s.pid()) {
			spent += cpu(pid)
		}
	}
	c.cpu = spent.Seconds()
	time.Sleep(atRest)
	for _, s := range sessions {
		c.each.add(memoryOf(s.pid()), n)
		for _, pid := range family(s.pid()) {
			c.held.add(memoryOf(pid), 1)
		}
	}
	if w.fixture != nil {
		c.daemon = memoryOf(w.fixture.daemon.Process.Pid)
	}
	err := errors.Join(errs...)
	for _, s := range sessions {
		err = errors.Join(err, s.close())
	}
	return c, err
}

// manyPolicies puts n Cedar policies in force, none of which matches what the sessions call.
func (h *fixture) manyPolicies(n int) error {
	folder := filepath.Join(h.dir, "config/thoughtgate/policies")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	const perFile = 250 // policy files are limited in size
	for at := 0; at < n; at += perFile {
		var b strings.Builder
		for i := at; i < min(at+perFile, n); i++ {
			fmt.Fprintf(&b, "forbid (principal, action == ThoughtGate::Action::\"s%d/t%d\", resource) when { context.arguments has n };\n", i%50, i)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("p%05d.cedar", at)), []byte(b.String()), 0o600); err != nil {
			return err
		}
	}
	h.config = "cedar: {policies: [\"policies/*.cedar\"]}\n"
	if err := h.furnish(); err != nil {
		return err
	}
	if err := h.stop(); err != nil {
		return err
	}
	_, err := h.start()
	return err
}
