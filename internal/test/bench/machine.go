package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// mostOthers is the fraction of the processor time that others may use during a run before the
// report says that the machine was not quiet.
const mostOthers = 0.05

// quiet records what else the machine did during a run.
type quiet struct {
	Before string  `json:"load_before"` // over the minute before: often the build
	After  string  `json:"load_after"`  // over the last minute of the run: mostly the run itself
	Others float64 `json:"others"`      // fraction of all processor time that neither this program nor its children used
	Stolen float64 `json:"stolen"`      // fraction that the hypervisor gave to others

	began          time.Time
	worked, stolen time.Duration
}

// listen starts recording.
func listen() quiet {
	worked, stolen := busy()
	return quiet{Before: load(), began: time.Now(), worked: worked - spent(), stolen: stolen}
}

// enough ends the recording.
func (q *quiet) enough() {
	worked, stolen := busy()
	q.After = load()
	all := time.Since(q.began).Seconds() * float64(runtime.NumCPU())
	q.Others = max(0, (worked-spent()-q.worked).Seconds()/all)
	q.Stolen = (stolen - q.stolen).Seconds() / all
}

// warning returns a warning, or an empty string if the machine was quiet.
func (q *quiet) warning() string {
	if q.Others <= mostOthers && q.Stolen <= mostOthers {
		return ""
	}
	return fmt.Sprintf("The machine was not quiet: other programs took %.0f %% of its processors, and the machine below kept %.0f %% back. "+
		"Trust the ratios rather than the figures, and no p99", 100*q.Others, 100*q.Stolen)
}

func load() string {
	first, _, ok := strings.Cut(readFile("/proc/loadavg"), " ")
	if !ok {
		return "unknown"
	}
	return first
}

func machine() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	for line := range strings.Lines(readFile("/proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			name = strings.TrimSpace(value)
			break
		}
	}
	system := runtime.GOOS
	if release := strings.TrimSpace(readFile("/proc/sys/kernel/osrelease")); release != "" {
		version, _, _ := strings.Cut(release, "-")
		system += " " + version
	}
	return fmt.Sprintf("%d cores of %s, %s, %s", runtime.NumCPU(), name, system, runtime.Version())
}

func readFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// spent returns the processor time of this program and of its children that have ended.
func spent() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}
