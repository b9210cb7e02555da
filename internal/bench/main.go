// Bench measures what the gate costs: a governed call through tg-shim and
// thoughtgated beside the same call to the server alone (direct) and through a
// program that only copies bytes between pipes (floor).
//
// The three are taken in short turns, one after the other, so that noise of the
// machine falls on all alike; what is reported are medians and the ratios
// between them. Servers, copier, client and agent are this program itself.
//
// Usage:
//
//	go run ./internal/bench [-bin DIR] [-turns N] [-only REGEXP] [-json FILE] [-markdown FILE] [-cpuprofile DIR]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
	flag.StringVar(&o.bin, "bin", "bin", "folder with thoughtgated, tg-shim and tgctl")
	flag.IntVar(&o.turns, "turns", 15, "how often each way takes its turn")
	only := flag.String("only", "", "run the measurements whose names match this regexp")
	flag.StringVar(&o.json, "json", "", "file for the figures as JSON")
	flag.StringVar(&o.markdown, "markdown", "", "file for the table in Markdown")
	flag.StringVar(&o.profiles, "cpuprofile", "", "folder for processor profiles of the daemon, one for each measurement")
	flag.IntVar(&o.records, "records", 1_000_000, "records of the long log")
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
	restarts bool   // the daemon is started anew meanwhile, and no profile of it can be taken
	take     func(*house, *report, options) error
}{
	{name: "latency", take: measureLatency},
	{name: "always", config: "audit: {sync: always}\n", take: measureAlways},
	{name: "throughput", take: measureThroughput},
	{name: "large", take: measureLarge},
	{name: "start", take: measureStart},
	{name: "memory", take: measureMemory},
	{name: "shims", restarts: true, take: measureShims},
	{name: "decision", take: measureDecision},
	{name: "log", restarts: true, take: measureLog},
	{name: "wrap", restarts: true, take: measureWrap},
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
	r := newReport(o.turns)
	version, err := exec.Command(filepath.Join(o.bin, "tgctl"), "version").Output()
	if err != nil {
		return fmt.Errorf("ask tgctl for its version (build the programs first): %w", err)
	}
	r.Build, _, _ = strings.Cut(strings.TrimPrefix(string(version), "tgctl "), "\n")
	for _, m := range measurements {
		if !o.only.MatchString(m.name) {
			continue
		}
		profile := ""
		if o.profiles != "" && !m.restarts {
			profile = filepath.Join(o.profiles, m.name+".cpu.pprof")
		}
		take := func(h *house) error { return m.take(h, r, o) }
		if err := measure(o.bin, m.config, profile, take); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	r.markdown(os.Stdout)
	if o.json != "" {
		if err := r.save(o.json); err != nil {
			return err
		}
	}
	if o.markdown == "" {
		return nil
	}
	f, err := os.Create(o.markdown)
	if err != nil {
		return err
	}
	defer f.Close()
	r.markdown(f)
	return f.Close()
}

// measure takes one measurement in a house of its own, and a profile of the daemon
// meanwhile unless the path is empty.
func measure(bin, config, profile string, take func(*house) error) error {
	h, err := newHouse(bin, config)
	if err != nil {
		return err
	}
	defer h.close()
	if profile == "" {
		return take(h)
	}
	stop, err := h.profile(profile)
	if err != nil {
		return err
	}
	err = take(h)
	if perr := stop(); err == nil {
		err = perr
	}
	return err
}
