// Package proc examines the processes of the system and signals them.
//
// A pid may be reused as soon as its process has ended. So a process is identified by its pid
// and its start ([Process]), and is signalled and waited for through a [Handle]. No other
// package of the product reads /proc.
package proc

import (
	"errors"
	"fmt"
	"os"
)

// Process identifies a process until the next boot.
type Process struct {
	PID   int32
	Start uint64 // in a unit of the platform, only for comparison
}

// Alive reports whether p still runs. Its first thread may have ended before the others, which
// still hold its files and locks.
func (p Process) Alive() bool {
	is, err := Read(p.PID)
	return err == nil && is.Start == p.Start && !is.Ended()
}

// Info describes a process.
type Info struct {
	Process
	PPID    int32
	Group   int32
	Session int32  // as of setsid(2); 0 if unknown
	Name    string // set by the process, at most 15 bytes; not trusted
	TTY     string // terminal, as /dev/pts/3; empty if none
	Exe     string // path of the program; empty if not readable
	Cwd     string // current directory; empty if not readable, and on macOS

	Foreground int32 // foreground process group of its terminal; 0 if none

	Zombie  bool // its first thread has ended, and its former details can't be read
	threads int  // 0 if unknown
}

// Ended reports whether all threads of the process have ended.
func (i Info) Ended() bool { return i.Zombie && i.threads <= 1 }

// Look describes a process. The error is [os.ErrProcessDone] if there is no process with that
// pid or it has ended.
func Look(pid int32) (Info, error) {
	p, err := Read(pid)
	if err == nil && p.Zombie {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Info{}, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	describe(&p)
	// The details belong together only if the process was the same all the time.
	again, err := Read(pid)
	if err == nil && again.Start != p.Start {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Info{}, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	p.PPID = again.PPID
	return p, nil
}

// ErrNoChild is the error of [ChildOf] if the process has another parent.
var ErrNoChild = errors.New("it is not a child of that process")

// ChildOf describes the child that parent knows under pid. A parent in a PID namespace of its
// own, as in application sandboxes (Flatpak, bubblewrap), has other numbers for its children
// than this process.
func ChildOf(parent, pid int32) (Info, error) {
	if child, inside := innerChild(parent, pid); inside {
		if child == 0 {
			return Info{}, fmt.Errorf("inspect process %d of process %d: %w", pid, parent, os.ErrProcessDone)
		}
		pid = child
	}
	p, err := Look(pid)
	if err == nil && p.PPID != parent {
		err = fmt.Errorf("process %d: %w", pid, ErrNoChild)
	}
	return p, err
}

// maxAncestors limits Ancestors; no real process has so many.
const maxAncestors = 1024

// Ancestors returns the parent of pid, its parent, and so on up to the first process that can
// be seen. If a parent ends meanwhile, its child has a new parent, which is looked up again.
func Ancestors(pid int32) ([]Info, error) {
	child, err := Read(pid)
	if err != nil {
		return nil, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	var line []Info
	for tries := 0; child.PPID > 0; {
		if len(line) == maxAncestors || tries == maxAncestors {
			return nil, fmt.Errorf("inspect the ancestors of process %d: more than %d", pid, maxAncestors)
		}
		parent, err := Read(child.PPID)
		// If the child still has this parent, the parent was alive all the time, and so the pid
		// was its own.
		again, againErr := Read(child.PID)
		switch {
		case againErr != nil || again.Start != child.Start:
			return nil, fmt.Errorf("inspect the ancestors of process %d: %w", child.PID, os.ErrProcessDone)
		case again.PPID != child.PPID:
			child.PPID = again.PPID
			tries++
			continue
		case errors.Is(err, os.ErrProcessDone):
			tries++ // it was reaped, and its child is about to get another parent
			continue
		case err != nil:
			return nil, fmt.Errorf("inspect process %d: %w", child.PPID, err)
		}
		describe(&parent)
		line = append(line, parent)
		child = parent
	}
	return line, nil
}
