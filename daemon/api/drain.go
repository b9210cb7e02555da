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

// drainLimit is how long calls that are under way when the daemon ends may take
// to be answered. It is less than clients wait for a connection to be taken up,
// which is what new ones do meanwhile where the service manager holds the socket.
const drainLimit = 2 * time.Second

// drain ends a server so that nobody loses an answer: what listens takes nothing
// in any more, connections that were taken in are told to go elsewhere with their
// next call, and calls under way are answered. Streams that stand until somebody
// ends them must have been ended; see [Server.standing].
func drain(server *grpc.Server, l *quietListener) {
	l.quiet()
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.GracefulStop()
	}()
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		server.Stop() // which ends the other one
		<-done
	}
}

// standing runs a stream that has no end of its own until ctx or the server
// ends. Whoever reads it is told in the second case, and looks for the next
// daemon.
func (s *Server) standing(ctx context.Context, stream func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	err := stream(ctx)
	if s.ending.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return fmt.Errorf("the daemon is ending: %w", gate.ErrNotRunning)
	}
	return err
}

// quietListener can be told to take no more connections in before it is closed.
// A server that is told to stop drops a connection that it has accepted and not
// looked at yet, and its client, which had been let in, would be turned away.
type quietListener struct {
	net.Listener
	hushed chan struct{} // closed when no more is to be taken in
	hush   sync.Once
	closed chan struct{} // closed when the listener is
	close  sync.Once

	mu      sync.Mutex
	waiting int           // accepted, and not looked at by the server
	none    chan struct{} // closed when waiting is 0 after the hush
}

func quietly(l net.Listener) *quietListener {
	return &quietListener{Listener: l, hushed: make(chan struct{}), closed: make(chan struct{}), none: make(chan struct{})}
}

// quiet makes Accept take in nothing more, and returns when the server has
// looked at all that was.
func (l *quietListener) quiet() {
	l.hush.Do(func() {
		close(l.hushed)
		if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
			_ = d.SetDeadline(time.Unix(1, 0)) // a closed one takes nothing in either
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

// Accept waits for a connection; once the listener is quiet, for its end.
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

// arrival is a connection that tells when the server has begun to look at it.
type arrival struct {
	net.Conn
	peer  *sock.Peer
	taken func()
}

// Peer is who made the connection.
func (a *arrival) Peer() *sock.Peer { return a.peer }

// Close ends the connection, whether or not the server has looked at it.
func (a *arrival) Close() error {
	a.taken()
	return a.Conn.Close()
}
