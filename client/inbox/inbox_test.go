package inbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fake is a daemon with questions.
type fake struct {
	mu        sync.Mutex
	away      bool
	polite    bool // its streams end without an error
	mute      bool // watchers get no events
	unread    error
	decideErr error
	questions map[string]*pb.Approval
	watchers  map[chan *pb.Approval]bool
	statuses  int
	reads     []string
}

func newFake() *fake {
	return &fake{questions: map[string]*pb.Approval{}, watchers: map[chan *pb.Approval]bool{}}
}

func (f *fake) Status(context.Context) (*pb.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.statuses++
	if f.away {
		return nil, client.ErrNotRunning
	}
	return &pb.StatusResponse{}, nil
}

func (f *fake) PolicySet(context.Context) (*pb.PolicySet, error) {
	if f.away {
		return nil, client.ErrNotRunning
	}
	return &pb.PolicySet{Detail: &pb.PolicyDetail{Workflows: []*pb.PolicyWorkflow{{Name: "me"}, {Name: "ops"}}}}, nil
}

func (f *fake) GetApproval(_ context.Context, id string) (*pb.Approval, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, id)
	switch q := f.questions[id]; {
	case f.unread != nil:
		return nil, f.unread
	case q == nil:
		return nil, client.ErrNotFound
	default:
		return proto.CloneOf(q), nil
	}
}

