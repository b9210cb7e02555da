package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rig"
)

// crowds is how often each number of shims is started.
const crowds = 3

// measureShims starts many shims at once, each before a server of its own, beside
// as many servers alone.
func measureShims(h *house, r *report, _ options) error {
	if err := h.manyPolicies(1000); err != nil {
		return err
	}
	for _, n := range []int{1, 50, 200} {
		var cpu, took, resident, share compared
		var daemon, each memory
		for turn := range crowds {
			order := []int{direct, ours}
			if turn%2 == 1 {
				order = []int{ours, direct}
			}
			for _, way := range order {
				c, err := h.crowd(way, n)
				if err != nil {
					return err
				}
				cpu[way], took[way] = append(cpu[way], c.cpu), append(took[way], c.took)
				resident[way], share[way] = append(resident[way], c.held.resident), append(share[way], c.held.share)
				daemon, each = c.daemon, c.each
			}
		}
		name := func(format string) string { return fmt.Sprintf(format, n) }
		r.add(name("shims.%d.cpu"), cpu.row())
		r.add(name("shims.%d.took"), took.row())
		holds := resident.row()
		holds.Share = median(share[ours])
		holds.Note = fmt.Sprintf("adds %s of PSS", number(median(share.added(ours))))
		r.add(name("memory.shims.%d"), holds)
		if n == 200 {
			r.add("memory.daemon.200", held(daemon))
			r.add("memory.shim.of200", held(each))
		}
	}
	return nil
}

// crowd is what many peers at once take.
type crowd struct {
	cpu    float64 // seconds until each has answered once
	took   float64 // ms
	held   memory  // of all of them, with their servers
	each   memory  // the mean of the peers, without their servers
	daemon memory
}

func (h *house) crowd(way, n int) (crowd, error) {
	h.settle()
	command := h.ways()[way]
	before := cpu(h.daemon.Process.Pid)
	began := time.Now()
	peers, errs := make([]*peer, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() {
			if peers[i], errs[i] = startPeer(command, h.env); errs[i] == nil {
				errs[i] = peers[i].call("tools/call", "read", "")
			}
		})
	}
	starting.Wait()
	c := crowd{took: millis(time.Since(began))}
	h.settle()
	spent := cpu(h.daemon.Process.Pid) - before
	for _, p := range peers {
		if p == nil {
			continue
		}
		own := memoryOf(p.pid())
		c.held.add(own, 1)
		c.each.add(own, n)
		spent += cpu(p.pid())
		for _, server := range rig.Children(p.pid()) {
			spent += cpu(server)
			c.held.add(memoryOf(server), 1)
		}
	}
	c.cpu, c.daemon = spent.Seconds(), memoryOf(h.daemon.Process.Pid)
	err := errors.Join(errs...)
	for _, p := range peers {
		if p != nil {
			err = errors.Join(err, p.close())
		}
	}
	return c, err
}

// add adds a part of what another holds: one of so many.
func (m *memory) add(other memory, parts int) {
	m.resident += other.resident / float64(parts)
	m.share += other.share / float64(parts)
}

// manyPolicies puts n Cedar policies in force, none of which is about what the
// peers call.
func (h *house) manyPolicies(n int) error {
	folder := filepath.Join(h.dir, "config/thoughtgate/policies")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	const perFile = 250 // policy files are limited
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
