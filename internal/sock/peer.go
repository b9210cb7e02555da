package sock

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// Peer is the process that made a connection, as the kernel names it. Its
// numbers are those of the moment it connected; that the pid is still its own
// is what Alive tells. Its methods may be called by any number of goroutines.
type Peer struct {
	UID, GID uint32
	PID      int32
	Start    uint64 // when it started, in the platform's unit, only to be compared

	mu    sync.RWMutex // guards pidfd against being closed while it is asked
	pidfd int          // -1 where there is none
}

// PeerOf asks the kernel who is at the other end of c. The error is
// [ErrPeerGone] when that process has ended already, which leaves nothing to be
// learned about it. The caller closes the Peer.
//
// Whatever is read about a pid should be read first and Alive asked afterwards:
// if it still lives then, it was what was read about.
func PeerOf(c *net.UnixConn) (*Peer, error) {
	var p *Peer
	err := control(c, func(fd int) (err error) {
		p, err = peerOf(fd)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the peer: %w", err)
	}
	process, err := readProcess(p.PID)
	if err == nil {
		p.Start = process.Start
	}
	if err != nil || !p.Alive() {
		p.Close()
		return nil, fmt.Errorf("look at the peer, pid %d: %w", p.PID, ErrPeerGone)
	}
	return p, nil
}

// Handled reports whether the kernel gave a handle of the process, so that its
// pid can't be taken for another's. It is false after Close.
func (p *Peer) Handled() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.pidfd >= 0
}

// Close lets go of the process.
func (p *Peer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return nil
	}
	fd := p.pidfd
	p.pidfd = -1
	return os.NewSyscallError("close", syscall.Close(fd))
}

// Alive reports whether the process still runs. A zombie doesn't: what it was
// can't be read any more. Where the kernel has given us a descriptor of the
// process that is certain; otherwise, and after Close, it rests on the pid and
// the time of its start.
func (p *Peer) Alive() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.pidfd >= 0 {
		return running(p.pidfd)
	}
	now, err := readProcess(p.PID)
	return err == nil && now.Start == p.Start && !now.zombie
}

func peerUID(c *net.UnixConn) (uid uint32, err error) {
	err = control(c, func(fd int) (err error) {
		uid, err = credentials(fd)
		return err
	})
	return uid, err
}

func control(c *net.UnixConn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