func (f *fake) WatchApprovals(ctx context.Context) iter.Seq2[*pb.ApprovalEvent, error] {
	return func(yield func(*pb.ApprovalEvent, error) bool) {
		f.mu.Lock()
		told := make(chan *pb.Approval, 100)
		for _, id := range slices.Sorted(maps.Keys(f.questions)) {
			if q := f.questions[id]; q.GetState() == open && !f.mute {
				told <- proto.CloneOf(q)
			}
		}
		f.watchers[told] = true
		f.mu.Unlock()
		for {
			select {
			case q, ok := <-told:
				if !ok {
					if !f.polite {
						yield(nil, client.ErrNotRunning)
					}
					return
				}
				if !yield(&pb.ApprovalEvent{Approval: q}, nil) {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

func (f *fake) Decide(context.Context, *pb.Decision) (*pb.Decided, error) {
	if f.decideErr != nil {
		return nil, f.decideErr
	}
	return &pb.Decided{Approval: &pb.Approval{Id: "A-1", State: approved}}, nil
}

const (
	open     = pb.ApprovalState_APPROVAL_STATE_OPEN
	approved = pb.ApprovalState_APPROVAL_STATE_APPROVED
	expired  = pb.ApprovalState_APPROVAL_STATE_EXPIRED
)

// alter changes how the daemon behaves.
func (f *fake) alter(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// set adds a question to the daemon, or changes it.
func (f *fake) set(id string, change func(*pb.Approval)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.questions[id]
	if q == nil {
		q = &pb.Approval{Id: id, Subject: []byte("subject of " + id), State: open}
		f.questions[id] = q
	}
	if change != nil {
		change(q)
	}
	for told := range f.watchers {
		if !f.mute {
			told <- proto.CloneOf(q)
		}
	}
}

func (f *fake) end(id string, state pb.ApprovalState) {
	f.set(id, func(q *pb.Approval) { q.State = state })
}

// goAway ends every connection until comeBack.
func (f *fake) goAway() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = true
	for told := range f.watchers {
		close(told)
	}
	clear(f.watchers)
}

func (f *fake) comeBack() { f.alter(func() { f.away = false }) }

// surface watches a daemon from the first call of hears on, and records the events that it gets.
type surface struct {
	*fake
	watch func()
	mu    sync.Mutex
	said  []string
}

// play runs script with a surface, in a synctest bubble.
func play(t *testing.T, known []*pb.Approval, script func(*surface)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		s := &surface{fake: newFake()}
		s.watch = sync.OnceFunc(func() {
			watching.Go(func() {
				for e := range Watch(ctx, s.fake, known...) {
					s.mu.Lock()
					s.said = append(s.said, said(e))
					s.mu.Unlock()
				}
			})
		})
		script(s)
	})
}

func said(e Event) string {
	state := strings.ToLower(strings.TrimPrefix(e.Question.GetState().String(), "APPROVAL_STATE_"))
	switch e.Kind {
	case Connected:
		return "connected"
	case Lost:
		return fmt.Sprintf("lost: %v", e.Err)
	case Open:
		return strings.TrimSpace("open " + e.Question.GetId() + " " + e.Question.GetReason())
	}
	return "ended " + e.Question.GetId() + " " + state
}

// hears waits for d and fails unless exactly these events came since the previous call.
func (s *surface) hears(t *testing.T, d time.Duration, want ...string) {
	t.Helper()
	s.watch()
	time.Sleep(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.said, want) {
		t.Errorf("said %q, want %q", s.said, want)
	}
	s.said = nil
}

// sort sorts events whose order is undefined.
func (s *surface) sort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.said)
}

func TestWatch(t *testing.T) {
	play(t, nil, func(s *surface) {
		s.hears(t, 0, "connected")
		s.set("A-1", nil)
		s.set("A-2", nil)
		s.set("A-1", func(q *pb.Approval) { q.Reason = "another reason" })
		s.end("A-2", expired)
		s.end("A-1", approved)
		s.hears(t, 0, "open A-1", "open A-2", "open A-1 another reason", "ended A-2 expired", "ended A-1 approved")
		s.hears(t, time.Hour)
		s.alter(func() {
			if len(s.reads) > 0 {
				t.Errorf("read %q without need", s.reads)
			}
		})
	})
}

// A question that ended while the daemon was away is reported once it is back.
func TestWatchAgain(t *testing.T) {
	play(t, nil, func(s *surface) {
		for _, id := range []string{"A-1", "A-2", "A-3", "A-4"} {
			s.set(id, nil)
		}
		s.hears(t, 0, "connected", "open A-1", "open A-2", "open A-3", "open A-4")
		s.goAway()
		s.hears(t, time.Minute, "lost: thoughtgated is not running")
		s.end("A-1", expired)
		s.alter(func() { delete(s.questions, "A-2") })
		s.set("A-4", func(q *pb.Approval) { q.Subject = []byte("another") })
		s.comeBack()
		s.hears(t, retryLast, "connected", "open A-3", "ended A-4 unspecified", "open A-4")
		time.Sleep(unnamedFirst)
		synctest.Wait()
		s.sort()
		s.hears(t, 0, "ended A-1 expired", "ended A-2 unspecified")
		s.hears(t, time.Hour)
	})
}

// A stream that ends without an error ends the connection too.
func TestWatchEnds(t *testing.T) {
	play(t, nil, func(s *surface) {
		s.alter(func() { s.polite = true })
		s.hears(t, 0, "connected")
		s.goAway()
		s.hears(t, time.Minute, "lost: the daemon closed the connection")
		s.comeBack()
		s.hears(t, retryLast, "connected")
	})
}

// Watch retries with a backoff while the daemon is away.
func TestWatchWaits(t *testing.T) {
	play(t, nil, func(s *surface) {
		s.hears(t, 0, "connected")
		s.goAway()
		s.hears(t, time.Minute, "lost: thoughtgated is not running")
		s.alter(func() {
			if s.statuses < 20 || s.statuses > 50 {
				t.Errorf("asked %d times in a minute", s.statuses)
			}
		})
		s.comeBack()
		s.hears(t, retryLast, "connected")
	})
}

// Watch also waits before it retries a daemon that ends every connection at once.
func TestWatchOfTheUseless(t *testing.T) {
	play(t, nil, func(s *surface) {
		s.hears(t, 0, "connected")
		for range 600 {
			s.goAway()
			s.comeBack()
			time.Sleep(100 * time.Millisecond)
		}
		s.alter(func() {
			if s.statuses < 20 || s.statuses > 50 {
				t.Errorf("asked %d times in a minute", s.statuses)
			}
		})
	})
}

// The end of a question that the caller knew is reported.
func TestWatchKnown(t *testing.T) {
	known := []*pb.Approval{{Id: "A-1", Subject: []byte("subject of A-1")}, {Id: "A-2", Subject: []byte("another")}, {Id: "A-3", Subject: []byte("subject of A-3")}}
	play(t, known, func(s *surface) {
		s.end("A-1", expired)
		s.set("A-2", nil)
		s.set("A-3", nil)
		s.hears(t, 0, "connected", "ended A-2 unspecified", "open A-2", "open A-3")
		s.hears(t, unnamedFirst, "ended A-1 expired")
	})
}

// A question that can't be read, or is waiting but not listed, is read again.
func TestWatchReadsAgain(t *testing.T) {
	play(t, []*pb.Approval{{Id: "A-1", Subject: []byte("subject of A-1")}}, func(s *surface) {
		s.alter(func() { s.mute, s.unread = true, client.ErrTooLarge })
		s.set("A-1", nil)
		s.hears(t, unnamedFirst, "connected")
		s.alter(func() { s.unread = nil })
		s.hears(t, unnamedNext, "open A-1")
		s.end("A-1", expired)
		s.hears(t, unnamedNext, "ended A-1 expired")
		s.hears(t, time.Hour)
	})
}

// An approval that waits for a repeated call is followed to its end.
func TestWatchTheAnswer(t *testing.T) {
	play(t, nil, func(s *surface) {
		s.set("A-1", func(q *pb.Approval) {
			q.State, q.Good = approved, timestamppb.New(time.Now().Add(time.Minute))
		})
		s.hears(t, 0, "connected")
		s.set("A-1", nil)
		s.hears(t, 0, "ended A-1 approved")
		s.hears(t, time.Minute)
		s.hears(t, rereadDelay, "ended A-1 approved")
		s.hears(t, time.Hour)
	})
}

// A caller that leaves the loop gets no more events.
func TestWatchLeft(t *testing.T) {
	for n := 1; n <= 5; n++ {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.set("A-1", func(q *pb.Approval) { q.Subject = []byte("another") })
			f.set("A-2", nil)
			heard := 0
			for range Watch(t.Context(), f, &pb.Approval{Id: "A-1"}, &pb.Approval{Id: "A-3"}) {
				if heard++; heard == n {
					break
				}
			}
			if heard != n {
				t.Errorf("heard %d events, want %d", heard, n)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	f := newFake()
	if done, err := Decide(t.Context(), f, &pb.Decision{Id: "A-1"}); err != nil || done.GetApproval().GetState() != approved {
		t.Errorf("got %v, %v", done, err)
	}
	f.decideErr = client.NewError(client.ReasonDecided, "it has expired")
	f.set("A-1", func(q *pb.Approval) { q.State = expired })
	if done, err := Decide(t.Context(), f, &pb.Decision{Id: "A-1"}); !errors.Is(err, client.ErrDecided) || done.GetApproval().GetState() != expired {
		t.Errorf("got %v, %v; want how it ended", done, err)
	}
	f.decideErr = client.ErrForbidden
	if done, err := Decide(t.Context(), f, &pb.Decision{Id: "A-1"}); !errors.Is(err, client.ErrForbidden) || done != nil {
		t.Errorf("got %v, %v", done, err)
	}
}

func TestWorkflows(t *testing.T) {
	f := newFake()
	if all, err := Workflows(t.Context(), f); err != nil || len(all) != 2 || all["ops"].GetName() != "ops" {
		t.Errorf("got %v, %v", all, err)
	}
	f.away = true
	if all, err := Workflows(t.Context(), f); !errors.Is(err, client.ErrNotRunning) || len(all) > 0 {
		t.Errorf("got %v, %v", all, err)
	}
}
