// Package client is the Go client of thoughtgated.
//
// A [Client] is a connection to the control socket of this user's daemon. Its methods are the
// calls of the API; they take and return the generated messages of proto/thoughtgate/v1, and
// their errors match the sentinels of this package with [errors.Is]. Two kinds of methods are
// more than a call: a [Session] stays open for as long as an agent runs, and streams are
// iterators that end when the loop over them is left.
//
// The client connects only if the socket, its folder and the process that listens belong to
// this user.
//
// The exported API follows that of the daemon: it may grow and does not change incompatibly.
package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Protocol is the version of the protocol of this package. tg-shim and the daemon must have the
// same version.
const Protocol = 1

// MaxMessage is the maximum size of an API message, in bytes, in either direction. A message
// can hold a line of 10 MiB and data about it.
const MaxMessage = 16 << 20

// Window is the flow-control window in bytes: what either side may send on a connection before
// the other has read it.
const Window = 1 << 20

// Client is a connection to thoughtgated. It is safe for concurrent use and reconnects by
// itself after a restart of the daemon. A call made while no daemon runs fails with
// [ErrNotRunning].
type Client struct {
	path   string
	conn   *grpc.ClientConn
	reopen time.Duration // how long a session waits for a new daemon
}

// Option configures [Dial].
type Option func(*options)

type options struct {
	path   string
	getenv func(string) string
	heard  func(build string)
}

// WithSocket sets the path of the socket. The default is the environment variable
// THOUGHTGATE_CONTROL, and without it a path in the runtime folder.
func WithSocket(path string) Option {
	return func(o *options) { o.path = path }
}

// WithEnv makes Dial look up environment variables with getenv.
func WithEnv(getenv func(string) string) Option {
	return func(o *options) { o.getenv = getenv }
}

// WithBuild makes the client call heard with the daemon's build: after the first answer and
// whenever another build answers. heard must be safe for concurrent use.
func WithBuild(heard func(build string)) Option {
	return func(o *options) { o.heard = heard }
}

// Dial connects to thoughtgated and returns when the connection is established. The error is
// [ErrNotRunning] if nobody listens at the socket; any other error says what is wrong with it.
// The caller must close the client.
func Dial(ctx context.Context, opts ...Option) (*Client, error) {
	o := options{getenv: os.Getenv}
	for _, opt := range opts {
		opt(&o)
	}
	path, err := o.socket()
	if err != nil {
		return nil, err
	}
	return connect(ctx, path, &dialer{path: path}, o.dialOptions()...)
}

// Over returns a client that uses conn, at whose other end a program of ours serves part of the
// API. Calls of the rest fail with [ErrVersion]. The client owns conn.
func Over(ctx context.Context, conn net.Conn) (*Client, error) {
	c, err := connect(ctx, "", &dialer{conn: conn})
	if err != nil {
		conn.Close()
	}
	return c, err
}

// The socket of a killed daemon accepts connections until the kernel closes it, and then drops
// them. A client that was dropped retries every dropPause, for at most dropRetryTimeout.
const (
	dropRetryTimeout = 2 * time.Second
	dropPause        = 20 * time.Millisecond
)

// connect returns a client that connects with d, once the connection is established.
func connect(ctx context.Context, path string, d *dialer, more ...grpc.DialOption) (*Client, error) {
	end := time.Now().Add(dropRetryTimeout)
	for {
		c, err := connectOnce(ctx, path, d, more)
		if !errors.Is(err, errDropped) || time.Now().After(end) {
			return c, err
		}
		select {
		case <-time.After(dropPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func connectOnce(ctx context.Context, path string, d *dialer, more []grpc.DialOption) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///thoughtgated", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket and its peer are checked instead
		grpc.WithContextDialer(d.dial),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(), // the daemon decides what a repeated call means
		grpc.WithIdleTimeout(0),
		grpc.WithChainUnaryInterceptor(callErrors),
		// A fixed window disables the bandwidth estimate, which would send a ping with every
		// few messages.
		grpc.WithInitialWindowSize(Window), grpc.WithInitialConnWindowSize(Window),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	}, more...)...)
	if err != nil {
		return nil, err
	}
	if err := d.ready(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{path: path, conn: conn, reopen: reopenFor}, nil
}

// socket returns the path to connect to.
func (o *options) socket() (string, error) {
	if o.path != "" {
		return o.path, nil
	}
	if path := o.getenv("THOUGHTGATE_CONTROL"); path != "" {
		return path, nil
	}
	paths, err := sock.DefaultPaths(o.getenv)
	if err != nil {
		return "", err
	}
	return paths.ControlSocket(), nil
}

// Socket returns the path of the client's socket.
func (c *Client) Socket() string { return c.path }

// Close closes the connection and every stream on it.
func (c *Client) Close() error { return c.conn.Close() }

// dialer connects to one socket and keeps the last error, of which grpc reports only the text.
type dialer struct {
	path string

	mu   sync.Mutex
	conn net.Conn // an existing connection, used once
	last error    // of the latest attempt; nil if it succeeded
}

func (d *dialer) dial(ctx context.Context, _ string) (net.Conn, error) {
	d.mu.Lock()
	conn := d.conn
	d.conn = nil
	d.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	var err error
	if d.path == "" {
		err = errors.New("the program at the other end has gone")
	} else {
		conn, err = sock.Dial(ctx, d.path)
	}
	d.mu.Lock()
	d.last = err
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (d *dialer) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// ready waits until conn is established or its first attempt has failed.
func (d *dialer) ready(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		// A daemon that is about to end accepts a connection and closes it. Then conn is idle
		// and needs another Connect.
		conn.Connect()
		switch state := conn.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return dialFailure(d.path, d.failure())
		default:
			if !conn.WaitForStateChange(ctx, state) {
				return dialFailure(d.path, context.Cause(ctx))
			}
		}
	}
}

// receive returns an iterator over the server stream that open opens for req. The stream is
// opened when the loop begins and closed when it is left. An error is the last element.
func receive[Req, T any](ctx context.Context, open func(context.Context, *Req, ...grpc.CallOption) (grpc.ServerStreamingClient[T], error), req *Req) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := open(ctx, req)
		for err == nil {
			var msg *T
			if msg, err = stream.Recv(); err == nil && !yield(msg, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, FromStatus(err))
		}
	}
}
