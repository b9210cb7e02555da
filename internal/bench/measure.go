package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	callsATurn = 400
	largeText  = 8 << 20
)

func median[T int64 | float64 | time.Duration](all []T) T {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func quantile(all []time.Duration, q float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(float64(len(all))*q))]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// measureLatency takes one call after the other: governed calls, and messages
// that pass unjudged.
func measureLatency(h *house, r *report, turns int) error {
	for _, kind := range []struct{ what, method, tool string }{
		{"governed call, recorded, p50", "tools/call", "read"},
		{"message that passes, p50", "ping", ""},
	} {
		peers, err := h.open()
		if err != nil {
			return err
		}
		var all [3][]time.Duration
		for range turns {
			for i, p := range peers {
				for range callsATurn {
					began := time.Now()
					if err := p.call(kind.method, kind.tool); err != nil {
						return err
					}
					all[i] = append(all[i], time.Since(began))
				}
			}
		}
		if err := closeAll(peers); err != nil {
			return err
		}
		d, f, o := median(all[0]), median(all[1]), median(all[2])
		added := micros(o - d)
		r.add(row{What: kind.what, Unit: "µs", Direct: micros(d), Floor: micros(f), Ours: micros(o),
			Note: fmt.Sprintf("added %.0f µs, %.1f × what floor adds", added, added/max(0.1, micros(f-d)))})
		r.add(row{What: strings.Replace(kind.what, "p50", "p99", 1), Unit: "µs",
			Direct: micros(quantile(all[0], .99)), Floor: micros(quantile(all[1], .99)), Ours: micros(quantile(all[2], .99))})
	}
	return nil
}

// measureThroughput keeps a number of calls in flight.
func measureThroughput(h *house, r *report, turns int) error {
	for _, flight := range []int{32, 256} {
		peers, err := h.open()
		if err != nil {
			return err
		}
		var rates [3][]float64
		var used [3]time.Duration
		calls := 0
		for range turns {
			for i, p := range peers {
				before := h.used(i, p)
				began := time.Now()
				if err := pipeline(p, 10*callsATurn, flight); err != nil {
					return err
				}
				rates[i] = append(rates[i], 10*callsATurn/time.Since(began).Seconds())
				used[i] += h.used(i, p) - before
			}
			calls += 10 * callsATurn
		}
		if err := closeAll(peers); err != nil {
			return err
		}
		r.add(row{What: fmt.Sprintf("governed calls, %d in flight", flight), Unit: "1/s",
			Direct: median(rates[0]), Floor: median(rates[1]), Ours: median(rates[2])})
		per := func(d time.Duration) float64 { return d.Seconds() * 10_000 / float64(calls) }
		r.add(row{What: fmt.Sprintf("CPU for 10,000 of them, %d in flight", flight), Unit: "s",
			Direct: per(used[0]), Floor: per(used[1]), Ours: per(used[2]), Note: "server included"})
	}
	return nil
}

// used is the processor time of all that takes part in a way.
func (h *house) used(way int, p *peer) time.Duration {
	total := cpu(p.cmd.Process.Pid)
	for _, child := range children(p.cmd.Process.Pid) {
		total += cpu(child)
	}
	if way == 2 {
		total += cpu(h.daemon.Process.Pid)
	}
	return total
}

// pipeline makes n calls of which flight are open at a time.
func pipeline(p *peer, n, flight int) error {
	room := make(chan struct{}, flight)
	sent := make(chan error, 1)
	go func() {
		for range n {
			room <- struct{}{}
			if err := p.send("tools/call", "read", ""); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for range n {
		if _, err := p.receive(); err != nil {
			return err
		}
		<-room
	}
	return <-sent
}

// measureLarge moves large results and large arguments.
func measureLarge(h *house, r *report, turns int) error {
	peers, err := h.open()
	if err != nil {
		return err
	}
	var down, up [3][]float64
	text := strings.Repeat("y", largeText/8)
	for range max(3, turns/3) {
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
	r.add(row{What: "result of 8 MB", Unit: "MB/s", Direct: median(down[0]), Floor: median(down[1]), Ours: median(down[2])})
	r.add(row{What: "arguments of 1 MB", Unit: "MB/s", Direct: median(up[0]), Floor: median(up[1]), Ours: median(up[2])})
	r.add(row{What: "shim resident after that", Unit: "MB", Ours: rss})
	return nil
}

// measureStart starts each way and waits for the first answer.
func measureStart(h *house, r *report, turns int) error {
	var all [3][]time.Duration
	for range turns {
		for i, way := range h.ways() {
			began := time.Now()
			p, err := startPeer(way, h.env)
			if err != nil {
				return err
			}
			if err := p.call("tools/call", "read"); err != nil {
				return err
			}
			all[i] = append(all[i], time.Since(began))
			if err := p.close(); err != nil {
				return err
			}
		}
	}
	ms := func(d time.Duration) float64 { return micros(d) / 1000 }
	d, f, o := median(all[0]), median(all[1]), median(all[2])
	r.add(row{What: "start to first answer", Unit: "ms", Direct: ms(d), Floor: ms(f), Ours: ms(o), Note: fmt.Sprintf("added %.1f ms", ms(o-d))})
	return nil
}

// measureMemory looks at a shim that has done nothing yet, one that has worked,
// and the daemon.
func measureMemory(h *house, r *report, _ int) error {
	way := h.ways()[2]
	p, err := startPeer(way, h.env)
	if err != nil {
		return err
	}
	if err := p.call("tools/call", "read"); err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	idle, idlePSS := resident(pid)
	if err := pipeline(p, 10_000, 32); err != nil {
		return err
	}
	worked, _ := resident(pid)
	daemon, _ := resident(h.daemon.Process.Pid)
	if err := p.close(); err != nil {
		return err
	}
	r.add(row{What: "shim resident, one call", Unit: "MB", Ours: idle, Note: fmt.Sprintf("PSS %.1f", idlePSS)})
	r.add(row{What: "shim resident, 10,000 calls", Unit: "MB", Ours: worked})
	r.add(row{What: "daemon resident after all this", Unit: "MB", Ours: daemon})
	return nil
}
