package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/private"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// lastCall is how long a shim that can't serve answers requests before it
	// leaves: an agent learns more from an answer than from a closed pipe.
	lastCall = time.Second

	// lastWords bounds the wait for what an agent has asked to be read. A daemon
	// that hangs can hold reading up for longestSend.
	lastWords = 2 * longestSend

	// finish is how long answers may take that are on their way when the daemon
	// asks the shim to leave.
	finish = 2 * time.Second

	// farewell bounds the wait for the daemon to take note of the end.
	farewell = 500 * time.Millisecond
)

// shim is one run of the program.
type shim struct {
	options
	stdin          *child.ReadEnd
	stdout, stderr io.Writer
	log            *slog.Logger
	missing        error // why the server's program was not found
}

// run serves until the agent or the server has gone, and returns the exit status.
func (s *shim) run() int {
	if err := child.BecomeSubreaper(); err != nil {
		s.log.Debug("orphans of the server will not be found", "err", err)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE) // an agent that has gone is an error of Write, not our death
	ctx, cancel := context.WithCancel(context.Background())
	var reaping sync.WaitGroup
	reaping.Go(func() { child.ReapOrphans(ctx) })
	defer reaping.Wait()
	defer cancel()

	l, closeClient, err := s.attach(ctx, signals)
	defer closeClient()
	if errors.Is(err, errSignalled) {
		return child.ExitOurs
	}
	var said *client.Error
	if errors.As(err, &said) && errors.Is(said, client.ErrWithheld) {
		fmt.Fprintf(s.stderr, "tg-shim: %s\n", said.Message)
		s.decline(mcp.CodeWithheld, "Not executed: "+said.Message)
		return child.ExitOurs
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "tg-shim: %v\nServer %q is not started: nothing may pass unjudged. Start the daemon with \"tgctl daemon start\", then start the server again.\n", err, s.server)
		s.decline(mcp.CodeGate, "Not executed: ThoughtGate's daemon is not there; start it with \"tgctl daemon start\"")
		return child.ExitOurs
	}
	server, err := s.start(l)
	if err != nil {
		fmt.Fprintf(s.stderr, "tg-shim: server %q: %v\n", s.server, err)
		code := child.StartExit(err)
		s.decline(mcp.CodeServerStart, fmt.Sprintf("The MCP server could not be started: %v", err))
		l.leave(code, err.Error(), pb.Ended_ENDED_FAILED)
		_ = l.run(ctx)
		return code
	}
	// What passes through us is not left in a core file; the server, which has
	// been started, keeps the limit it would have had.
	if err := private.NoCore(); err != nil {
		s.log.Warn("a crash may leave a core file", "err", err)
	}
	return s.serve(ctx, l, server, signals)
}

var errSignalled = errors.New("ended by a signal")

// attach joins the daemon. It comes before the server is started, so that a
// server never runs ungoverned.
func (s *shim) attach(ctx context.Context, signals <-chan os.Signal) (*link, func(), error) {
	var c *client.Client
	dial := func(ctx context.Context, hello *pb.Hello) (*client.Attachment, error) {
		if c == nil {
			var err error
			if c, err = client.Dial(ctx, client.WithSocket(s.socket)); err != nil {
				return nil, err
			}
		}
		return c.Attach(ctx, hello)
	}
	closeClient := func() {
		if c == nil {
			return
		}
		closed := make(chan struct{})
		go func() { // ends with the process when the daemon hangs and takes no farewell
			defer close(closed)
			c.Close()
		}()
		await(closed, farewell)
	}
	hello, err := s.hello()
	if err != nil {
		return nil, closeClient, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with done
		select {
		case <-signals:
			cancel(errSignalled)
		case <-done:
		}
	}()
	l, err := connect(ctx, dial, hello, s.log)
	if errors.Is(context.Cause(ctx), errSignalled) {
		err = errSignalled
	}
	return l, closeClient, err
}

func (s *shim) hello() (*pb.Hello, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	// A command that can't be found is told to the agent when it is started.
	var executable string
	if s.extension == "" {
		executable, s.missing = child.Resolve(s.command[0], os.Environ(), "")
	}
	hello := &pb.Hello{
		Protocol: client.Protocol, Build: release, Attachment: hex.EncodeToString(id[:]),
		Session: s.session, Server: s.server, Executable: executable, Command: s.command, Cwd: cwd, Profile: s.profile,
		From: s.from, Sets: s.sets, Extension: s.extension, Inspects: true, Together: true,
	}
	if s.patience > 0 {
		hello.Patience = durationpb.New(s.patience)
	}
	return hello, nil
}

// hearOut waits until what the agent has written was read and handled, so that
// what it had asked by then is answered. gone is closed when nothing more is
// read. An agent that asks without end is heard for as much as a pipe holds. A
// terminal, or a socket that is also standard output, can't be asked whether it
// holds more: its unread requests learn of the end from the end of the output.
func (s *shim) hearOut(gone <-chan struct{}) {
	if s.stdin.End() == nil {
		await(gone, lastWords)
	}
}

// decline answers requests with an error until the agent hangs up, or for
// lastCall and what was written by then.
func (s *shim) decline(code int, text string) {
	var out sync.Mutex
	gone := make(chan struct{})
	go func() { // ends with the agent or the process
		defer close(gone)
		reader := wire.NewReader(s.stdin, wire.MaxMessage)
		var line wire.Line
		for reader.Next(&line) == nil {
			answer := func(id []byte, asks bool) {
				if asks {
					out.Lock()
					fmt.Fprintf(s.stdout, "%s\n", mcp.RefuseUnread(id, code, text))
					out.Unlock()
				}
			}
			var e wire.Envelope
			switch {
			case line.TooLong:
			case wire.Read(line.Data, wire.FromAgent, &e) != nil:
				wire.Batch(line.Data, wire.FromAgent, answer)
			default:
				answer(e.ID.Of(line.Data), e.Kind == wire.Request)
			}
		}
	}()
	select {
	case <-gone:
	case <-time.After(lastCall):
		s.hearOut(gone)
	}
	out.Lock() // an answer that is being written is written whole; none follows
}

var (
	errAgentGone  = errors.New("the agent has gone")
	errServerGone = errors.New("the server has ended")
	errGateLost   = errors.New("the daemon is gone")
)
