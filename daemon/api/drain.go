package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// drainLimit is how long calls under way may take to finish when the daemon stops. It is less than
// clients wait for a connection to be accepted. New clients wait like that meanwhile if the service
// manager holds the socket.
const drainLimit = 2 * time.Second

// drain stops a server without losing answers: the listener accepts no more connections, existing
// connections are told to reconnect for their next call, and calls under way finish within limit.
// Streams without an end must have been ended; see [Server.standing].
func drain(server *grpc.Server, l *quietListener, limit time.Duration) {
	l.quiet()
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.GracefulStop()
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		server.Stop() // also ends GracefulStop
		<-done
	}
}

// standing runs a stream that has no end of its own, until ctx or the server ends. If the server
// ends, the client gets an error and looks for the next daemon.
func (s *Server) standing(ctx context.Context, stream func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	err := stream(ctx)
	if s.ending.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return fmt.Errorf("the daemon is stopping: %w", gate.ErrNotRunning)
	}
	return err
}

// quietListener can stop accepting connections before it is closed. A gRPC server that stops drops
// a connection that it has accepted but not yet looked at, so a client that was accepted would get
// an error.
type quietListener struct {
	net.Listener
	hushed chan struct{} // closed when no more connections are accepted
	hush   sync.Once
	closed chan struct{} // closed when the listener is
	close  sync.Once

	mu      sync.Mutex
	waiting int           // running Accepts, and accepted connections that the server has not looked at
	none    chan struct{} // closed when waiting is 0 after hushed is closed
}

func quietly(l net.Listener) *quietListener {
	return &quietListener{Listener: l, hushed: make(chan struct{}), closed: make(chan struct{}), none: make(chan struct{})}
}

// quiet makes Accept accept no more connections, and returns when the server has looked at all
// accepted ones, or after drainLimit.
func (l *quietListener) quiet() {
	l.hush.Do(func() {
		close(l.hushed)
		if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
			_ = d.SetDeadline(time.Unix(1, 0)) // a closed listener accepts nothing either
		}
		l.count(0)
	})
	select {
	case <-l.none:
	case <-time.After(drainLimit):
	}
}

func (l *quietListener) count(by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting += by
	select {
	case <-l.hushed:
		if l.waiting == 0 {
			select {
			case <-l.none:
			default:
				close(l.none)
			}
		}
	default:
	}
}

// Accept waits for a connection. After quiet it blocks until the listener is closed.
func (l *quietListener) Accept() (net.Conn, error) {
	l.count(1)
	c, err := l.Listener.Accept()
	known, ok := c.(interface {
		net.Conn
		Peer() *sock.Peer
	})
	if err == nil && ok {
		return &arrival{Conn: c, peer: known.Peer(), taken: sync.OnceFunc(func() { l.count(-1) })}, nil
	}
	l.count(-1)
	select {
	case <-l.hushed:
		if err == nil {
			c.Close()
		}
		<-l.closed
		return nil, net.ErrClosed
	default:
		return c, err
	}
}

// Close closes the listener.
func (l *quietListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// arrival is a connection that reports when the server has started to look at it.
type arrival struct {
	net.Conn
	peer  *sock.Peer
	taken func()
}

// Peer returns the process that made the connection.
func (a *arrival) Peer() *sock.Peer { return a.peer }

// Close closes the connection, whether or not the server has looked at it.
func (a *arrival) Close() error {
	a.taken()
	return a.Conn.Close()
}
