package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// measureShims starts many shims at once, each before a server of its own, beside
// as many servers alone.
func measureShims(h *house, r *report, _ options) error {
	if err := h.manyPolicies(1000); err != nil {
		return err
	}
	for _, n := range []int{1, 50, 200} {
		direct, err := h.crowd(h.ways()[0], n)
		if err != nil {
			return err
		}
		ours, err := h.crowd(h.ways()[2], n)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%d shims at once", n)
		took := row{What: what + ": CPU to start", Unit: "s", Direct: direct.cpu, Ours: ours.cpu}
		over := ours.rss - direct.rss
		holds := row{What: what + ": resident", Unit: "MB", Direct: direct.rss, Ours: ours.rss,
			Note: fmt.Sprintf("%.0f over direct, of which PSS %.0f", over, ours.pss-direct.pss)}
		daemon := row{What: what + ": daemon resident, 1,000 policies", Unit: "MB", Ours: ours.daemon}
		if n == 200 {
			took = took.reach("≤ 1.2", ours.cpu <= 1.2)
			holds = holds.reach("≤ 2,000 over direct", over <= 2000)
			daemon = daemon.reach("≤ 60", ours.daemon <= 60)
		}
		r.add(took, holds, row{What: what + ": all have answered", Unit: "ms", Direct: millis(direct.took), Ours: millis(ours.took)}, daemon)
	}
	return nil
}

// crowd is what many peers at once take.
type crowd struct {
	cpu      float64 // seconds until each has answered once
	rss, pss float64 // MB, of all of them, with their servers
	daemon   float64 // MB
	took     time.Duration
}

func (h *house) crowd(way []string, n int) (crowd, error) {
	before := cpu(h.daemon.Process.Pid)
	began := time.Now()
	peers, errs := make([]*peer, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() {
			if peers[i], errs[i] = startPeer(way, h.env); errs[i] == nil {
				errs[i] = peers[i].call("tools/call", "read")
			}
		})
	}
	starting.Wait()
	c := crowd{took: time.Since(began)}
	spent := cpu(h.daemon.Process.Pid) - before
	var err error
	for i, p := range peers {
		if errs[i] != nil {
			err = errs[i]
		}
		if p == nil {
			continue
		}
		for _, pid := range append(children(p.cmd.Process.Pid), p.cmd.Process.Pid) {
			spent += cpu(pid)
			rss, pss := resident(pid)
			c.rss, c.pss = c.rss+rss, c.pss+pss
		}
	}
	c.cpu = spent.Seconds()
	c.daemon, _ = resident(h.daemon.Process.Pid)
	for _, p := range peers {
		if p != nil {
			if cerr := p.close(); err == nil {
				err = cerr
			}
		}
	}
	return c, err
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
