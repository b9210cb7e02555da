package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// reopenFor is how long a session waits for a new daemon. A daemon waits as long before it
	// restores the files of such a session.
	reopenFor = 15 * time.Second

	// reopenEvery is the delay between two attempts.
	reopenEvery = 50 * time.Millisecond

	// eventQueue is the maximum number of buffered events. If the queue is full, the oldest is
	// dropped: each event contains the number of attachments, so the newest is enough, and the
	// stream must be read whether or not the caller reads.
	eventQueue = 256
)

// Session is a wrapped run of an agent, as registered with the daemon. It lasts as long as its
// stream: when this process dies the stream breaks, and the daemon drains the session's
// attachments and restores its files.
//
// When the daemon ends instead, the session is reopened under its id as soon as another daemon
// runs, for up to 15 seconds. Methods are safe for concurrent use.
type Session struct {
	client *Client
	events chan *pb.SessionEvent
	done   chan struct{}
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	opened *pb.SessionOpened
	err    error // why it ended

	specs sync.Mutex // held during a change, so that the daemon never gets an older spec
	spec  *pb.SessionSpec
}

// errClosed is the cause with which Close cancels the stream.
var errClosed = errors.New("session closed")

// OpenSession opens a session and returns when the daemon has written its journal. ctx applies
// to the opening only. The caller must close the session.
func (c *Client) OpenSession(ctx context.Context, spec *pb.SessionSpec) (*Session, error) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Session{
		client: c,
		spec:   proto.CloneOf(spec),
		events: make(chan *pb.SessionEvent, eventQueue),
		done:   make(chan struct{}),
		cancel: cancel,
	}
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	stream, opened, err := s.open(life)
	if !stop() {
		err = fmt.Errorf("open session: %w", context.Cause(ctx))
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	s.opened = opened
	go s.run(life, stream)
	return s, nil
}

// Opened returns what the daemon reported when it last opened the session.
func (s *Session) Opened() *pb.SessionOpened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Events reports when a tg-shim attaches or leaves, and with an Opened event that a restarted
// daemon has reopened the session. The channel is closed when the session ends; Err says why.
// It need not be read: beyond 256 buffered events the oldest are dropped.
func (s *Session) Events() <-chan *pb.SessionEvent { return s.events }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended. It is nil before its end and after Close.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Amend reports to the daemon files that are rewritten later or again, each with its journal
// and in place of one with the same path, servers behind an address, each in place of one of the
// same name, and the complete list of the servers that run
// ungoverned. It returns when that is on disk. A daemon that reopens the session gets it too.
func (s *Session) Amend(ctx context.Context, files []*pb.ConfigFile, remotes []*pb.RemoteServer, ungoverned []*pb.UngovernedServer) error {
	s.specs.Lock()
	defer s.specs.Unlock()
	_, err := pb.NewSessionsClient(s.client.conn).Amend(ctx, &pb.AmendSessionRequest{Id: s.spec.GetId(), Files: files, Remotes: remotes, Ungoverned: ungoverned})
	if err != nil {
		return err
	}
	next := proto.CloneOf(s.spec)
	next.Ungoverned = ungoverned
	for _, f := range files {
		next.Files = slices.DeleteFunc(next.Files, func(have *pb.ConfigFile) bool { return have.GetPath() == f.GetPath() })
		next.Files = append(next.Files, f)
	}
	for _, r := range remotes {
		next.Remotes = slices.DeleteFunc(next.Remotes, func(have *pb.RemoteServer) bool { return have.GetServer() == r.GetServer() })
		next.Remotes = append(next.Remotes, r)
	}
	s.spec = next
	return nil
}

// currentSpec returns the spec for a daemon that reopens the session.
func (s *Session) currentSpec() *pb.SessionSpec {
	s.specs.Lock()
	defer s.specs.Unlock()
	return s.spec
}

// Close has the daemon drain the session's attachments, which takes up to ten seconds, and ends
// the session. The caller must restore the files, whether or not there was an error. Close may
// be called again.
func (s *Session) Close(ctx context.Context) (*pb.CloseSessionResponse, error) {
	out, err := s.Drain(ctx)
	s.cancel(errClosed)
	<-s.done
	return out, err
}

