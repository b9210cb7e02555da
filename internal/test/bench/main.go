// Bench measures the cost of the gate. It compares a governed call through tg-shim and
// thoughtgated with the same call to the server alone (direct), through a program that only
// copies bytes between pipes (floor), and, if the run names them, through the programs of
// another commit (base) and through other gates (peers).
//
// They take short turns, one after the other, so that noise of the machine affects all alike;
// the report has medians and ratios of medians. Servers, copier, client and agent are this
// program itself.
//
// The table figures lists what is measured, the table measurements what measures it.
//
// Usage:
//
//	go run ./internal/test/bench [-bin DIR] [-base DIR] [-peer NAME=COMMAND]... [-turns N] [-only REGEXP]
//		[-records N] [-json FILE] [-markdown PAGE] [-cpuprofile DIR]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "server":
			serve(os.Stdin, os.Stdout)
			return
		case "floor":
			os.Exit(copyBetween(os.Args[2:]))
		case "web":
			fmt.Fprintln(os.Stderr, "bench:", serveWeb(os.Args[2:]))
			os.Exit(1)
		case "agent":
			os.Exit(launched())
		}
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measurements are the measurements of a run, in order. Each has a fixture of its own, so that
// none is affected by another.
var measurements = []struct {
	name     string
	config   string // appended to the configuration
	restarts bool   // the daemon is restarted meanwhile or does nothing, so no profile of it is taken
	take     func(*fixture, *report, options) error
}{
	{name: "latency", take: measureLatency},
	{name: "always", config: "audit: {sync: always}\n", take: measureAlways},
	{name: "throughput", take: measureThroughput},
	{name: "remote", take: measureRemote},
	{name: "large", take: measureLarge},
	{name: "start", restarts: true, take: measureStart},
	{name: "memory", take: measureMemory},
	{name: "shims", restarts: true, take: measureShims},
	{name: "decision", restarts: true, take: measureDecision},
	{name: "log", config: "audit: {max_size: 16GiB}\n", restarts: true, take: measureLog}, // of which one server may fill a fourth
	{name: "wrap", restarts: true, take: measureWrap},
	{name: "hook", take: measureAgentHook},
	{name: "extension", take: measureExtension},
}

func names() []string {
	var all []string
	for _, m := range measurements {
		all = append(all, m.name)
	}
	return all
}

func run(o options) error {
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o700); err != nil {
			return err
		}
	}
	r, err := newReport(o)
	if err != nil {
		return err
	}
	all := true
	for _, m := range measurements {
		if !o.only.MatchString(m.name) {
			all = false
			continue
		}
		profile := ""
		if o.profiles != "" && !m.restarts {
			profile = filepath.Join(o.profiles, m.name)
		}
		take := func(h *fixture) error { return m.take(h, r, o) }
		if err := measure(o, m.config, profile, take); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return r.finish(o, all)
}

func newReport(o options) (*report, error) {
	build, err := version(o.bin)
	if err != nil {
		return nil, err
	}
	r := &report{When: time.Now().UTC().Truncate(time.Second), Command: o.command, Machine: machine(), Turns: o.turns, Quiet: listen(), live: os.Stderr}
	r.Build = build
	if o.base != "" {
		if r.Base, err = version(o.base); err != nil {
			return nil, err
		}
	}
	for _, p := range o.peers {
		r.Peers = append(r.Peers, p.name)
	}
	return r, nil
}

// version returns the version of the programs in a folder.
func version(bin string) (string, error) {
	said, err := exec.Command(filepath.Join(bin, "tgctl"), "version").Output()
	if err != nil {
		return "", fmt.Errorf("ask tgctl for its version (make build comes first): %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(string(said), "tgctl "), "\n")
	return first, nil
}

// finish shows the report and writes it to the requested files. A missed target is not an
// error; a missing figure in a run of all measurements is.
func (r *report) finish(o options, all bool) error {
	r.Quiet.enough()
	r.Took = time.Since(r.When).Seconds()
	fmt.Fprintln(os.Stderr)
	r.markdown(os.Stdout)
	if r.err == nil && all {
		r.err = r.complete()
	}
	if r.err != nil {
		return r.err
	}
	if o.json != "" {
		if err := r.save(o.json); err != nil {
			return err
		}
	}
	if o.markdown == "" {
		return nil
	}
	return r.putInto(o.markdown)
}

// measure takes one measurement in a fixture of its own, with profiles of the daemon unless
// profile is empty.
func measure(o options, config, profile string, take func(*fixture) error) error {
	h, err := newFixture(o.bin, config)
	if err != nil {
		return err
	}
	defer h.close()
	h.peers = o.peers
	if o.base != "" {
		if h.base, err = newFixture(o.base, config); err != nil {
			return fmt.Errorf("start the base: %w", err)
		}
		defer h.base.close()
	}
	if profile == "" {
		return take(h)
	}
	stop, err := h.profile(profile + ".cpu.pprof")
	if err != nil {
		return err
	}
	err = take(h)
	if perr := stop(); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	return h.heap(profile + ".heap.pprof")
}
