// Package host tells what the machine is like that ThoughtGate runs on: what its
// kernel can do for the one who looks at a peer, how full its disks are, whether
// somebody set the clock, and how the user's service manager runs the daemon.
//
// It only looks. What it can't find out it says as an error or as a zero value,
// never as a guess: that is for [cmd/tgctl]'s doctor to put into words.
package host

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUnknown is what this platform doesn't tell.
var ErrUnknown = errors.New("this platform does not tell")

// Kernel is what the kernel does for whoever looks at a peer.
type Kernel struct {
	Name      string // as Linux 6.12.0
	PIDFD     bool   // a process can be held, so that no other takes its number
	PeerPIDFD bool   // likewise the one behind a socket, from the start
	Ptrace    int    // how far processes of one user are kept apart: 0 not at all, 1 and more as Yama's ptrace_scope
	Landlock  int    // version of its interface, 0 for none
	Apart     bool   // the platform is another one than Linux, and has none of these
}

// Space is how much room a file system has for this user.
type Space struct {
	Free  uint64 // bytes
	Files uint64 // files that can still be made; unlimited where the file system doesn't count them
}

// Unlimited is the number of files that can be made where nobody counts them.
const Unlimited = ^uint64(0)

// SpaceAt asks the file system that path lies on.
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

// Writable fails where this user can't write to the folder dir.
func Writable(dir string) error { return unix.Access(dir, unix.W_OK) }

// Log is where a daemon says what goes wrong.
type Log struct {
	Service bool      // the journal has it; else
	File    string    // it is here
	Since   time.Time // what was said before is not of interest
}
