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
	// reopenFor is how long a session looks for a daemon that went away. The
	// daemon waits as long before it restores the files of such a session.
	reopenFor = 15 * time.Second

	// reopenEvery is the pause between two attempts.
	reopenEvery = 50 * time.Millisecond

	// eventQueue is how many events wait for a reader. When it is full the
	// oldest is dropped: each carries the number of shims, so the newest one is
	// enough, and the stream must be read on whatever the caller does.
	eventQueue = 256
)

// Session is a wrapped run of an agent that the daemon watches over. It lives
// as long as its stream: when this process dies the stream tears, and the
// daemon drains the session's shims and restores its files.
//
// When the daemon goes away instead, the session is opened again by its id as
// soon as there is one, for up to 15 seconds. Methods are safe for concurrent
// use.
type Session struct {
	client *Client
	events chan *pb.SessionEvent
	done   chan struct{}
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	opened *pb.SessionOpened
	err    error // why it ended

	specs sync.Mutex // held over a change, so that the daemon never gets an older one
	spec  *pb.SessionSpec
}

// errClosed is the cause with which Close ends the stream.
var errClosed = errors.New("session closed")

// OpenSession opens a session and returns when the daemon has taken it on,
// that is, when its journal is written. ctx bounds the opening only. The caller
// closes the session.
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

// Opened returns what the daemon said when it took the session on last.
func (s *Session) Opened() *pb.SessionOpened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// Events tells which shims come and go, and with an Opened event that the
// session was taken on again by a daemon that had gone away. The channel is
// closed when the session is over; Err says why. It need not be read: past 256
// waiting events the oldest are dropped.
func (s *Session) Events() <-chan *pb.SessionEvent { return s.events }

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended: nil while it has not and after Close.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Amend tells the daemon of files that are rewritten only now, or anew, each with
// its journal and in the place of one of the same path, and of the servers that
// run past the session, all of them. It returns when that is safe on disk. A
// daemon that takes the session up again is told as well.
func (s *Session) Amend(ctx context.Context, files []*pb.ConfigFile, ungoverned []*pb.UngovernedServer) error {
	s.specs.Lock()
	defer s.specs.Unlock()
	_, err := pb.NewSessionsClient(s.client.conn).Amend(ctx, &pb.AmendSessionRequest{Id: s.spec.GetId(), Files: files, Ungoverned: ungoverned})
	if err != nil {
		return err
	}
	next := proto.CloneOf(s.spec)
	next.Ungoverned = ungoverned
	for _, f := range files {
		next.Files = slices.DeleteFunc(next.Files, func(have *pb.ConfigFile) bool { return have.GetPath() == f.GetPath() })
		next.Files = append(next.Files, f)
	}
	s.spec = next
	return nil
}

// currentSpec is what a daemon is told that takes the session up.
func (s *Session) currentSpec() *pb.SessionSpec {
	s.specs.Lock()
	defer s.specs.Unlock()
	return s.spec
}

// Close has the daemon drain the session's shims, which takes up to ten
// seconds, and ends the session. Restoring the files is then up to the caller,
// whether or not there was an error. Close may be called again.
func (s *Session) Close(ctx context.Context) (*pb.CloseSessionResponse, error) {
	out, err := s.Drain(ctx)
	s.cancel(errClosed)
	<-s.done
	return out, err
}

// Drain has the daemon drain the session's shims, which takes up to ten seconds. The
// session goes on, and its end tells the daemon to put the files back, unless
// Finish ends it.
func (s *Session) Drain(ctx context.Context) (*pb.CloseSessionResponse, error) {
	return pb.NewSessionsClient(s.client.conn).Close(ctx, &pb.CloseSessionRequest{Id: s.currentSpec().GetId()})
}

// Finish ends a drained session. With restored the files have been put back, and
// their locks must be held still: the session is over then when Finish returns. Else,
// or after an error, the daemon puts back what is to be put back once it gets the
// locks.
func (s *Session) Finish(ctx context.Context, restored bool) error {
	var err error
	if restored {
		_, err = pb.NewSessionsClient(s.client.conn).Close(ctx, &pb.CloseSessionRequest{Id: s.currentSpec().GetId(), Restored: true})
	}
	s.cancel(errClosed)
	<-s.done
	return err
}

// open opens the stream and reads the daemon's first word.
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

// run reads the stream, opens it again when it tore, and ends with the session.
func (s *Session) run(ctx context.Context, stream grpc.ServerStreamingClient[pb.SessionEvent]) {
	defer close(s.done)
	defer close(s.events)
	defer s.cancel(nil)
	for {
		torn := s.follow(stream)
		if errors.Is(context.Cause(ctx), errClosed) {
			return
		}
		opened, err := s.again(ctx, &stream)
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
		s.tell(&pb.SessionEvent{Event: &pb.SessionEvent_Opened{Opened: opened}})
	}
}

// follow passes events on until the stream ends, and says how it did.
func (s *Session) follow(stream grpc.ServerStreamingClient[pb.SessionEvent]) error {
	for {
		ev, err := stream.Recv()
		if err != nil {
			return FromStatus(err)
		}
		s.tell(ev)
	}
}

// again opens the session anew, as soon as there is a daemon.
func (s *Session) again(ctx context.Context, stream *grpc.ServerStreamingClient[pb.SessionEvent]) (*pb.SessionOpened, error) {
	late := time.Now().Add(s.client.reopen)
	pause := time.NewTicker(reopenEvery)
	defer pause.Stop()
	for {
		opened, err := s.attempt(ctx, time.Until(late), stream)
		// One that lives may not have seen yet that the stream tore: to it the
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

// attempt opens the session once more and gives up after patience.
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

// tell puts ev into the queue, in place of the oldest when it is full. Only run
// calls it.
func (s *Session) tell(ev *pb.SessionEvent) {
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
