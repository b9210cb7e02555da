// Bench measures what the gate costs: a governed call through tg-shim and
// thoughtgated beside the same call to the server alone (direct) and through a
// program that only copies bytes between pipes (floor).
//
// The three are taken in short turns, one after the other, so that noise of the
// machine falls on all alike; what is reported are medians and the ratios
// between them. Servers, copier, client and agent are this program itself.
//
// What is measured stands in one table, figures; what measures it, in measurements.
//
// Usage:
//
//	go run ./internal/bench [-bin DIR] [-turns N] [-only REGEXP] [-json FILE] [-markdown PAGE] [-cpuprofile DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// options are those of one run.
type options struct {
	bin      string
	turns    int
	only     *regexp.Regexp // of the names of measurements
	json     string
	markdown string
	profiles string // folder for processor profiles of the daemon; empty for none
	records  int    // of the long log
	command  string // that reproduces the run
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "server":
			serve(os.Stdin, os.Stdout)
			return
		case "floor":
			os.Exit(copyBetween(os.Args[2:]))
		case "agent":
			os.Exit(launched())
		}
	}
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder with thoughtgated, tg-shim and tgctl, and the extension quota in extensions/quota")
	flag.IntVar(&o.turns, "turns", 18, "how often each way takes its turn")
	only := flag.String("only", "", "run the measurements whose names match this regexp: "+strings.Join(names(), ", "))
	flag.StringVar(&o.json, "json", "", "file for the figures as JSON")
	flag.StringVar(&o.markdown, "markdown", "", "page to put the tables into, between its two marks")
	flag.StringVar(&o.profiles, "cpuprofile", "", "folder for profiles of the daemon, processor and heap, for each measurement")
	flag.IntVar(&o.records, "records", 1_000_000, "records of the long log")
	flag.StringVar(&o.command, "command", "go run ./internal/bench", "what the report says that it was made with")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*only); err == nil {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measurements are what a run takes, in this order. Each has a house of its own,
// so that none finds what another left.
var measurements = []struct {
	name     string
	config   string // more of the configuration
	restarts bool   // the daemon is started anew meanwhile, or does nothing: no profile of it is taken
	take     func(*house, *report, options) error
}{
	{name: "latency", take: measureLatency},
	{name: "always", config: "audit: {sync: always}\n", take: measureAlways},
	{name: "throughput", take: measureThroughput},
	{name: "large", take: measureLarge},
	{name: "start", restarts: true, take: measureStart},
	{name: "memory", take: measureMemory},
	{name: "shims", restarts: true, take: measureShims},
	{name: "decision", restarts: true, take: measureDecision},
	{name: "log", restarts: true, take: measureLog},
	{name: "wrap", restarts: true, take: measureWrap},
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
	var err error
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
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
		take := func(h *house) error { return m.take(h, r, o) }
		if err := measure(o.bin, m.config, profile, take); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return r.finish(o, all)
}

func newReport(o options) (*report, error) {
	version, err := exec.Command(filepath.Join(o.bin, "tgctl"), "version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask tgctl for its version (make build comes first): %w", err)
	}
	r := &report{When: time.Now().UTC().Truncate(time.Second), Command: o.command, Machine: machine(), Turns: o.turns, Quiet: listen(), live: os.Stderr}
	r.Build, _, _ = strings.Cut(strings.TrimPrefix(string(version), "tgctl "), "\n")
	return r, nil
}

// finish shows the report and writes it where it was asked for. A target that was
// missed is no error; a figure that is missing in a run of all is.
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

// measure takes one measurement in a house of its own, and profiles of the daemon
// unless the path is empty.
func measure(bin, config, profile string, take func(*house) error) error {
	h, err := newHouse(bin, config)
	if err != nil {
		return err
	}
	defer h.close()
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
