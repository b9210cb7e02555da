package api

import (
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// receiver hands out what comes up a shim's stream, one message after the other.
// Usually whoever handles the messages reads them, too. While that one has been at a
// message for long, somebody else reads on: what follows may be that nobody waits for
// the verdict any more.
type receiver struct {
	stream    grpc.BidiStreamingServer[pb.Up, pb.Down]
	cancelled func(seq uint64) // told of a line that is taken back, before what came ahead of that is handled
	alarm     *time.Timer

	mu      sync.Mutex // guards what follows
	changed sync.Cond
	busy    bool // a message is being handled
	ahead   bool // somebody else reads, from now on
	over    bool // nobody handles messages any more
	queue   []*pb.Up
	size    int // bytes of the messages in queue
	err     error
}

const (
	// lookUp is how long a message may be handled before somebody else reads on.
	lookUp = 100 * time.Millisecond
	// mostAhead is how much is read ahead, in bytes, beside one message.
	mostAhead = 1 << 20
)

func (s *Server) newReceiver(stream grpc.BidiStreamingServer[pb.Up, pb.Down], cancelled func(uint64)) *receiver {
	r := &receiver{stream: stream, cancelled: cancelled}
	r.changed.L = &r.mu
	r.alarm = time.AfterFunc(lookUp, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.busy && !r.ahead && !r.over {
			r.ahead = true
			s.receivers.Go(r.readOn)
		}
	})
	return r
}

// next returns the next message. The one before has been handled.
func (r *receiver) next() (*pb.Up, error) {
	r.alarm.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	if !r.ahead {
		r.mu.Unlock()
		up, err := r.stream.Recv()
		r.mu.Lock()
		r.busy = true
		r.alarm.Reset(lookUp)
		return up, err
	}
	for len(r.queue) == 0 && r.err == nil {
		r.changed.Wait()
	}
	if len(r.queue) == 0 {
		return nil, r.err
	}
	up := r.queue[0]
	r.queue, r.size = r.queue[1:], r.size-proto.Size(r.queue[0])
	r.changed.Broadcast()
	return up, nil
}

// readOn reads until the stream ends, which it does when its handler returns.
func (r *receiver) readOn() {
	for {
		up, err := r.stream.Recv()
		if c := up.GetCancel(); c != nil {
			r.cancelled(c.GetSeq())
		}
		r.mu.Lock()
		if r.err = err; err == nil {
			r.queue, r.size = append(r.queue, up), r.size+proto.Size(up)
		}
		r.changed.Broadcast()
		for r.size > mostAhead && !r.over {
			r.changed.Wait()
		}
		over := r.over
		r.mu.Unlock()
		if over || err != nil {
			return
		}
	}
}

// stop ends the receiver, whose messages nobody handles any more.
func (r *receiver) stop() {
	r.alarm.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.changed.Broadcast()
}
