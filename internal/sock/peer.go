package sock

import (
	"fmt"
	"net"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Peer is the process that made a connection, as the kernel names it. Its
// numbers are those of the moment it connected; that the pid is still its own
// is what Alive tells. Its methods may be called by any number of goroutines.
type Peer struct {
	UID, GID uint32
	*proc.Handle
}

// PeerOf asks the kernel who is at the other end of c. The error is
// [ErrPeerGone] when that process has ended already, which leaves nothing to be
// learned about it. The caller closes the Peer.
//
// Whatever is read about a pid should be read first and Alive asked afterwards:
// if it still lives then, it was what was read about.
func PeerOf(c *net.UnixConn) (*Peer, error) {
	var is credentials
	pidfd := -1
	err := control(c, func(fd int) (err error) {
		if is, err = credentialsOf(fd); err == nil && is.pid <= 0 {
			err = fmt.Errorf("%w, or is in another pid namespace and can't be seen from here", ErrPeerGone)
		}
		if err == nil {
			pidfd, err = pidfdOf(fd)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the peer: %w", err)
	}
	handle, err := proc.HandleOf(is.pid, pidfd)
	if err != nil {
		return nil, fmt.Errorf("look at the peer, pid %d: %w", is.pid, ErrPeerGone)
	}
	return &Peer{is.uid, is.gid, handle}, nil
}

// credentials are what the kernel says of the other end; pid is 0 where it can't be told.
type credentials struct {
	uid, gid uint32
	pid      int32
}

func peerUID(c *net.UnixConn) (uid uint32, err error) {
	err = control(c, func(fd int) error {
		is, err := credentialsOf(fd)
		uid = is.uid
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
