package sock

import (
	"errors"
	"fmt"
	"os"
)

// Process is what the system says of a running process. A pid and a start
// together name a process for good, until the next boot.
type Process struct {
	PID, PPID int32
	Start     uint64 // in the platform's unit, only to be compared
	Name      string // what it calls itself, at most 15 bytes; a claim
	TTY       string // its terminal, as /dev/pts/3; empty without one
	Exe       string // the program; empty where we may not see it
	Cwd       string // its directory; empty where we may not see it, and on macOS

	Foreground int32 // the process group that has its terminal in the foreground; 0 without a terminal

	zombie bool
}

// ProcessOf describes a process. The error is [os.ErrProcessDone] when there is
// none of that pid or it has ended.
func ProcessOf(pid int32) (Process, error) {
	p, err := readProcess(pid)
	if err == nil && p.zombie {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	describe(&p)
	// What was read belongs together only if it was one process all the time.
	again, err := readProcess(pid)
	if err == nil && again.Start != p.Start {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	p.PPID = again.PPID
	return p, nil
}

// maxAncestors bounds the walk up; no real process has so many.
const maxAncestors = 1024

// Ancestors returns the parent of pid, its parent, and so on up to the first
// process that can be seen. A parent that ends meanwhile is no gap: its child
// then has another, which is looked up again.
func Ancestors(pid int32) ([]Process, error) {
	child, err := readProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("look at process %d: %w", pid, err)
	}
	var line []Process
	for tries := 0; child.PPID > 0; {
		if len(line) == maxAncestors || tries == maxAncestors {
			return nil, fmt.Errorf("look above process %d: more than %d ancestors", pid, maxAncestors)
		}
		parent, err := readProcess(child.PPID)
		// The parent was alive all the time if its child still names it
		// afterwards, and so its pid was its own.
		again, againErr := readProcess(child.PID)
		switch {
		case againErr != nil || again.Start != child.Start:
			return nil, fmt.Errorf("look above process %d: %w", child.PID, os.ErrProcessDone)
		case again.PPID != child.PPID:
			child.PPID = again.PPID
			tries++
			continue
		case errors.Is(err, os.ErrProcessDone):
			tries++ // it has been reaped and its child is about to be given away
			continue
		case err != nil:
			return nil, fmt.Errorf("look at process %d: %w", child.PPID, err)
		}
		describe(&parent)
		line = append(line, parent)
		child = parent
	}
	return line, nil
}
