package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpu is the processor time that all threads of a process have used, those that have
// ended included and its children not; zero when there is no such process. It is the
// kernel's own clock of the process, to the nanosecond: /proc/PID/stat rounds each
// process down to ticks of 10 ms, which is more than many of them take in all.
func cpu(pid int) time.Duration {
	const scheduler = 2 // what is counted is time on a processor, user's and kernel's
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduler), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// memory is what a process holds, in MB.
type memory struct {
	resident float64 // all pages of it that are in memory
	share    float64 // the same, of shared pages its share only (PSS); zero where that is not told
	peak     float64 // the most that was resident since forgetPeak; zero where that can't be said
}

// memoryOf is what pid holds. The daemon closes itself to other processes of its user,
// so of it only root is told all.
func memoryOf(pid int) memory {
	m := memory{resident: kilobytes(pid, "smaps_rollup", "Rss:"), share: kilobytes(pid, "smaps_rollup", "Pss:")}
	if m.resident == 0 {
		return memory{resident: kilobytes(pid, "status", "VmRSS:")}
	}
	// The kernel counts the peak in coarser steps.
	m.peak = max(kilobytes(pid, "status", "VmHWM:"), m.resident)
	return m
}

func kilobytes(pid int, file, key string) float64 {
	for line := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/%s", pid, file))) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			kb, _ := strconv.ParseFloat(fields[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// forgetPeak lets the peak of a process begin at what it holds now, where we may.
func forgetPeak(pid int) {
	// Who may not is not told the rest either, see memoryOf.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// children are the processes that pid has started, whichever of its threads did.
func children(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, list := range lists {
		for _, f := range strings.Fields(readFile(list)) {
			if n, err := strconv.Atoi(f); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// busy is the time that all processors together have worked since the machine was
// started, and what others have taken from it where it is a virtual one.
func busy() (worked, stolen time.Duration) {
	const tick = 10 * time.Millisecond
	line, _, _ := strings.Cut(readFile("/proc/stat"), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.Atoi(f)
		switch {
		case err != nil: // its name
		case i == 8:
			stolen = time.Duration(n) * tick
		case i != 4 && i != 5 && i < 8: // idle, and waiting for disks; guests are counted already
			worked += time.Duration(n) * tick
		}
	}
	return worked, stolen
}