// Drain has the daemon drain the session's attachments, which takes up to ten seconds. The
// session stays open. Unless Finish ends it, the daemon restores the files when it ends.
func (s *Session) Drain(ctx context.Context) (*pb.CloseSessionResponse, error) {
	return pb.NewSessionsClient(s.client.conn).Close(ctx, &pb.CloseSessionRequest{Id: s.currentSpec().GetId()})
}

// Finish ends a drained session. restored says that the files have been restored; their locks
// must still be held, and the session has ended when Finish returns. Otherwise, or after an
// error, the daemon restores the files once it gets the locks.
func (s *Session) Finish(ctx context.Context, restored bool) error {
	var err error
	if restored {
		_, err = pb.NewSessionsClient(s.client.conn).Close(ctx, &pb.CloseSessionRequest{Id: s.currentSpec().GetId(), Restored: true})
	}
	s.cancel(errClosed)
	<-s.done
	return err
}

// open opens the stream and reads the daemon's first message.
func (s *Session) open(ctx context.Context) (grpc.ServerStreamingClient[pb.SessionEvent], *pb.SessionOpened, error) {
	stream, err := pb.NewSessionsClient(s.client.conn).Open(ctx, &pb.OpenSessionRequest{Spec: s.currentSpec()})
	if err != nil {
		return nil, nil, FromStatus(err)
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, nil, FromStatus(err)
	}
	if first.GetOpened() == nil {
		return nil, nil, &Error{Reason: ReasonVersion, Message: "open session: the daemon did not say first that it is open", Code: codes.FailedPrecondition}
	}
	return stream, first.GetOpened(), nil
}

// run reads the stream, reopens it when it breaks, and returns when the session ends.
func (s *Session) run(ctx context.Context, stream grpc.ServerStreamingClient[pb.SessionEvent]) {
	defer close(s.done)
	defer close(s.events)
	defer s.cancel(nil)
	for {
		torn := s.follow(stream)
		if errors.Is(context.Cause(ctx), errClosed) {
			return
		}
		opened, err := s.reopen(ctx, &stream)
		if errors.Is(context.Cause(ctx), errClosed) {
			return
		}
		s.mu.Lock()
		if err != nil {
			s.err = fmt.Errorf("session lost (%v): %w", torn, err)
		} else {
			s.opened = opened
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
		s.queueEvent(&pb.SessionEvent{Event: &pb.SessionEvent_Opened{Opened: opened}})
	}
}

// follow passes events on until the stream ends, and returns its error.
func (s *Session) follow(stream grpc.ServerStreamingClient[pb.SessionEvent]) error {
	for {
		ev, err := stream.Recv()
		if err != nil {
			return FromStatus(err)
		}
		s.queueEvent(ev)
	}
}

// reopen reopens the session as soon as a daemon runs.
func (s *Session) reopen(ctx context.Context, stream *grpc.ServerStreamingClient[pb.SessionEvent]) (*pb.SessionOpened, error) {
	late := time.Now().Add(s.client.reopen)
	pause := time.NewTicker(reopenEvery)
	defer pause.Stop()
	for {
		opened, err := s.attempt(ctx, time.Until(late), stream)
		// A daemon that still runs may not have noticed that the stream broke: to it the
		// session is still open.
		again := errors.Is(err, ErrNotRunning) || errors.Is(err, ErrLocked)
		if err == nil || !again || !time.Now().Before(late) {
			return opened, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-pause.C:
		}
	}
}

// attempt tries once to reopen the session, with a timeout of patience.
func (s *Session) attempt(ctx context.Context, patience time.Duration, stream *grpc.ServerStreamingClient[pb.SessionEvent]) (*pb.SessionOpened, error) {
	s.client.conn.ResetConnectBackoff()
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(patience, cancel)
	next, opened, err := s.open(ctx)
	if !timer.Stop() {
		err = notRunning("nobody took the session up in time")
	}
	if err != nil {
		cancel()
		return nil, err
	}
	*stream = next // its context ends with the session's
	return opened, nil
}

// queueEvent queues ev. If the queue is full it replaces the oldest event. Only run may call it.
func (s *Session) queueEvent(ev *pb.SessionEvent) {
	for {
		select {
		case s.events <- ev:
			return
		default:
		}
		select {
		case <-s.events:
		default:
		}
	}
}
