package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// firstWord is how long the daemon may take to say anything about a line.
	// Silence past it is an accident, and an accident is a refusal.
	firstWord = 2 * time.Second

	// longestSend is how long the daemon may take to take something in. It is
	// more than firstWord, so that what was submitted is refused by then.
	longestSend = firstWord + 500*time.Millisecond

	// defaultReattach is how long the daemon is looked for before it has said
	// what the configuration wants.
	defaultReattach = 15 * time.Second

	// maxObservations is how many observations are kept while no daemon listens,
	// and maxKept how many bytes of lines within them.
	maxObservations = 1024
	maxKept         = 4 << 20
)

// obeyer does what verdicts say. Its methods are called in the order of the
// verdicts, and must not block.
type obeyer interface {
	forward(c *call, line []byte)
	hold(c *call)
	refuse(c *call, answer []byte, reason string)
	deliver(line []byte)
	// renewed is called while nothing is sent when the shared server is another
	// one that knows nothing of the agent. It returns the agent's handshake, and
	// what is to be written before all else; after is called when that was sent.
	renewed() (initialize []byte, first [][]byte, after func(context.Context))
}

// link is the shim's side of the Attach stream. It keeps what was submitted
// until a final verdict came, and submits it again when the stream tore and
// the daemon, or its successor, is back.
type link struct {
	dial   func(context.Context, *pb.Hello) (*client.Attachment, error)
	hello  *pb.Hello
	obey   obeyer
	log    *slog.Logger
	window chan struct{}                 // a place is taken by each line that has no word yet
	silent func(all bool) *pb.Unanswered // what has no answer, see ledger.silent; nil in tests; set before run
	shared *remote                       // the way to the server where the daemon shares it, else nil; set before run

	send    sync.Mutex    // one sender at a time; taken before mu
	hung    *time.Timer   // runs while somebody is sending
	waiting []*pb.Up      // what waits for company; guarded by send
	soon    chan struct{} // something waits

	mu           sync.Mutex // guards what follows; not held while sending
	stream       *client.Attachment
	last         uint64 // seq
	calls        map[uint64]*call
	unworded     []*call     // in the order of submission
	alarm        *time.Timer // looks for lines about which nothing was said
	armed        bool        // alarm is set
	started      *pb.Started
	kept         []*pb.Observe
	keptBytes    int         // of the lines in kept
	alone        bool        // the daemon takes this shim for one without a session
	echo         uint64      // of the last line that was to be heard
	unheard      []unheard   // oldest first
	unheardBytes int         // of the lines in unheard
	patience     *time.Timer // looks for lines that wait too long to be heard
	impatient    bool        // patience is set
	deferred     []*pb.Observe
	tick         *time.Timer // tells deferred
	ticking      bool        // tick is set
	room         sync.Cond   // kept has room
	draining     string
	left         bool
	lost         error // why the link has ended for good
	limit        time.Duration
	silence      time.Duration // firstWord, but in tests on busy machines

	over  chan struct{} // closed when lost is set
	asked chan struct{} // closed when the daemon asks a shim with a shared server to leave

	tally tally // has a lock of its own
}

// connect attaches for the first time. It tries for defaultReattach.
func connect(ctx context.Context, dial func(context.Context, *pb.Hello) (*client.Attachment, error), hello *pb.Hello, log *slog.Logger) (*link, error) {
	l := &link{dial: dial, hello: hello, log: log, calls: map[uint64]*call{}, limit: defaultReattach, silence: firstWord, over: make(chan struct{}), asked: make(chan struct{}), soon: make(chan struct{}, 1)}
	l.room.L = &l.mu
	stream, err := l.redial(ctx)
	if err != nil {
		return nil, err
	}
	l.stream = stream
	w := stream.Welcome()
	l.alone = w.GetAlone()
	l.window = make(chan struct{}, max(1, w.GetLimits().GetWindow()))
	if r := w.GetLimits().GetReattach(); r != nil {
		l.limit = r.AsDuration()
	}
	l.alarm = time.AfterFunc(time.Hour, l.overdue)
	l.alarm.Stop()
	l.tick = time.AfterFunc(time.Hour, l.catchUp)
	l.tick.Stop()
	l.tally.by = map[counted]uint64{}
	l.tally.due = time.AfterFunc(time.Hour, l.tellCounts)
	l.tally.due.Stop()
	l.patience = time.AfterFunc(time.Hour, l.passOld)
	l.patience.Stop()
	l.hung = time.AfterFunc(time.Hour, l.tear)
	l.hung.Stop()
	return l, nil
}

// lasting are the refusals that trying again does not help against.
var lasting = []error{client.ErrVersion, client.ErrForbidden, client.ErrInvalid, client.ErrWithheld}

