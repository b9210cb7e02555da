package api

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/supervise"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lookAgain is how often a follower asks whether what it follows is still kept,
// or has been put in place anew: nobody tells it.
const lookAgain = time.Second

// Logs is open to everybody who may look: it is what the program chose to write,
// and nothing of a call that was not in it.
func (v processesService) Logs(req *pb.LogsRequest, stream grpc.ServerStreamingServer[pb.LogLine]) error {
	f := &follower{s: v.s, req: req, stream: stream}
	tail, ok := f.tail()
	if !ok {
		return notKept(req.GetKind(), req.GetName())
	}
	lines := tail.Lines()
	if last := int(req.GetLast()); last > 0 && len(lines) > last {
		lines = lines[len(lines)-last:]
	}
	if err := f.send(lines...); err != nil || !req.GetFollow() {
		return err
	}
	return v.s.standing(stream.Context(), func(ctx context.Context) error { return f.follow(ctx, tail) })
}

// follower reads the standard error of one program to somebody.
type follower struct {
	s      *Server
	req    *pb.LogsRequest
	stream grpc.ServerStreamingServer[pb.LogLine]
	number uint64 // of the line that was sent last
}

func (f *follower) tail() (*supervise.Tail, bool) {
	for _, fleet := range f.s.Fleets {
		if tail, ok := fleet.Tail(f.req.GetKind(), f.req.GetName(), f.req.GetId()); ok {
			return tail, true
		}
	}
	return nil, false
}

func (f *follower) send(lines ...supervise.Line) error {
	for _, line := range lines {
		if line.Number <= f.number {
			continue
		}
		f.number = line.Number
		if err := f.stream.Send(&pb.LogLine{Number: line.Number, Time: timestamppb.New(line.Time), Text: line.Text}); err != nil {
			return err
		}
	}
	return nil
}

// follow sends each line as it comes until ctx ends or the program is kept no
// more. One that was put in place anew, as a newer version is, is followed on.
func (f *follower) follow(ctx context.Context, tail *supervise.Tail) error {
	for {
		if err := f.followOne(ctx, tail); err != nil || ctx.Err() != nil {
			return err
		}
		next, ok := f.tail()
		switch {
		case !ok && f.req.GetKind() == supervise.KindAgent:
			return nil // its run is over
		case !ok:
			return notKept(f.req.GetKind(), f.req.GetName())
		case next == tail:
			return nil // it has ended for good
		}
		tail, f.number = next, 0
	}
}

// followOne sends the lines of one tail for as long as there are to be more.
func (f *follower) followOne(ctx context.Context, tail *supervise.Tail) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer cancel()
		f.await(ctx, tail)
	})
	defer watch.Wait()
	defer cancel()
	for line := range tail.Follow(ctx, f.number) {
		if err := f.send(line); err != nil {
			return err
		}
	}
	return f.send(tail.Lines()...) // what was written last
}

// await returns when there is another tail than this one, or nothing will be
// written to it any more.
func (f *follower) await(ctx context.Context, tail *supervise.Tail) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		if now, ok := f.tail(); !ok || now != tail {
			return
		}
		i, ok := f.s.kept(f.req.GetKind(), f.req.GetName(), f.req.GetId())
		if ok && i.Kind == supervise.KindAgent && (i.Status.State == supervise.Stopped || i.Status.State == supervise.Failed) {
			return // an agent's run has one life
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
