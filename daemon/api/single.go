package api

import (
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// ServePolicies serves the calls that need only c.Policies and c.Stages over conn, until the other
// end closes it.
func ServePolicies(c Config, conn net.Conn) error {
	s := &Server{Config: c}
	server := grpc.NewServer(s.options()...)
	pb.RegisterPoliciesServer(server, policiesService{s: s})
	err := server.Serve(&only{conn: conn, gone: make(chan struct{})})
	server.Stop()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// only is a listener with one connection. It is closed with that connection.
type only struct {
	conn  net.Conn // nil once it was accepted
	gone  chan struct{}
	close sync.Once
}

func (l *only) Accept() (net.Conn, error) {
	if l.conn == nil {
		<-l.gone
		return nil, net.ErrClosed
	}
	c := l.conn
	l.conn = nil
	return &watched{c, l}, nil
}

func (l *only) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

func (l *only) Close() error {
	l.close.Do(func() { close(l.gone) })
	return nil
}

// watched is a connection that closes its listener when it is closed.
type watched struct {
	net.Conn
	l *only
}

func (w *watched) Close() error {
	err := w.Conn.Close()
	return errors.Join(err, w.l.Close())
}
