package main

import (
	"fmt"
	"slices"
	"time"
)

// callsATurn is how many calls a way makes before the next has its turn.
const callsATurn = 400

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
func measureLatency(h *house, r *report, o options) error {
	all, err := h.latencies("tools/call", "read", o.turns)
	if err != nil {
		return err
	}
	d, f, ours := median(all[0]), median(all[1]), median(all[2])
	added, times := micros(ours-d), micros(ours-d)/max(0.1, micros(f-d))
	r.add(row{What: "governed call, recorded, p50", Unit: "µs", Direct: micros(d), Floor: micros(f), Ours: micros(ours),
		Note: fmt.Sprintf("adds %.0f µs, %.1f × what floor adds", added, times)}.reach("adds ≤ 75 µs or ≤ 5 × floor", added <= 75 || times <= 5))
	slow := micros(quantile(all[2], .99) - d)
	r.add(row{What: "governed call, recorded, p99", Unit: "µs",
		Direct: micros(quantile(all[0], .99)), Floor: micros(quantile(all[1], .99)), Ours: micros(quantile(all[2], .99)),
		Note: fmt.Sprintf("%.0f µs over direct's median", slow)}.reach("adds ≤ 250 µs on a quiet machine", slow <= 250))

	if all, err = h.latencies("ping", "", o.turns); err != nil {
		return err
	}
	d, f, ours = median(all[0]), median(all[1]), median(all[2])
	times = micros(ours-d) / max(0.1, micros(f-d))
	r.add(row{What: "message that passes, p50", Unit: "µs", Direct: micros(d), Floor: micros(f), Ours: micros(ours),
		Note: fmt.Sprintf("adds %.0f µs, %.2f × what floor adds", micros(ours-d), times)}.reach("adds ≤ 1.15 × floor", times <= 1.15))
	return nil
}

// latencies takes one call of each way after the other.
func (h *house) latencies(method, tool string, turns int) (all [3][]time.Duration, err error) {
	peers, err := h.open()
	if err != nil {
		return all, err
	}
	for range turns {
		for i, p := range peers {
			for range callsATurn {
				began := time.Now()
				if err := p.call(method, tool); err != nil {
					return all, err
				}
				all[i] = append(all[i], time.Since(began))
			}
		}
	}
	return all, closeAll(peers)
}

// measureAlways takes governed calls whose records are on stable storage before
// they go on, beside what it costs to put as much there and nothing else.
func measureAlways(h *house, r *report, o options) error {
	all, err := h.latencies("tools/call", "read", max(3, o.turns/3))
	if err != nil {
		return err
	}
	sync, err := h.syncs(200)
	if err != nil {
		return err
	}
	d, f, ours := median(all[0]), median(all[1]), median(all[2])
	over := micros(ours - d - sync)
	r.add(row{What: "governed call, on stable storage first, p50", Unit: "µs", Direct: micros(d), Floor: micros(f), Ours: micros(ours),
		Note: fmt.Sprintf("adds one sync (%.0f µs) and %.0f µs", micros(sync), over)}.reach("adds one sync and ≤ 100 µs", over <= 100))
	return nil
}

// measureThroughput keeps a number of calls in flight.
func measureThroughput(h *house, r *report, o options) error {
	for _, flight := range []int{32, 256} {
		peers, err := h.open()
		if err != nil {
			return err
		}
		var rates [3][]float64
		var used [3]time.Duration
		calls := 0
		for range o.turns {
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
		rate := median(rates[2])
		many := row{What: fmt.Sprintf("governed calls, %d in flight", flight), Unit: "1/s",
			Direct: median(rates[0]), Floor: median(rates[1]), Ours: rate, Note: fmt.Sprintf("%.2f × floor", rate/median(rates[1]))}
		per := func(d time.Duration) float64 { return d.Seconds() * 10_000 / float64(calls) }
		spent := row{What: fmt.Sprintf("CPU for 10,000 of them, %d in flight", flight), Unit: "s",
			Direct: per(used[0]), Floor: per(used[1]), Ours: per(used[2]), Note: "server and daemon included"}
		if flight == 32 {
			many, spent = many.reach("≥ 30,000", rate >= 30_000), spent.reach("≤ 0.6", per(used[2]) <= 0.6)
		}
		r.add(many, spent)
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

// measureStart starts each way and waits for the first answer.
func measureStart(h *house, r *report, o options) error {
	var all [3][]time.Duration
	for range 2 * o.turns {
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
	d, f, ours := median(all[0]), median(all[1]), median(all[2])
	r.add(row{What: "start to first answer", Unit: "ms", Direct: millis(d), Floor: millis(f), Ours: millis(ours),
		Note: fmt.Sprintf("adds %.1f ms", millis(ours-d))}.reach("adds ≤ 6 ms", ours-d <= 6*time.Millisecond))
	return nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measureMemory looks at the daemon and a shim that have done nothing yet, and when
// they have worked.
func measureMemory(h *house, r *report, _ options) error {
	idle, _ := resident(h.daemon.Process.Pid)
	r.add(row{What: "daemon resident, idle", Unit: "MB", Ours: idle}.reach("≤ 30", idle <= 30))
	p, err := startPeer(h.ways()[2], h.env)
	if err != nil {
		return err
	}
	if err := p.call("tools/call", "read"); err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	one, onePSS := resident(pid)
	if err := pipeline(p, 10_000, 32); err != nil {
		return err
	}
	worked, workedPSS := resident(pid)
	daemon, _ := resident(h.daemon.Process.Pid)
	if err := p.close(); err != nil {
		return err
	}
	r.add(row{What: "shim resident, after one call", Unit: "MB", Ours: one, Note: fmt.Sprintf("PSS %.1f", onePSS)}.reach("≤ 9", one <= 9))
	r.add(row{What: "shim resident, after 10,000 calls", Unit: "MB", Ours: worked, Note: fmt.Sprintf("PSS %.1f", workedPSS)}.reach("≤ 11", worked <= 11))
	r.add(row{What: "daemon resident, after 10,000 calls", Unit: "MB", Ours: daemon})
	return nil
}
