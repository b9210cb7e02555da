package sock

import (
	"errors"
	"fmt"
	"os"
	"strings"
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

// ErrNoChild is the error of [ChildOf] for a process of another parent.
var ErrNoChild = errors.New("it is no child of that process")

// ChildOf describes the child that parent knows by pid. A parent in a PID namespace
// of its own, as sandboxes of applications have them (Flatpak, bubblewrap), has other
// numbers for its children than we do.
func ChildOf(parent, pid int32) (Process, error) {
	if child, inside := innerChild(parent, pid); inside {
		if child == 0 {
			return Process{}, fmt.Errorf("look at process %d of process %d: %w", pid, parent, os.ErrProcessDone)
		}
		pid = child
	}
	p, err := ProcessOf(pid)
	if err == nil && p.PPID != parent {
		err = fmt.Errorf("process %d: %w", pid, ErrNoChild)
	}
	return p, err
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

// Processes returns every process that can be seen, in no order, without its
// program and directory, which [ProcessOf] has. One that comes or goes meanwhile may
// be missing, or still be there.
func Processes() ([]Process, error) {
	pids, err := listProcesses()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	all := make([]Process, 0, len(pids))
	for _, pid := range pids {
		if p, err := readProcess(pid); err == nil && !p.zombie {
			all = append(all, p)
		}
	}
	return all, nil
}

// Below returns those of all that descend from pid.
func Below(all []Process, pid int32) []Process {
	parents := make(map[int32]int32, len(all))
	for _, p := range all {
		parents[p.PID] = p.PPID
	}
	var found []Process
	for _, p := range all {
		above := p.PPID
		for tries := 0; above > 0 && above != pid && tries < maxAncestors; tries++ {
			above = parents[above]
		}
		if above == pid {
			found = append(found, p)
		}
	}
	return found
}

// SameApplication reports whether two programs are one application: the same file,
// or for macOS two of one bundle, whose helpers are programs of their own. Programs
// that can't be seen are none.
func SameApplication(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return a == b || bundleOf(a) != "" && bundleOf(a) == bundleOf(b)
}

// bundleOf is the outermost bundle that a program lies in.
func bundleOf(path string) string {
	if i := strings.Index(path, ".app/"); i >= 0 {
		return path[:i]
	}
	return ""
}
