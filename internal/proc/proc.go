// Package proc looks at the processes of the system, and signals them.
//
// The number of a process may be given to another one as soon as it has ended. So a
// process is named by its pid and by when it started ([Process]), and is signalled and
// waited for through a [Handle]. No other package of the product reads /proc.
package proc

import (
	"errors"
	"fmt"
	"os"
)

// Process names a process for good, until the next boot.
type Process struct {
	PID   int32
	Start uint64 // in the platform's unit, only to be compared
}

// Alive reports whether p still runs. Its first thread may have ended before the others,
// which have its files and locks.
func (p Process) Alive() bool {
	is, err := Read(p.PID)
	return err == nil && is.Start == p.Start && !is.Ended()
}

// Info is what the system says of a process.
type Info struct {
	Process
	PPID    int32
	Group   int32
	Session int32  // in the sense of setsid(2); 0 where the platform does not tell
	Name    string // what it calls itself, at most 15 bytes; a claim
	TTY     string // its terminal, as /dev/pts/3; empty without one
	Exe     string // the program; empty where we may not see it
	Cwd     string // its directory; empty where we may not see it, and on macOS

	Foreground int32 // the process group that has its terminal in the foreground; 0 without a terminal

	Zombie  bool // its first thread has ended, and what it was can't be read any more
	threads int  // 0 where the platform does not tell
}

// Ended reports whether no thread of the process runs any more.
func (i Info) Ended() bool { return i.Zombie && i.threads <= 1 }

// Look describes a process. The error is [os.ErrProcessDone] when there is none of that
// pid or it has ended.
func Look(pid int32) (Info, error) {
	p, err := Read(pid)
	if err == nil && p.Zombie {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Info{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	describe(&p)
	// What was read belongs together only if it was one process all the time.
	again, err := Read(pid)
	if err == nil && again.Start != p.Start {
		err = os.ErrProcessDone
	}
	if err != nil {
		return Info{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	p.PPID = again.PPID
	return p, nil
}

// ErrNoChild is the error of [ChildOf] for a process of another parent.
var ErrNoChild = errors.New("it is no child of that process")

// ChildOf describes the child that parent knows by pid. A parent in a PID namespace
// of its own, as sandboxes of applications have them (Flatpak, bubblewrap), has other
// numbers for its children than we do.
func ChildOf(parent, pid int32) (Info, error) {
	if child, inside := innerChild(parent, pid); inside {
		if child == 0 {
			return Info{}, fmt.Errorf("look at process %d of process %d: %w", pid, parent, os.ErrProcessDone)
		}
		pid = child
	}
	p, err := Look(pid)
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
func Ancestors(pid int32) ([]Info, error) {
	child, err := Read(pid)
	if err != nil {
		return nil, fmt.Errorf("look at process %d: %w", pid, err)
	}
	var line []Info
	for tries := 0; child.PPID > 0; {
		if len(line) == maxAncestors || tries == maxAncestors {
			return nil, fmt.Errorf("look above process %d: more than %d ancestors", pid, maxAncestors)
		}
		parent, err := Read(child.PPID)
		// The parent was alive all the time if its child still names it
		// afterwards, and so its pid was its own.
		again, againErr := Read(child.PID)
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
