package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/rig"
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
	kb, err := rig.Numbers(pid, file, key)
	if err != nil {
		return 0
	}
	return float64(kb[0]) / 1024
}

// forgetPeak lets the peak of a process begin at what it holds now, where we may.
func forgetPeak(pid int) {
	// Who may not is not told the rest either, see memoryOf.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
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
