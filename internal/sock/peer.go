package sock

import (
	"fmt"
	"net"
	"syscall"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Peer is the process that made a connection, as the kernel reports it. The ids are those at
// the time of connecting; Alive reports whether the pid is still that of the process. Its
// methods are safe for concurrent use.
type Peer struct {
	UID, GID uint32
	*proc.Handle
}

// PeerOf returns the process at the other end of c. The error is [ErrPeerGone] if that process
// has ended, since nothing can be learned about it then. The caller must close the Peer.
//
// Read anything about a pid first and call Alive afterwards: if the process is alive then, what
// was read is about it.
func PeerOf(c *net.UnixConn) (*Peer, error) {
	var is credentials
	pidfd := -1
	err := control(c, func(fd int) (err error) {
		if is, err = credentialsOf(fd); err == nil && is.pid <= 0 {
			err = fmt.Errorf("%w, or is in another pid namespace", ErrPeerGone)
		}
		if err == nil {
			pidfd, err = pidfdOf(fd)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("identify the peer: %w", err)
	}
	handle, err := proc.HandleOf(is.pid, pidfd)
	if err != nil {
		return nil, fmt.Errorf("identify the peer, pid %d: %w", is.pid, ErrPeerGone)
	}
	return &Peer{is.uid, is.gid, handle}, nil
}

// credentials are what the kernel reports about the other end; pid is 0 if unknown.
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

func control(c syscall.Conn, f func(fd int) error) error {
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
