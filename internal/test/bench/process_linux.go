package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// cpu returns the processor time that all threads of a process have used, including those that
// have ended but not its children; zero if there is no such process. It reads the process's CPU
// clock, in nanoseconds: /proc/PID/stat rounds down to ticks of 10 ms, which is more than many
// processes use in all.
func cpu(pid int) time.Duration {
	const scheduler = 2 // selects time on a processor, user and kernel
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduler), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// memory is the memory of a process, in MB.
type memory struct {
	resident float64 // all of its resident pages (RSS)
	share    float64 // with its proportional share of shared pages (PSS); zero if unknown
	peak     float64 // maximum resident since forgetPeak; zero if unknown
}

// memoryOf returns the memory of pid. The daemon hides itself from other processes of its user,
// so only root gets all of it.
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

// forgetPeak resets the peak memory of a process, if permitted.
func forgetPeak(pid int) {
	// Without permission the rest is unknown too, see memoryOf.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// busy returns the total time that all processors have worked since the boot, and the time that
// the hypervisor took from them.
func busy() (worked, stolen time.Duration) {
	const tick = 10 * time.Millisecond
	line, _, _ := strings.Cut(readFile("/proc/stat"), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.Atoi(f)
		switch {
		case err != nil: // the name of the line
		case i == 8:
			stolen = time.Duration(n) * tick
		case i != 4 && i != 5 && i < 8: // not idle or waiting for disks; guest time is included already
			worked += time.Duration(n) * tick
		}
	}
	return worked, stolen
}
