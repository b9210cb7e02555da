package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// quota is the measured extension: an included one in Go that needs nothing else and records
// each call in its memory in the daemon.
const quota = "quota"

// callsHooked is the number of calls with the hook in a turn. The extension allows 100,000 in
// an hour.
const callsHooked = 200

// measureExtension measures calls in h, which has no extension, and calls in another fixture
// where an extension sees each of them; and how long the extension takes to start.
func measureExtension(h *fixture, r *report, o options) error {
	with, err := newFixture(h.bin, "")
	if err != nil {
		return err
	}
	defer with.close()
	with.level = "debug" // so that the log has the time of a start
	if _, err := with.restarts(1); err != nil {
		return err
	}
	if err := with.install(quota); err != nil {
		return err
	}
	if err := with.tgctl("ext", "config", quota, "set", "limit", "100000"); err != nil {
		return err
	}
	if err := with.restartExtension(o.turns); err != nil {
		return err
	}
	if err := with.stop(); err != nil { // its log is complete then
		return err
	}
	spawns, handshakes, err := lives(with.log.String())
	if err != nil {
		return err
	}
	r.add("extension.spawn", row{Ours: over(spawns)})
	r.add("extension.handshake", row{Ours: over(handshakes)})
	with.level = "info"
	if _, err := with.start(); err != nil {
		return err
	}
	return measureHook(h, with, r, o)
}

// install installs an extension that was built with the programs.
func (h *fixture) install(name string) error {
	folder := filepath.Join(h.bin, "extensions", name)
	if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
		return fmt.Errorf("the extension is not built (make extensions): %w", err)
	}
	return h.tgctl("ext", "install", "--yes", folder)
}

// restartExtension has the daemon restart the extension n times.
func (h *fixture) restartExtension(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.WithSocket(h.control()))
	if err != nil {
		return err
	}
	defer c.Close()
	for range n {
		if _, err := c.RestartProcess(ctx, &pb.RestartProcessRequest{Kind: "extension", Name: quota}); err != nil {
			return fmt.Errorf("restart the extension: %w", err)
		}
	}
	return nil
}

// life matches the line of the daemon's log about a started program.
var life = regexp.MustCompile(`msg="the program runs" .*spawn=(\S+) handshake=(\S+)`)

// lives returns how long each start in a log of the daemon took, in ms.
func lives(log string) (spawns, handshakes []float64, err error) {
	for _, m := range life.FindAllStringSubmatch(log, -1) {
		spawn, err := time.ParseDuration(m[1])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", m[0], err)
		}
		handshake, err := time.ParseDuration(m[2])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", m[0], err)
		}
		spawns, handshakes = append(spawns, millis(spawn)), append(handshakes, millis(handshake))
	}
	if len(spawns) == 0 {
		return nil, nil, fmt.Errorf("the daemon's log tells of no start: %s", log)
	}
	return spawns, handshakes, nil
}

// measureHook makes the same calls without and with the hook, in turns.
func measureHook(without, with *fixture, r *report, o options) error {
	var sessions [2]*session
	var all [2][]float64
	defer func() {
		for _, s := range sessions {
			if s != nil {
				_ = s.close() // it is not needed any more
			}
		}
	}()
	for i, h := range []*fixture{without, with} {
		s, err := h.ways()[ours].start()
		if err != nil {
			return err
		}
		sessions[i] = s
	}
	order := []int{0, 1}
	for range o.turns {
		for _, i := range order {
			if _, err := sessions[i].pipeline(governed.method, governed.tool, callsHooked/4, 1); err != nil {
				return err
			}
			took, err := sessions[i].pipeline(governed.method, governed.tool, callsHooked, 1)
			if err != nil {
				return err
			}
			all[i] = append(all[i], millis(quantile(took, .5)))
		}
		slices.Reverse(order)
	}
	v := row{Ours: over(all[1])}
	var added []float64
	for turn := range all[1] {
		added = append(added, all[1][turn]-all[0][turn])
	}
	v.Added = over(added)
	v.Note = fmt.Sprintf("%s without it; it writes each call down", number(median(all[0])))
	r.add("extension.message", v)
	return nil
}
