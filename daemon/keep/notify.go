package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Messages to systemd or the keeper; see sd_notify(3) and systemd.service(5).
const (
	stateReady    = "READY=1"
	stateStopping = "STOPPING=1"
	stateStore    = "FDSTORE=1\nFDNAME="
	statePoll     = "\nFDPOLL=0" // otherwise a pipe whose other end is closed would be dropped
	stateRemove   = "FDSTOREREMOVE=1\nFDNAME="
	stateBarrier  = "BARRIER=1"
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// retryAfter is the delay before a message is sent again, if the system does not report when
// there is room for it.
const retryAfter = 2 * time.Millisecond

// sendTimeout limits each wait, in addition to the deadline of the caller.
const sendTimeout = 10 * time.Second

// line is the connection to systemd or the keeper.
type line struct {
	mu   sync.Mutex // only one message at a time, because of the deadline
	conn *net.UnixConn
}

// send sends one message, with a copy of f unless that is nil. The wait is limited by the
// deadline of ctx and by sendTimeout.
func (l *line) send(ctx context.Context, state string, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for {
		err := l.try(ctx, state, f)
		switch {
		case err == nil:
			return nil
		// Too many descriptors or messages are under way: both are temporary.
		case !errors.Is(err, unix.ETOOMANYREFS) && !errors.Is(err, unix.ENOBUFS):
			return fmt.Errorf("notify the descriptor store: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("notify the descriptor store: %w", errors.Join(err, ctx.Err()))
		case <-time.After(retryAfter):
		}
	}
}

func (l *line) try(ctx context.Context, state string, f *os.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline, _ := ctx.Deadline()
	if err := l.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return err
	}
	write := func(rights []byte) error {
		var failed error
		err := raw.Write(func(fd uintptr) bool {
			for {
				failed = unix.Sendmsg(int(fd), []byte(state), rights, nil, 0)
				if !errors.Is(failed, unix.EINTR) {
					return !errors.Is(failed, unix.EAGAIN)
				}
			}
		})
		return errors.Join(err, failed)
	}
	if f == nil {
		return write(nil)
	}
	of, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = of.Control(func(fd uintptr) { failed = write(unix.UnixRights(int(fd))) })
	return errors.Join(err, failed)
}

// barrier returns when all messages sent before have been handled.
func (s *Store) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	err = s.line.send(ctx, stateBarrier, w)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(past) })()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the descriptor store does not answer: %w", errors.Join(err, ctx.Err()))
	}
	return nil
}

// asyncClose is how long systemd may take to close what it does not keep: since 254, another
// thread does that.
const asyncClose = 50 * time.Millisecond

// keepsAny checks whether anything is kept at all: it sends the write end of a pipe, whose
// read end then shows whether anyone still holds it.
func (s *Store) keepsAny(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	const name = "probe"
	err = s.line.send(ctx, stateStore+name+statePoll, w)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := s.barrier(ctx); err != nil {
		return err
	}
	_ = r.SetReadDeadline(time.Now().Add(asyncClose)) // pipes support deadlines
	_, err = r.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: its unit has no FileDescriptorStoreMax=", ErrFull)
	}
	return s.line.send(ctx, stateRemove+name, nil)
}

// dial connects to $NOTIFY_SOCKET.
func dial(address string) (*line, error) {
	if address == "" {
		return nil, nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("connect to the service manager: %w", err)
	}
	return &line{conn: conn}, nil
}

// connOf turns an inherited descriptor into a connection.
func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "keeper")
	if f == nil {
		return nil, syscall.EBADF
	}
	defer f.Close() // the connection has a copy
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(syscall.ENOTSOCK, c.Close())
	}
	return conn, nil
}
