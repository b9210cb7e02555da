package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rig"
)

// The ways that are compared. The first two know nothing of ThoughtGate.
const (
	direct = iota // the server alone
	floor         // the server behind a program that copies bytes
	ours          // the server behind tg-shim and thoughtgated
	ways          // how many they are
)

// orders are those in which the ways take their turns: each way follows each of the
// others as often, so that none always finds the machine as the same one left it.
var orders = [][ways]int{
	{direct, floor, ours}, {ours, floor, direct}, {floor, ours, direct},
	{direct, ours, floor}, {ours, direct, floor}, {floor, direct, ours},
}

// inTurns has each way take its turn, n times.
func inTurns(n int, take func(way int) error) error {
	for turn := range n {
		for _, way := range orders[turn%len(orders)] {
			if err := take(way); err != nil {
				return err
			}
		}
	}
	return nil
}

// ways are the commands that are compared.
func (h *house) ways() [ways][]string {
	server := []string{h.self, "server"}
	return [ways][]string{
		direct: server,
		floor:  slices.Concat([]string{h.self, "floor"}, server),
		ours:   slices.Concat([]string{filepath.Join(h.bin, "tg-shim"), "--server-id", "bench", "--"}, server),
	}
}

// crew is a warm peer for each way.
type crew [ways]*peer

func (h *house) open() (crew, error) {
	var peers crew
	for i, way := range h.ways() {
		p, err := startPeer(way, h.env)
		if err != nil {
			return peers, errors.Join(err, peers.close())
		}
		peers[i] = p
		if _, err := p.pipeline("tools/call", "read", 100, 1); err != nil {
			return peers, errors.Join(fmt.Errorf("%s: %w", way[0], err), peers.close())
		}
	}
	return peers, nil
}

func (c crew) close() error {
	var err error
	for _, p := range c {
		if p != nil {
			err = errors.Join(err, p.close())
		}
	}
	return err
}

// used is the processor time of all that takes part in a way, the server included
// and this program not.
func (h *house) used(way int, p *peer) time.Duration {
	total := cpu(p.cmd.Process.Pid)
	for _, child := range rig.Children(p.cmd.Process.Pid) {
		total += cpu(child)
	}
	if way == ours {
		total += cpu(h.daemon.Process.Pid)
	}
	return total
}

// settle waits until the daemon has done what it does behind the calls, as filling
// its index: that is theirs, and must not fall into the turn of another way.
func (h *house) settle() {
	const step, most = 10 * time.Millisecond, 2 * time.Second
	before := cpu(h.daemon.Process.Pid)
	for began := time.Now(); time.Since(began) < most; {
		time.Sleep(step)
		now := cpu(h.daemon.Process.Pid)
		if now-before < step/20 {
			return
		}
		before = now
	}
}
