package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// The ways that are always compared, by their place in fixture.ways. The first two do not involve
// ThoughtGate. The base, if a run has one, and its peers follow.
const (
	direct = iota // the server alone
	floor         // the server behind a program that copies bytes
	ours          // the server behind tg-shim and thoughtgated
	others        // place of the first other way
)

// baseName is the name of the way through the programs of -base.
const baseName = "base"

// way is one way from the agent to the server.
type way struct {
	name    string
	command []string // including that of the server
	env     []string
	fixture *fixture // the fixture whose daemon is used; nil for none
	folders string   // for a peer, where each session gets a folder; empty otherwise
	address string   // of an HTTP server that the agent speaks to itself; empty if it starts command
	beside  []int    // processes of the way that are no descendants of command
	greets  bool     // its sessions begin with a handshake
}

func (w way) isPeer() bool { return w.folders != "" }

// ways returns all ways that a run compares.
func (h *fixture) ways() []way {
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

// gated returns the way to server through the tg-shim and the daemon of h.
func (h *fixture) gated(name string, server []string) way {
	shim := []string{filepath.Join(h.bin, "tg-shim"), "--server-id", "bench", "--"}
	return way{name: name, command: slices.Concat(shim, server), env: h.env, fixture: h}
}

// orders returns the orders in which n ways take their turns. Each way is first equally often
// and follows each other way equally often, so that none always finds the machine in the state
// that the same other left.
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
		if n%2 == 1 { // balanced only together with their mirror images
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
	entered []int         // places of the ways that take part
	failed  map[int]error // errors of the base and of peers that failed
}

func (h *fixture) contest() *contest { return among(h.ways()...) }

// among returns a contest of other ways than those of all measurements.
func among(ways ...way) *contest {
	c := &contest{ways: ways, failed: map[int]error{}}
	for place := range ways {
		c.entered = append(c.entered, place)
	}
	return c
}

// without removes ways.
func (c *contest) without(left func(place int) bool) *contest {
	c.entered = slices.DeleteFunc(c.entered, left)
	return c
}

// inTurns calls take for each way, n times. If the base or a peer fails, it has no more turns
// and the report says why: its limits are not known beforehand. A failure of any other way ends
// the contest.
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

// row returns the row of figures, with what our gate adds.
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

// rate returns the row of figures of which more is better. Their ratio is to the floor.
func (c *contest) rate(figures compared) row {
	r := c.row(figures)
	r.Ratio, r.Added = figures.timesFloor(), nil
	for i := range r.Others {
		r.Others[i].Added = nil
	}
	return r
}

// crew holds a warm session for each way, by its place.
type crew map[int]*session

// open starts the sessions. One that does not answer is an error here: its command is wrong.
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

// used returns the processor time of all processes of a way, including the server but not this
// program.
func (w way) used(s *session) time.Duration {
	total, pids := w.daemonCPU(), w.beside
	if s.cmd != nil {
		pids = append(family(s.pid()), pids...)
	}
	for _, pid := range pids {
		total += cpu(pid)
	}
	return total
}

// daemonCPU returns the processor time of a way's daemon; zero if it has none.
func (w way) daemonCPU() time.Duration {
	if w.fixture == nil {
		return 0
	}
	return cpu(w.fixture.daemon.Process.Pid)
}

// family returns a process and all its descendants.
func family(pid int) []int {
	all := []int{pid}
	for _, child := range rig.Children(pid) {
		all = append(all, family(child)...)
	}
	return all
}

// settle waits until the daemon of a way has finished its background work, such as filling its
// index, so that this does not fall into the turn of another way.
func (w way) settle() {
	if w.fixture == nil {
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
