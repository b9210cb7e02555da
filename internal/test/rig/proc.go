package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage is what a process uses at one moment. Sizes are in bytes.
type Usage struct {
	Resident    int64 // resident memory, including shared memory (RSS)
	Share       int64 // the same with its proportional share of shared memory (PSS)
	Descriptors int
	Threads     int
}

// Use returns what a process uses. It fails without /proc, and if the process has ended.
func Use(pid int) (Usage, error) {
	memory, err := Numbers(pid, "smaps_rollup", "Rss:", "Pss:")
	if err != nil {
		return Usage{}, err
	}
	threads, err := Numbers(pid, "status", "Threads:")
	if err != nil {
		return Usage{}, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return Usage{}, err
	}
	return Usage{Resident: memory[0] << 10, Share: memory[1] << 10, Descriptors: len(open), Threads: int(threads[0])}, nil
}

// Numbers returns the numbers that follow the given names in a file of a process in /proc. It
// fails if there is no such file or name.
func Numbers(pid int, file string, names ...string) ([]int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return nil, err
	}
	found := make([]int64, len(names))
	for i, name := range names {
		_, rest, ok := strings.Cut("\n"+string(raw), "\n"+name)
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			return nil, errors.New(file + " has no " + name)
		}
		if found[i], err = strconv.ParseInt(words[0], 10, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return found, nil
}

// Children returns the child processes of all threads of pid.
func Children(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // a thread that has ended has none
		for _, word := range strings.Fields(string(raw)) {
			if n, err := strconv.Atoi(word); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// PeakMemory returns the maximum resident memory of the process, in bytes. It fails without
// /proc, and if the process has ended.
func (p *Process) PeakMemory() (int64, error) {
	peak, err := Numbers(p.PID(), "status", "VmHWM:")
	if err != nil {
		return 0, err
	}
	return peak[0] << 10, nil
}
