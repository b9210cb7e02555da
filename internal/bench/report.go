package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// report is what one run found.
type report struct {
	When    time.Time `json:"when"`
	Machine string    `json:"machine"`
	Load    string    `json:"load"` // of the machine, over the minute before
	Build   string    `json:"build"`
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
	Note   string  `json:"note,omitempty"` // the ratio that counts, in words
	Reach  string  `json:"reach,omitempty"`
	Met    string  `json:"met,omitempty"` // yes or no, where there is something to reach
}

// reach says what a row has to reach, and whether it did.
func (r row) reach(what string, met bool) row {
	r.Reach, r.Met = what, "no"
	if met {
		r.Met = "yes"
	}
	return r
}

func newReport(turns int) *report {
	load, _, _ := strings.Cut(readFile("/proc/loadavg"), " ")
	return &report{When: time.Now().UTC().Truncate(time.Second), Machine: machine(), Load: load, Turns: turns}
}

// add keeps rows and shows them at once: a run takes minutes.
func (r *report) add(rows ...row) {
	for _, row := range rows {
		r.Rows = append(r.Rows, row)
		fmt.Fprintf(os.Stderr, "%-48s %9s %9s %9s  %-5s %s\n", row.What, figure(row.Direct), figure(row.Floor), figure(row.Ours), row.Unit, row.Met)
	}
}

// markdown writes the table that BENCHMARKS.md holds.
func (r *report) markdown(w io.Writer) {
	fmt.Fprintf(w, "Measured %s, build %s: %s, load %s, medians of %d turns.\n\n", r.When.Format("2006-01-02 15:04 MST"), r.Build, r.Machine, r.Load, r.Turns)
	fmt.Fprintf(w, "| what | unit | direct | floor | ours | in words | to reach | reached |\n|---|---|--:|--:|--:|---|---|---|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", row.What, row.Unit,
			figure(row.Direct), figure(row.Floor), figure(row.Ours), row.Note, row.Reach, row.Met)
	}
}

func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
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
	return fmt.Sprintf("%d cores of %s, %s", runtime.NumCPU(), name, runtime.Version())
}

func readFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}
