package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// sessions serves Sessions for the fake daemon.
type sessions struct {
	pb.UnimplementedSessionsServer
	*fakeDaemon
}

func (f sessions) Open(req *pb.OpenSessionRequest, stream grpc.ServerStreamingServer[pb.SessionEvent]) error {
	f.mu.Lock()
	f.opens = append(f.opens, req.GetSpec())
	refuse, mute := f.refuse, f.mute
	f.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	if mute {
		<-stream.Context().Done()
		return nil
	}
	if err := stream.Send(&pb.SessionEvent{Event: &pb.SessionEvent_Opened{Opened: &pb.SessionOpened{ShimSocket: "/run/shim.sock"}}}); err != nil {
		return err
	}
	events := make(chan openEvent)
	f.streams <- events
	for {
		select {
		case ev := <-events:
			if ev.event == nil {
				return ev.err
			}
			if err := stream.Send(ev.event); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (f sessions) Close(_ context.Context, req *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closes = append(f.closes, req.GetId())
	return &pb.CloseSessionResponse{Drained: 2}, nil
}

func (f sessions) Amend(_ context.Context, req *pb.AmendSessionRequest) (*pb.AmendSessionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.amends = append(f.amends, req)
	return &pb.AmendSessionResponse{}, nil
}

// spec returns the spec of the tests' sessions.
func spec() *pb.SessionSpec {
	return &pb.SessionSpec{Id: "s-1", Agent: "custom", Files: []*pb.ConfigFile{{Path: "/c.json", Journal: []byte("how to put it back")}}}
}

// openSession opens a session and returns it with its stream.
func openSession(t *testing.T, f *fakeDaemon, patience time.Duration) (*Session, chan<- openEvent) {
	t.Helper()
	c := f.dial()
	c.reopen = patience
	s, err := c.OpenSession(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s, next(t, f.streams)
}

// next receives a value, and fails the test if none comes.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatal("the channel is closed")
		}
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func shimEvent(n uint32) *pb.SessionEvent {
	return &pb.SessionEvent{Event: &pb.SessionEvent_Shim{Shim: &pb.ShimEvent{Attachment: "t-1", Attached: n}}}
}

func TestSession(t *testing.T) {
	f := newFake(t)
	s, events := openSession(t, f, time.Minute)
	if got := s.Opened().GetShimSocket(); got != "/run/shim.sock" {
		t.Errorf("the shim socket is %q", got)
	}
	events <- openEvent{event: shimEvent(1)}
	if got := next(t, s.Events()); !proto.Equal(got, shimEvent(1)) {
		t.Errorf("got event %v", got)
	}
	out, err := s.Close(t.Context())
	if err != nil || out.GetDrained() != 2 {
		t.Errorf("close: %v, %v", out, err)
	}
	if _, ok := <-s.Events(); ok {
		t.Error("there are events after the end")
	}
	<-s.Done()
	if s.Err() != nil {
		t.Errorf("a closed session ended with %v", s.Err())
	}
	if len(f.closes) != 1 || f.closes[0] != "s-1" || len(f.opens) != 1 || !proto.Equal(f.opens[0], spec()) {
		t.Errorf("opened %v, closed %v", f.opens, f.closes)
	}
}

func TestSessionThatIsRefused(t *testing.T) {
	f := newFake(t)
	f.refuse = NewError(ReasonLocked, "another session has this file")
	if _, err := f.dial().OpenSession(t.Context(), spec()); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v", err)
	}
}

func TestOpeningCanBeGivenUp(t *testing.T) {
	f := newFake(t)
	f.mute = true
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.dial().OpenSession(ctx, spec()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// The context of OpenSession is not that of the session.
func TestSessionOutlivesItsOpening(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := f.dial().OpenSession(ctx, spec())
	if err != nil {
		t.Fatal(err)
	}
	events := next(t, f.streams)
	cancel()
	events <- openEvent{event: shimEvent(3)}
	if got := next(t, s.Events()); got.GetShim().GetAttached() != 3 {
		t.Errorf("got %v", got)
	}
	if _, err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// After a restart of the daemon the same session is reopened.
func TestSessionSurvivesTheDaemon(t *testing.T) {
	for name, tear := range map[string]func(*fakeDaemon, chan<- openEvent){
		"restarted":             func(f *fakeDaemon, _ chan<- openEvent) { f.stop(); f.start() },
		"says it leaves":        func(_ *fakeDaemon, ev chan<- openEvent) { ev <- openEvent{err: NewError(ReasonNotRunning, "leaving")} },
		"ends the stream":       func(_ *fakeDaemon, ev chan<- openEvent) { ev <- openEvent{} },
		"breaks the stream":     func(_ *fakeDaemon, ev chan<- openEvent) { ev <- openEvent{err: errors.New("panic")} },
		"restarted after a bit": func(f *fakeDaemon, _ chan<- openEvent) { f.stop(); time.Sleep(300 * time.Millisecond); f.start() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			s, events := openSession(t, f, time.Minute)
			tear(f, events)
			if ev := next(t, s.Events()); ev.GetOpened() == nil {
				t.Errorf("got %v, want to hear that it is open again", ev)
			}
			events = next(t, f.streams)
			events <- openEvent{event: shimEvent(1)}
			if ev := next(t, s.Events()); ev.GetShim().GetAttached() != 1 {
				t.Errorf("got %v", ev)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if last := f.opens[len(f.opens)-1]; !proto.Equal(last, spec()) {
				t.Errorf("opened again as %v", last)
			}
		})
	}
}

// A running daemon may take a moment to notice that the stream broke; until then the session is
// open to it.
func TestSessionThatSeemsOpen(t *testing.T) {
	f := newFake(t)
	s, events := openSession(t, f, time.Minute)
	f.mu.Lock()
	f.refuse = NewError(ReasonLocked, "it is open")
	f.mu.Unlock()
	events <- openEvent{err: errors.New("torn")}
	deadline := time.Now().Add(time.Minute)
	for opens := 0; opens < 3; {
		if time.Now().After(deadline) {
			t.Fatal("it was not tried again")
		}
		f.mu.Lock()
		opens = len(f.opens)
		f.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	f.mu.Lock()
	f.refuse = nil
	f.mu.Unlock()
	if ev := next(t, s.Events()); ev.GetOpened() == nil {
		t.Errorf("got %v", ev)
	}
}

// If the daemon does not come back, the session ends after a timeout.
func TestSessionIsLost(t *testing.T) {
	f := newFake(t)
	s, _ := openSession(t, f, 200*time.Millisecond)
	began := time.Now()
	f.stop()
	next(t, closed(s.Done()))
	if !errors.Is(s.Err(), ErrNotRunning) || time.Since(began) < 200*time.Millisecond {
		t.Errorf("lost after %v with: %v", time.Since(began), s.Err())
	}
	if _, err := s.Close(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("close: %v", err)
	}
}

// closed turns the closing of a channel into a value.
func closed(done <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() {
		<-done
		out <- true
	}()
	return out
}

// A daemon that refuses to reopen the session ends it at once.
func TestSessionIsRefusedLater(t *testing.T) {
	f := newFake(t)
	s, events := openSession(t, f, time.Minute)
	f.mu.Lock()
	f.refuse = NewError(ReasonInvalid, "no such session")
	f.mu.Unlock()
	events <- openEvent{err: errors.New("torn")}
	next(t, closed(s.Done()))
	if !errors.Is(s.Err(), ErrInvalid) {
		t.Errorf("ended with %v", s.Err())
	}
}

// A daemon that accepts connections and never answers counts toward the same timeout.
func TestSessionIsNotTakenUp(t *testing.T) {
	f := newFake(t)
	s, events := openSession(t, f, 200*time.Millisecond)
	f.mu.Lock()
	f.mute = true
	f.mu.Unlock()
	events <- openEvent{err: errors.New("torn")}
	next(t, closed(s.Done()))
	if !errors.Is(s.Err(), ErrNotRunning) {
		t.Errorf("ended with %v", s.Err())
	}
}

func TestCloseWhileTorn(t *testing.T) {
	f := newFake(t)
	s, _ := openSession(t, f, time.Minute)
	f.stop()
	if _, err := s.Close(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("close: %v", err)
	}
	next(t, closed(s.Done()))
	if s.Err() != nil {
		t.Errorf("a closed session ended with %v", s.Err())
	}
}

// Nobody has to read the events: the newest are kept, and the stream is still read.
func TestUnreadEvents(t *testing.T) {
	f := newFake(t)
	s, events := openSession(t, f, time.Minute)
	const sent = eventQueue + 100
	for i := range sent {
		events <- openEvent{event: shimEvent(uint32(i + 1))}
	}
	deadline := time.Now().Add(time.Minute)
	for last := uint32(0); last != sent; {
		select {
		case ev := <-s.Events():
			if n := ev.GetShim().GetAttached(); n <= last {
				t.Fatalf("event %d came after %d", n, last)
			} else {
				last = n
			}
		default:
			if time.Now().After(deadline) {
				t.Fatalf("the newest event is not there; the last was %d", last)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// A daemon that reopens the session gets what was amended, but not what was refused.
func TestAmend(t *testing.T) {
	f := newFake(t)
	s, events := openSession(t, f, time.Minute)
	files := []*pb.ConfigFile{{Path: "/new.json", Journal: []byte("n")}, {Path: "/c.json", Journal: []byte("another way")}}
	remotes := []*pb.RemoteServer{{Server: "r", Address: "https://r.test"}}
	past := []*pb.UngovernedServer{{Server: "late", Path: "/c.json", How: "added"}}
	if err := s.Amend(t.Context(), files, remotes, past); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	want := &pb.AmendSessionRequest{Id: "s-1", Files: files, Remotes: remotes, Ungoverned: past}
	if len(f.amends) != 1 || !proto.Equal(f.amends[0], want) {
		t.Errorf("the daemon was told %v", f.amends)
	}
	f.refuse = NewError(ReasonNotRunning, "stopping")
	f.mu.Unlock()
	if err := s.Amend(t.Context(), nil, nil, nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("refused: %v", err)
	}
	f.mu.Lock()
	f.refuse = nil
	f.mu.Unlock()
	events <- openEvent{err: NewError(ReasonNotRunning, "stopping")}
	next(t, f.streams)
	f.mu.Lock()
	defer f.mu.Unlock()
	again := spec()
	again.Files, again.Remotes, again.Ungoverned = files, remotes, past
	if len(f.opens) != 2 || !proto.Equal(f.opens[1], again) {
		t.Errorf("opened again with %v, want %v", f.opens[1], again)
	}
}
