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

// PerProcess is how many connections one process may hold at a time, unless
// its listener says otherwise.
const PerProcess = 64

// Listener accepts connections of our own uid only, and only so many from one
// process. Everything else is closed before a byte of it is read. Its fields
// are set before the first Accept.
type Listener struct {
	// PerProcess bounds the connections of one process.
	PerProcess int
	// Refused, when set, is told of each connection that was closed. It must
	// not block.
	Refused func(error)

	inner *net.UnixListener
	uid   uint32
	made  fs.FileInfo // the socket's file, nil when it was not there

	mu    sync.Mutex
	count map[proc.Process]int
}

// Checked puts the check before what l accepts. The Listener owns l from then on.
func Checked(l *net.UnixListener) *Listener {
	made, _ := os.Lstat(l.Addr().String())
	return &Listener{
		PerProcess: PerProcess,
		made:       made,
		inner:      l,
		uid:        uint32(os.Geteuid()),
		count:      make(map[proc.Process]int),
	}
}

// Accept waits for the next connection that is let in. It is a [*Conn].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.inner.AcceptUnix()
		if err != nil {
			return nil, err
		}
		conn, err := l.admit(c)
		if err == nil {
			return conn, nil
		}
		c.Close()
		if l.Refused != nil {
			l.Refused(err)
		}
	}
}

func (l *Listener) admit(c *net.UnixConn) (*Conn, error) {
	// The uid alone comes first: nothing more is asked about a stranger.
	uid, err := peerUID(c)
	if err != nil {
		return nil, fmt.Errorf("look at the peer: %w", err)
	}
	if uid != l.uid {
		return nil, fmt.Errorf("a connection of uid %d: %w", uid, ErrUnsafe)
	}
	peer, err := PeerOf(c)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[peer.Process] >= l.PerProcess {
		peer.Close()
		return nil, fmt.Errorf("process %d holds %d connections already: %w", peer.PID, l.PerProcess, ErrInUse)
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

// Close stops listening. Connections that were accepted stay. The socket's file
// is removed if that is the listener's to do, and not when somebody else's lies
// there by now.
func (l *Listener) Close() error {
	if now, err := os.Lstat(l.inner.Addr().String()); err == nil && (l.made == nil || !os.SameFile(now, l.made)) {
		l.inner.SetUnlinkOnClose(false)
	}
	return l.inner.Close()
}

// SetDeadline makes Accept give up at t; the zero time means never.
func (l *Listener) SetDeadline(t time.Time) error { return l.inner.SetDeadline(t) }

// Addr is the address of the socket.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Conn is a connection whose peer is known.
type Conn struct {
	*net.UnixConn
	listener *Listener
	peer     *Peer
	once     sync.Once

	mu     sync.Mutex // guards what follows
	passed *Passed    // what Receive has
	closed bool
}

// Peer is who made the connection. It is closed with the connection; what is
// known of it stays.
func (c *Conn) Peer() *Peer { return c.peer }

// Close ends the connection and gives its place back. Descriptors that came over it
// and that nobody has taken are closed.
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
