// Package host inspects the machine for "tgctl doctor": the kernel's features, free disk space,
// the age of a process, and the errors in the daemon's log.
//
// It only reads. What it cannot find out it reports as an error or a zero value, never as a
// guess. Explaining the results is the caller's task.
package host

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUnknown reports that this platform does not provide the information.
var ErrUnknown = errors.New("this platform does not tell")

// Kernel describes the kernel features that ThoughtGate uses to identify and isolate processes.
type Kernel struct {
	Name      string // for example "Linux 6.12.0"
	PIDFD     bool   // pidfds work, so a reused PID is not mistaken for the process
	PeerPIDFD bool   // SO_PEERPIDFD works, so a socket's peer has a pidfd from the start
	Ptrace    int    // Yama's ptrace_scope: 0 if processes of one user may trace each other
	Landlock  int    // ABI version of Landlock; 0 if unsupported
	NotLinux  bool   // not Linux: the features above do not exist
}

// Space is the free space of a file system for this user.
type Space struct {
	Free  uint64 // bytes
	Files uint64 // files that can still be created, or Unlimited
}

// Unlimited is the value of Space.Files if the file system does not count files.
const Unlimited = ^uint64(0)

// SpaceAt returns the free space of the file system that holds path.
func SpaceAt(path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, fmt.Errorf("ask for the room at %s: %w", path, err)
	}
	space := Space{Free: uint64(s.Bavail) * uint64(s.Bsize), Files: uint64(s.Ffree)}
	if s.Files == 0 {
		space.Files = Unlimited
	}
	return space, nil
}

// Writable returns an error if this user cannot write to the directory dir.
func Writable(dir string) error { return unix.Access(dir, unix.W_OK) }

// Log says where a daemon's log is.
type Log struct {
	Service bool // the log is in the journal; otherwise in File
	File    string
	Since   time.Time // earlier entries are ignored
}