// redial looks for the daemon until it answers, refuses for good, or the
// limit is over.
func (l *link) redial(ctx context.Context) (*client.Attachment, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	wait := 5 * time.Millisecond
	for {
		stream, err := l.dial(ctx, l.hello)
		if err == nil {
			l.hello.Reattach = true
			return stream, nil
		}
		if slices.ContainsFunc(lasting, func(kind error) bool { return errors.Is(err, kind) }) {
			return nil, err
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, 250*time.Millisecond)
		case <-ctx.Done():
			return nil, err
		}
	}
}

// run obeys the daemon until ctx ends or leave was called (nil), the daemon
// asks for a drain (errDrain), or it can't be found any more (errGateLost).
func (l *link) run(ctx context.Context) error {
	var after sync.WaitGroup
	defer after.Wait()
	ended := make(chan struct{})
	defer close(ended)
	after.Go(func() { l.sendWaiting(ended) })
	for {
		l.mu.Lock()
		stream := l.stream
		l.mu.Unlock()
		stop := context.AfterFunc(ctx, stream.Close)
		err := l.listen(stream)
		stop()
		stream.Close()
		if ctx.Err() != nil {
			return nil
		}
		if l.shared != nil {
			l.shared.depart()
		}
		l.mu.Lock()
		l.stream = nil
		draining, left := l.draining, l.left
		l.mu.Unlock()
		l.passAll() // what the daemon is told when it is back comes before what it is asked
		if left {
			return nil
		}
		if draining != "" {
			return l.drained()
		}
		if refusal := client.FromStatus(err); errors.Is(refusal, client.ErrForbidden) { // what it is told again, it refuses again
			return refused{fmt.Errorf("the daemon refuses this shim: %w", refusal)}
		}
		l.log.Debug("the stream to the daemon tore", "err", err)
		stream, err = l.redial(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%w: looked for it for %v: %w", errGateLost, l.limit, err)
		}
		if then := l.resume(stream); then != nil {
			after.Go(func() { then(ctx) })
		}
	}
}

// refused is why a link ended that the daemon would refuse again: to this shim it is as
// good as gone.
type refused struct{ error }

// Is reports whether target is errGateLost.
func (refused) Is(target error) bool { return target == errGateLost }

var errDrain = errors.New("the daemon asks to leave")

// listen handles what comes down until the stream ends or a drain is asked for.
func (l *link) listen(stream *client.Attachment) error {
	for {
		down, err := stream.Recv()
		if err == nil {
			err = l.heed(down)
		}
		for i := 0; i < len(down.GetMore()) && err == nil; i++ {
			err = l.heed(down.GetMore()[i])
		}
		if err != nil {
			return err
		}
	}
}

// heed does what one message says. The error is errDrain when that is to leave.
func (l *link) heed(down *pb.Down) error {
	switch m := down.GetMsg().(type) {
	case *pb.Down_Verdict:
		l.verdict(m.Verdict)
	case *pb.Down_Heard:
		l.passed(m.Heard.GetEcho())
	case *pb.Down_Deliver:
		l.obey.deliver(m.Deliver.GetLine())
	case *pb.Down_Drain:
		l.mu.Lock()
		first := l.draining == ""
		l.draining = m.Drain.GetReason()
		l.mu.Unlock()
		if l.shared == nil {
			return errDrain
		}
		if first { // what the server answers still comes on this stream
			close(l.asked)
		}
	default:
		l.hearShared(down)
	}
	return nil
}

// resume takes the submissions up again on a new stream, in their order. What it
// returns is to be called when it is over, nil for nothing.
func (l *link) resume(stream *client.Attachment) (after func(context.Context)) {
	if l.shared != nil {
		l.shared.readOut()
	}
	l.send.Lock()
	defer l.send.Unlock()
	waited := l.unsent() // submissions among them are in calls
	if l.shared != nil {
		after = l.reopen(stream)
	}
	l.mu.Lock()
	started, kept := l.started, append(waited, l.kept...)
	l.kept, l.keptBytes = nil, 0
	l.room.Broadcast()
	l.unworded = l.unworded[:0]
	seqs := slices.Sorted(maps.Keys(l.calls))
	open := make([]*call, 0, len(seqs))
	now := time.Now()
	for _, seq := range seqs {
		c := l.calls[seq]
		c.sent = now
		if !c.worded {
			l.unworded = append(l.unworded, c)
		}
		open = append(open, c)
	}
	l.stream, l.alone = stream, stream.Welcome().GetAlone()
	l.arm()
	l.mu.Unlock()

	if started != nil {
		_ = l.transmit(stream, &pb.Up{Msg: &pb.Up_Started{Started: started}})
	}
	for _, o := range kept {
		_ = l.transmit(stream, &pb.Up{Msg: &pb.Up_Observe{Observe: o}})
	}
	for _, c := range open {
		_ = l.transmit(stream, submission(c)) // when it fails the stream has torn again
	}
	l.transmitUnanswered(stream, true)
	return after
}
