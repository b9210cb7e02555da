package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// metersCalls is how many calls each way makes for one sample of latency.
const metersCalls = 100

// watchAll takes samples until the run is over.
func (w *world) watchAll() {
	ticker := time.NewTicker(w.plan.every)
	defer ticker.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
		if err := w.lookAll(); err != nil {
			w.Errorf("take a sample: %v", err)
			return
		}
	}
}

// lookAll takes one sample of everything.
func (w *world) lookAll() error {
	at := time.Since(w.begun)
	if err := w.lookDaemon(at); err != nil {
		return err
	}
	for _, c := range append(slices.Clone(w.agents), w.meters[2]) {
		if err := w.book.look(at, "shim "+c.name, 0, c.shimPID()); err != nil {
			return err
		}
	}
	if err := w.book.look(at, "the load", 0, os.Getpid()); err != nil {
		return err
	}
	files, bytes := w.folders()
	w.book.note(at, "state", 0, "files", float64(files))
	w.book.note(at, "state", 0, "bytes", float64(bytes))
	return w.lookLatency(at)
}

// shimPID is the shim that the caller's launcher has started.
func (c *caller) shimPID() int {
	if children := rig.Children(c.shim.PID()); len(children) > 0 {
		return children[0]
	}
	return 0
}

// lookDaemon writes down what the daemon holds, as the system and itself tell.
func (w *world) lookDaemon(at time.Duration) error {
	w.daemon.RLock()
	defer w.daemon.RUnlock()
	told, err := w.told()
	if err != nil {
		return err
	}
	w.book.note(at, "daemon", w.life, "heap", told["go_memstats_heap_alloc_bytes"])
	w.book.note(at, "daemon", w.life, "goroutines", told["go_goroutines"])
	return w.book.look(at, "daemon", w.life, w.fixture.Daemon.PID())
}

// told are the daemon's metrics that have one value.
func (w *world) told() (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	var samples []*pb.Sample
	if err := w.there(func() (err error) {
		samples, err = w.client.MetricSamples(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	told := map[string]float64{}
	for _, s := range samples {
		told[s.GetName()] = s.GetValue()
	}
	for _, name := range []string{"go_memstats_heap_alloc_bytes", "go_goroutines"} {
		if _, ok := told[name]; !ok {
			return nil, errors.New("the daemon's metrics have no " + name)
		}
	}
	return told, nil
}

// lookLatency measures calls through the gate beside calls through a copier, in
// turns. A sample in which the daemon was replaced is none.
func (w *world) lookLatency(at time.Duration) error {
	blows := w.blows.Load()
	var took [3][]time.Duration
	for range metersCalls {
		for i, c := range w.meters {
			begun := time.Now()
			if err := c.echo("calls measured", 100, 100); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	w.daemon.RLock()
	defer w.daemon.RUnlock()
	if w.blows.Load() != blows {
		return nil
	}
	for i := range took {
		slices.Sort(took[i])
	}
	over := func(of int) float64 { return float64(took[2][of]) / float64(took[1][of]) }
	w.book.note(at, "latency", w.life, "p50", over(metersCalls/2))
	w.book.note(at, "latency", w.life, "p99", over(metersCalls*99/100))
	return nil
}

// heap keeps a profile of the daemon's heap, if somebody wants the samples.
func (w *world) heap(name string) error {
	if w.plan.out == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(w.plan.out, name+".pprof"))
	if err != nil {
		return err
	}
	defer f.Close()
	return w.there(func() error { return w.client.Profile(w.Context(), "heap", nil, f) })
}

// kept is what should be again as it was when the load has gone.
func (w *world) kept() (map[string]float64, error) {
	told, err := w.told()
	if err != nil {
		return nil, err
	}
	all := map[string]float64{"goroutines of the daemon": told["go_goroutines"]}
	pids := map[string]int{"the daemon": w.fixture.Daemon.PID()}
	for _, c := range w.agents {
		pids["the shim of "+c.name] = c.shimPID()
	}
	for who, pid := range pids {
		use, err := rig.Use(pid)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", who, err)
		}
		all["descriptors of "+who] = float64(use.Descriptors)
		all["threads of "+who] = float64(use.Threads)
	}
	return all, nil
}

// room is how much more of anything there may be than before the load: threads do
// not end when they have nothing to do, and a database opens files as it needs them.
const room = 20

// settled waits until the fixture keeps no more than before.
func (w *world) settled(before map[string]float64) error {
	return w.eventually("all is as before the load", func() error {
		now, err := w.kept()
		for what, n := range now {
			if n > before[what]+room {
				err = errors.Join(err, fmt.Errorf("%.0f %s, %.0f before", n, what, before[what]))
			}
		}
		return err
	})
}
