package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rig"
)

// The ways that are always compared, by their place in house.ways. The first two
// know nothing of ThoughtGate. Behind them come the base, if a run has one, and its
// peers.
const (
	direct = iota // the server alone
	floor         // the server behind a program that copies bytes
	ours          // the server behind tg-shim and thoughtgated
	others        // the place of the first other way
)

// baseName is what the way through the programs of -base is called.
const baseName = "base"

// way is one way from the agent to the server.
type way struct {
	name    string
	command []string // the server's own included
	env     []string
	house   *house // whose daemon takes part; nil for none
	folders string // in which each session gets a folder of its own: that of a peer; empty otherwise
}

func (w way) isPeer() bool { return w.folders != "" }

// ways are all that are compared in a run.
func (h *house) ways() []way {
	server := []string{h.self, "server"}
	behind := func(name string, gate ...string) way {
		return way{name: name, command: slices.Concat(gate, server), env: h.env}
	}
	all := []way{
		direct: behind("direct"),
		floor:  behind("floor", h.self, "floor"),
		ours:   h.gated("ours", server),
	}
	if h.base != nil {
		all = append(all, h.base.gated(baseName, server))
	}
	for _, p := range h.peers {
		w := behind(p.name, p.command...)
		w.folders = h.dir
		all = append(all, w)
	}
	return all
}

// gated is the way to server through the shim and the daemon of h.
func (h *house) gated(name string, server []string) way {
	shim := []string{filepath.Join(h.bin, "tg-shim"), "--server-id", "bench", "--"}
	return way{name: name, command: slices.Concat(shim, server), env: h.env, house: h}
}

// orders are those in which n ways take their turns: each begins as often as any
// other, and follows each of the others as often, so that none always finds the
// machine as the same one left it.
func orders(n int) [][]int {
	var all [][]int
	for first := range n {
		order := make([]int, n)
		for i := range order { // first, the next, the one before, the next but one, and so on
			step := (i + 1) / 2
			if i%2 == 0 {
				step = n - step
			}
			order[i] = (first + step) % n
		}
		all = append(all, order)
		if n%2 == 1 { // then only together with their mirror images
			order = slices.Clone(order)
			slices.Reverse(order)
			all = append(all, order)
		}
	}
	return all
}

// contest is a measurement in which ways take turns.
type contest struct {
	ways    []way
	entered []int         // places of those that take part
	failed  map[int]error // of the base and of peers that could not do what was measured
}

func (h *house) contest() *contest {
	c := &contest{ways: h.ways(), failed: map[int]error{}}
	for place := range c.ways {
		c.entered = append(c.entered, place)
	}
	return c
}

// without takes ways out.
func (c *contest) without(left func(place int) bool) *contest {
	c.entered = slices.DeleteFunc(c.entered, left)
	return c
}

// inTurns has each way take its turn, n times. The base, or a peer, that fails has no
// more turns, and the report says why: what it can't do is not known beforehand. Any
// other way ends the contest.
func (c *contest) inTurns(n int, take func(place int) error) error {
	all := orders(len(c.entered))
	for turn := range n {
		for _, i := range all[turn%len(all)] {
			place := c.entered[i]
			if c.failed[place] != nil {
				continue
			}
			err := take(place)
			switch {
			case err == nil:
			case place >= others:
				c.failed[place] = err
			default:
				return fmt.Errorf("%s: %w", c.ways[place].name, err)
			}
		}
	}
	return nil
}

// row is what figures have found: of ours what it adds, too.
func (c *contest) row(figures compared) row {
	r := figures.row()
	for _, place := range c.entered {
		if place < others {
			continue
		}
		o := other{Name: c.ways[place].name}
		if err := c.failed[place]; err != nil {
			o.Failed = err.Error()
		} else {
			o.Figure, o.Added = over(figures[place]), over(figures.added(place))
		}
		r.Others = append(r.Others, o)
	}
	return r
}

// rate is the row of figures of which more is better: their ratio is to the floor's.
func (c *contest) rate(figures compared) row {
	r := c.row(figures)
	r.Ratio, r.Added = figures.timesFloor(), nil
	for i := range r.Others {
		r.Others[i].Added = nil
	}
	return r
}

// crew is a warm session for each way, by its place.
type crew map[int]*session

// open starts them. One that does not answer is an error here: its command is not
// right.
func (c *contest) open() (crew, error) {
	sessions := crew{}
	for _, place := range c.entered {
		s, err := c.ways[place].start()
		if err == nil {
			sessions[place] = s
			_, err = s.pipeline(governed.method, governed.tool, warmCalls, 1)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", c.ways[place].name, err), sessions.close())
		}
	}
	return sessions, nil
}

func (c crew) close() error {
	var err error
	for s := range maps.Values(c) {
		err = errors.Join(err, s.close())
	}
	return err
}

// used is the processor time of all that takes part in a way, the server included
// and this program not.
func (w way) used(s *session) time.Duration {
	var total time.Duration
	for _, pid := range family(s.pid()) {
		total += cpu(pid)
	}
	return total + w.daemonCPU()
}

// daemonCPU is the processor time of a way's daemon; zero where it has none.
func (w way) daemonCPU() time.Duration {
	if w.house == nil {
		return 0
	}
	return cpu(w.house.daemon.Process.Pid)
}

// family is a process and all that descend from it.
func family(pid int) []int {
	all := []int{pid}
	for _, child := range rig.Children(pid) {
		all = append(all, family(child)...)
	}
	return all
}

// settle waits until the daemon of a way has done what it does behind the calls, as
// filling its index: that is theirs, and must not fall into the turn of another way.
func (w way) settle() {
	if w.house == nil {
		return
	}
	const step, most = 10 * time.Millisecond, 2 * time.Second
	before := w.daemonCPU()
	for began := time.Now(); time.Since(began) < most; {
		time.Sleep(step)
		now := w.daemonCPU()
		if now-before < step/20 {
			return
		}
		before = now
	}
}
