package api

import (
	"crypto/sha256"
	"sync"

	"google.golang.org/grpc"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// outbox keeps what is to go down one shim's stream until it is sent, so that
// who decides never waits for who reads. It holds at most one message for each
// line the shim may have submitted, which its window and limits bound, what a
// shared server says, which package sharing bounds, and what a
// reload has made of the agent's lists.
type outbox struct {
	stream   grpc.ServerStreamingServer[pb.Down]
	together bool // the shim takes several messages in one

	sending sync.Mutex // held while sending, so that the order of the queue is kept

	mu     sync.Mutex // guards what follows; taken after sending
	queue  []*pb.Down
	size   int  // bytes of the lines in queue
	corked bool // flush will be called soon: run need not wake up
	closed bool
	wake   sync.Cond
}

func newOutbox(stream grpc.ServerStreamingServer[pb.Down], together bool) *outbox {
	o := &outbox{stream: stream, together: together}
	o.wake.L = &o.mu
	return o
}

// verdict queues a verdict.
func (o *outbox) verdict(v gate.Verdict) {
	m := &pb.Verdict{Seq: v.Seq, Reason: v.Reason, Approval: v.Approval}
	switch v.Move {
	case gate.Forward:
		m.Action = pb.Action_ACTION_FORWARD
		digest := sha256.Sum256(v.Line)
		m.Digest = digest[:]
		if v.Replaced {
			m.Replacement = v.Line
		}
		m.Notice, m.Inspect = v.Notice, v.Inspect
	case gate.Ask:
		m.Action = pb.Action_ACTION_PENDING
	default:
		m.Action = pb.Action_ACTION_DENY
		m.Answer = v.Answer
	}
	if v.Move == gate.Ask {
		o.uncork() // the shim must hear it now, whatever is found of other lines
	}
	o.add(&pb.Down{Msg: &pb.Down_Verdict{Verdict: m}})
}

// heard queues the word that an observation is in the memory.
func (o *outbox) heard(echo uint64) {
	o.add(&pb.Down{Msg: &pb.Down_Heard{Heard: &pb.Heard{Echo: echo}}})
}

// deliver queues a line for the agent.
func (o *outbox) deliver(line []byte) {
	o.add(&pb.Down{Msg: &pb.Down_Deliver{Deliver: &pb.Deliver{Line: line}}})
}

// drain queues the request to leave.
func (o *outbox) drain(reason string) {
	o.add(&pb.Down{Msg: &pb.Down_Drain{Drain: &pb.Drain{Reason: reason}}})
}

func (o *outbox) add(m *pb.Down) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.queue = append(o.queue, m)
		o.size += sizeOf(m)
		if !o.corked {
			o.wake.Signal()
		}
	}
}

// cork says that the caller will call flush when it has done what may add to
// the queue.
func (o *outbox) cork() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.corked = true
}

func (o *outbox) uncork() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.corked = false
}

// small is how many bytes of lines surely fit into what the transport takes
// without waiting for the shim to read.
const small = 16 << 10

// flush sends what is queued from the caller's goroutine, which saves the way
// over another one, if nobody is sending already and it surely need not wait.
func (o *outbox) flush() {
	alone := o.sending.TryLock()
	o.mu.Lock()
	o.corked = false
	var batch []*pb.Down
	if alone && o.size < small && len(o.queue) < 64 {
		batch = o.take()
	} else if len(o.queue) > 0 {
		o.wake.Signal()
	}
	o.mu.Unlock()
	if alone {
		o.send(batch)
		o.sending.Unlock()
	}
}

// run sends what flush has left until the outbox is closed or the stream has torn.
func (o *outbox) run() {
	for {
		o.mu.Lock()
		for (len(o.queue) == 0 || o.corked) && !o.closed {
			o.wake.Wait()
		}
		closed := o.closed
		o.mu.Unlock()
		if closed {
			return
		}
		o.sending.Lock()
		o.mu.Lock()
		batch := o.take()
		o.mu.Unlock()
		o.send(batch)
		o.sending.Unlock()
	}
}

// take empties the queue. o.mu is held.
func (o *outbox) take() []*pb.Down {
	batch := o.queue
	o.queue, o.size = nil, 0
	return batch
}

// sizeOf is how many bytes the lines in m have.
func sizeOf(m *pb.Down) int {
	switch m := m.GetMsg().(type) {
	case *pb.Down_Verdict:
		return len(m.Verdict.GetReplacement()) + len(m.Verdict.GetAnswer())
	case *pb.Down_Read:
		return len(m.Read.GetLine())
	case *pb.Down_Deliver:
		return len(m.Deliver.GetLine())
	}
	return 0
}

// send sends batch, small messages in one. o.sending is held.
func (o *outbox) send(batch []*pb.Down) {
	for len(batch) > 0 {
		first, n := batch[0], 1
		if o.together {
			for size := sizeOf(first); n < len(batch) && n <= maxMore; n++ {
				if size += sizeOf(batch[n]); size > small {
					break
				}
			}
			first.More = batch[1:n]
		}
		if o.stream.Send(first) != nil {
			o.close()
			return
		}
		batch = batch[n:]
	}
}

// close makes run return. What is queued still is dropped: the shim asks again.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.queue = true, nil
	o.wake.Signal()
}
