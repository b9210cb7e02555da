// Bench measures what the gate costs: a governed call through tg-shim and
// thoughtgated beside the same call to the server alone (direct) and through a
// program that only copies bytes between pipes (floor).
//
// The three are taken in short turns, one after the other, so that noise of the
// machine falls on all alike; what is reported are medians and the ratios
// between them. Servers, copier and client are this program itself.
//
// Usage:
//
//	go run ./internal/bench [-bin DIR] [-turns N] [-json FILE]
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
		}
	}
	bin := flag.String("bin", "bin", "folder with thoughtgated, tg-shim and tgctl")
	turns := flag.Int("turns", 15, "how often each way takes its turn")
	out := flag.String("json", "", "file for the figures as JSON")
	flag.Parse()
	if err := run(*bin, *turns, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(bin string, turns int, out string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	h, err := newHouse(bin)
	if err != nil {
		return err
	}
	defer h.close()
	r := &report{When: time.Now().UTC().Truncate(time.Second), Machine: machine(), Turns: turns}
	for _, measure := range []func(*house, *report, int) error{
		measureLatency, measureThroughput, measureLarge, measureStart, measureMemory,
	} {
		if err := measure(h, r, turns); err != nil {
			return err
		}
	}
	r.print(os.Stdout)
	if out == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

// report is what one run found.
type report struct {
	When    time.Time `json:"when"`
	Machine string    `json:"machine"`
	Turns   int       `json:"turns"`
	Rows    []row     `json:"rows"`
}

// row is one figure for each way; a way that it does not apply to has none.
type row struct {
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Direct float64 `json:"direct,omitempty"`
	Floor  float64 `json:"floor,omitempty"`
	Ours   float64 `json:"ours,omitempty"`
	Note   string  `json:"note,omitempty"`
}

func (r *report) add(rows ...row) { r.Rows = append(r.Rows, rows...) }

func (r *report) print(w *os.File) {
	fmt.Fprintf(w, "%s, %s, medians of %d turns\n\n", r.When.Format("2006-01-02 15:04 MST"), r.Machine, r.Turns)
	fmt.Fprintf(w, "%-44s %9s %9s %9s  %-7s\n", "", "direct", "floor", "ours", "unit")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%-44s %9s %9s %9s  %-7s %s\n", row.What, figure(row.Direct), figure(row.Floor), figure(row.Ours), row.Unit, row.Note)
	}
}

func figure(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func machine() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	load, _, _ := strings.Cut(readFile("/proc/loadavg"), " ")
	return fmt.Sprintf("%d cores of %s, load %s, %s", runtime.NumCPU(), name, load, runtime.Version())
}

func readFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}
