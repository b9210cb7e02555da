// Package client is how a Go program speaks to thoughtgated.
//
// A [Client] is one connection to the control socket of the daemon that serves
// this user. Its methods are the calls of the API; they take and return the
// generated messages of proto/thoughtgate/v1, and their errors can be asked
// with [errors.Is] for the sentinels of this package. Two things are more than a
// call: a [Session] is held open for as long as an agent runs, and the streams are
// iterators that end when the loop over them is left.
//
// The socket is only used when it, its folder and the process behind it belong
// to this user.
//
// What is exported here follows the API: it grows, and does not change.
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

// Protocol is the version of the protocol that this package speaks. Shim and
// daemon must agree on it exactly.
const Protocol = 1

// MaxMessage is the largest message of the API, in bytes, either way. It leaves
// room for one line of 10 MiB and what is said about it.
const MaxMessage = 16 << 20

// Window is how many bytes either side may send on a connection before the
// other has read them.
const Window = 1 << 20

// Client is a connection to thoughtgated. It is safe for concurrent use, and
// connects again by itself when the daemon was restarted; a call made while
// there is no daemon fails with [ErrNotRunning].
type Client struct {
	path   string
	conn   *grpc.ClientConn
	reopen time.Duration // how long a session looks for a daemon that went away
}

// Option changes how [Dial] connects.
type Option func(*options)

type options struct {
	path   string
	getenv func(string) string
	heard  func(build string)
}

// WithSocket names the socket to connect to. Without it the environment
// variable THOUGHTGATE_CONTROL does, and without that the runtime folder.
func WithSocket(path string) Option {
	return func(o *options) { o.path = path }
}

// WithEnv makes Dial look up environment variables with getenv.
func WithEnv(getenv func(string) string) Option {
	return func(o *options) { o.getenv = getenv }
}

// WithBuild makes the client tell of the daemon's build, as soon as the first
// answer shows it and again whenever another daemon answers. heard must be safe
// for concurrent use.
func WithBuild(heard func(build string)) Option {
	return func(o *options) { o.heard = heard }
}

// Dial connects to thoughtgated and returns when the connection stands. An
// error is [ErrNotRunning] when nobody listens at the socket; any other says
// what is wrong with it. The caller closes the client.
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

// Over returns a client that speaks over conn, at whose other end a program of
// ours serves a part of the API: calls of the rest fail with [ErrVersion]. The
// client owns conn from then on.
func Over(ctx context.Context, conn net.Conn) (*Client, error) {
	c, err := connect(ctx, "", &dialer{conn: conn})
	if err != nil {
		conn.Close()
	}
	return c, err
}

// A daemon that was killed listens until the kernel comes to close its socket,
// and drops who connects meanwhile. Who was dropped looks again after dropPause,
// for dropPatience at most.
const (
	dropPatience = 2 * time.Second
	dropPause    = 20 * time.Millisecond
)

// connect makes a client of what d dials, and returns when that stands.
func connect(ctx context.Context, path string, d *dialer, more ...grpc.DialOption) (*Client, error) {
	end := time.Now().Add(dropPatience)
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
		grpc.WithDisableRetry(), // a call is made once: the daemon decides what repeating means
		grpc.WithIdleTimeout(0),
		grpc.WithChainUnaryInterceptor(callErrors),
		// A fixed window switches off the estimate of the line's capacity, which
		// would send a ping along with every few messages.
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

// Socket returns the path of the socket that the client is connected to.
func (c *Client) Socket() string { return c.path }

// Close ends the connection, and with it every stream on it.
func (c *Client) Close() error { return c.conn.Close() }

// dialer connects to one socket and remembers why it could not: grpc reports
// only text.
type dialer struct {
	path string

	mu   sync.Mutex
	conn net.Conn // there already, and to be used once
	last error    // of the latest attempt, nil after a good one
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

// ready waits until conn stands or its first attempt has failed.
func (d *dialer) ready(ctx context.Context, conn *grpc.ClientConn) error {
	for {
		// A daemon that is about to end takes a connection in and sends it away:
		// then it is idle again, and nobody else would try once more.
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

// receive turns the server stream that open returns for req into an iterator. The
// stream is opened when the loop begins and ended when it is left; after an error there
// is nothing more.
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
