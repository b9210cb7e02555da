package main

import (
	"fmt"
	"strings"
	"time"
)

const largeText = 8 << 20

// measureLarge moves large results and large arguments.
func measureLarge(h *house, r *report, o options) error {
	peers, err := h.open()
	if err != nil {
		return err
	}
	var down, up [3][]float64
	text := strings.Repeat("y", largeText/8)
	for range max(5, o.turns/2) {
		for i, p := range peers {
			began := time.Now()
			if err := p.call("tools/call", fmt.Sprintf("size-%d", largeText)); err != nil {
				return err
			}
			down[i] = append(down[i], largeText/1e6/time.Since(began).Seconds())
			began = time.Now()
			if err := p.send("tools/call", "write", text); err != nil {
				return err
			}
			if _, err := p.receive(); err != nil {
				return err
			}
			up[i] = append(up[i], float64(len(text))/1e6/time.Since(began).Seconds())
		}
	}
	rss, _ := resident(peers[2].cmd.Process.Pid)
	if err := closeAll(peers); err != nil {
		return err
	}
	d, f, ours := median(down[0]), median(down[1]), median(down[2])
	r.add(row{What: "result of 8 MB", Unit: "MB/s", Direct: d, Floor: f, Ours: ours,
		Note: fmt.Sprintf("%.2f × floor", ours/f)}.reach("≥ 0.5 × floor", ours >= f/2))
	d, f, ours = median(up[0]), median(up[1]), median(up[2])
	r.add(row{What: "arguments of 1 MB", Unit: "MB/s", Direct: d, Floor: f, Ours: ours, Note: fmt.Sprintf("%.2f × floor", ours/f)})
	r.add(row{What: "shim resident after results of 8 MB", Unit: "MB", Ours: rss}.reach("≤ 15", rss <= 15))
	return measureAfterFive(h, r)
}

// measureAfterFive looks at a shim that has carried one message of 5 MB.
func measureAfterFive(h *house, r *report) error {
	p, err := startPeer(h.ways()[2], h.env)
	if err != nil {
		return err
	}
	if err := p.call("tools/call", "size-5000000"); err != nil {
		return err
	}
	rss, _ := resident(p.cmd.Process.Pid)
	if err := p.close(); err != nil {
		return err
	}
	r.add(row{What: "shim resident after a result of 5 MB", Unit: "MB", Ours: rss}.reach("≤ 15", rss <= 15))
	return nil
}
