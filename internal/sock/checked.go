package sock

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// connectionsPerProcess is the maximum number of connections of one process.
const connectionsPerProcess = 64

// Listener accepts connections of this process's uid only, and limits how many one process has.
// It closes any other connection before it reads from it. Its fields must be set before the
// first Accept.
type Listener struct {
	// Refused, if set, is called for each refused connection. It must not block.
	Refused func(error)

	inner *net.UnixListener
	limit int // of connections of one process
	uid   uint32
	made  fs.FileInfo // the socket's file, nil if there was none

	mu    sync.Mutex
	count map[proc.Process]int
}

// Checked returns a Listener that checks what l accepts. It owns l.
func Checked(l *net.UnixListener) *Listener {
	made, _ := os.Lstat(l.Addr().String())
	return &Listener{
		made:  made,
		inner: l,
		limit: connectionsPerProcess,
		uid:   uint32(os.Geteuid()),
		count: make(map[proc.Process]int),
	}
}

// Accept waits for the next connection that passes the checks. It is a [*Conn].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.inner.AcceptUnix()
		if err != nil {
			return nil, err
		}
		conn, err := l.checkPeer(c)
		if err == nil {
			return conn, nil
		}
		c.Close()
		if l.Refused != nil {
			l.Refused(err)
		}
	}
}

func (l *Listener) checkPeer(c *net.UnixConn) (*Conn, error) {
	// The uid comes first: nothing more is asked about another user's process.
	uid, err := peerUID(c)
	if err != nil {
		return nil, fmt.Errorf("identify the peer: %w", err)
	}
	if uid != l.uid {
		return nil, fmt.Errorf("connection from uid %d: %w", uid, ErrUnsafe)
	}
	peer, err := PeerOf(c)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[peer.Process] >= l.limit {
		peer.Close()
		return nil, fmt.Errorf("process %d already has %d connections: %w", peer.PID, l.limit, ErrInUse)
	}
	l.count[peer.Process]++
	return &Conn{UnixConn: c, listener: l, peer: peer}, nil
}

func (l *Listener) leave(p *Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[p.Process]--; l.count[p.Process] == 0 {
		delete(l.count, p.Process)
	}
}

// Close stops listening. Accepted connections stay open. It removes the socket's file if the
// listener owns it, unless somebody has replaced it.
func (l *Listener) Close() error {
	if now, err := os.Lstat(l.inner.Addr().String()); err == nil && (l.made == nil || !os.SameFile(now, l.made)) {
		l.inner.SetUnlinkOnClose(false)
	}
	return l.inner.Close()
}

// SetDeadline sets the deadline of Accept; the zero time means none.
func (l *Listener) SetDeadline(t time.Time) error { return l.inner.SetDeadline(t) }

// Addr returns the address of the socket.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Conn is a connection whose peer is known.
type Conn struct {
	*net.UnixConn
	listener *Listener
	peer     *Peer
	once     sync.Once

	mu     sync.Mutex // guards the fields below
	passed *Passed    // what Receive has received
	closed bool
}

// Peer returns the process that made the connection. It is closed with the connection; what is
// known of it remains available.
func (c *Conn) Peer() *Peer { return c.peer }

// Close closes the connection and no longer counts it. It closes received descriptors that
// nobody has taken.
func (c *Conn) Close() error {
	err := c.UnixConn.Close()
	c.once.Do(func() {
		c.listener.leave(c.peer)
		c.peer.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		c.passed.close()
	})
	return err
}
