package rig

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Server is the test's handle on the server that tg-shim has started.
type Server struct {
	// Inbox holds what the server has received on standard input.
	*Inbox

	// PID is the server's process id.
	PID int

	conn  *net.UnixConn
	mu    sync.Mutex // one message at a time
	stays bool
	gone  chan struct{} // closed when the process has ended
}

// listener waits for the connection of a server.
type listener struct {
	*net.UnixListener
	dir   string
	path  string
	stays bool
}

func listen(parent string, stays bool) (*listener, error) {
	dir, err := os.MkdirTemp(parent, "s")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &listener{UnixListener: l, dir: dir, path: path, stays: stays}, nil
}

// accept waits for the server, for d at most, or until never is closed.
func (l *listener) accept(d time.Duration, never <-chan struct{}) (*Server, error) {
	_ = l.SetDeadline(time.Now().Add(d))
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends with stop
		select {
		case <-never:
			_ = l.SetDeadline(time.Now())
		case <-stop:
		}
	}()
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	kind, content, err := readFrame(in)
	if err != nil || kind != tellPID {
		return nil, errors.Join(errors.New("the server says something else than its process id"), err)
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		return nil, fmt.Errorf("the server's process id: %w", err)
	}
	s := &Server{Inbox: newInbox(), PID: pid, conn: conn, stays: l.stays, gone: make(chan struct{})}
	go s.hear(in)
	return s, nil
}

func (l *listener) close() {
	_ = l.Close()
	_ = os.RemoveAll(l.dir)
}

// hear handles the server's messages until it has ended.
func (s *Server) hear(in *bufio.Reader) {
	defer close(s.gone)
	defer s.end()
	for {
		kind, content, err := readFrame(in)
		if err != nil {
			return
		}
		switch kind {
		case tellInput:
			s.add(content)
		case tellEnd:
			s.end()
			if !s.stays {
				_ = s.Exit(0)
			}
		}
	}
}

func (s *Server) say(kind byte, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(Timeout))
	return writeFrame(s.conn, kind, content)
}

// Send has the server write to its standard output, in one piece if it fits into the pipe.
func (s *Server) Send(content []byte) error { return s.say(tellOutput, content) }

// Complain has the server write to its standard error.
func (s *Server) Complain(content []byte) error { return s.say(tellError, content) }

// CloseOutput has the server close its standard output and continue.
func (s *Server) CloseOutput() error { return s.say(tellClose, nil) }

// Exit has the server exit after it has written what was sent before.
func (s *Server) Exit(code byte) error { return s.say(tellExit, []byte{code}) }

// Kill kills the server with SIGKILL.
func (s *Server) Kill() { _ = syscall.Kill(s.PID, syscall.SIGKILL) }

// Gone waits for the end of the server, for d at most.
func (s *Server) Gone(d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case <-s.gone:
		return true
	case <-timeout.C:
		return false
	}
}

func (s *Server) close() {
	_ = s.conn.Close()
	<-s.gone
}
