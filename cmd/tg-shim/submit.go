package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// call is one submitted line on its way to a final verdict.
type call struct {
	seq     uint64
	side    wire.Side
	line    []byte
	request *request // the request that line is, or answers; nil for a notification
	result  bool     // line answers request
	about   uint64   // for a result: the seq of the judged request
	came    *call    // what extensions want to see the result of, which line is or tells of; else nil
	place   *place   // where line stands in its lane, until it is held

	// The link's mutex guards what follows.
	worded bool // the daemon has said something about it
	held   bool
	done   bool
	notice string // what the agent is told before the result's content; set before it is written

	// Set before it is written.
	inspect bool   // extensions want to see its result
	wrote   []byte // then: as it was written
	beat    *beat  // of a held call that wants to hear of progress
	sent    time.Time
}

// submit asks for a verdict on c, or where more lines are at hand does so together
// with those. It waits while the window is full. The outcome reaches the obeyer; an
// error means that the link has ended.
func (l *link) submit(ctx context.Context, c *call, more bool) error {
	select {
	case l.window <- struct{}{}:
	case <-l.over:
		return l.lost // it does not change any more
	case <-ctx.Done():
		return ctx.Err()
	}
	l.send.Lock()
	defer l.send.Unlock()
	l.mu.Lock()
	if l.lost != nil {
		l.mu.Unlock()
		<-l.window
		return l.lost
	}
	l.last++
	c.seq, c.sent = l.last, time.Now()
	l.calls[c.seq] = c
	l.unworded = append(l.unworded, c)
	stream := l.stream
	l.arm()
	var due []*pb.Observe
	if stream != nil {
		due, l.deferred = l.deferred, nil
	}
	l.mu.Unlock()
	if stream == nil {
		return nil
	}
	for _, o := range due {
		l.waiting = append(l.waiting, &pb.Up{Msg: &pb.Up_Observe{Observe: o}})
	}
	up := submission(c)
	l.waiting = append(l.waiting, up)
	if more && len(l.waiting) < crowd && sociable(up) {
		select {
		case l.soon <- struct{}{}:
		default:
		}
		return nil
	}
	_ = l.sendAll(stream) // when it fails the stream has torn and c is submitted again
	return nil
}

func submission(c *call) *pb.Up {
	s := &pb.Submit{Seq: c.seq, Direction: direction(c.side), Line: c.line, Call: c.about}
	if c.came != nil {
		s.Request, s.About = c.came.wrote, c.came.seq
	}
	if c.request != nil {
		s.Modern = c.request.modern
		if c.result {
			s.Answers = c.request.method
		}
	}
	return &pb.Up{Msg: &pb.Up_Submit{Submit: s}}
}

func direction(side wire.Side) pb.Direction {
	if side == wire.FromServer {
		return pb.Direction_DIRECTION_SERVER_TO_AGENT
	}
	return pb.Direction_DIRECTION_AGENT_TO_SERVER
}

// verdict obeys one verdict, or ignores it when nothing waits for it any more.
func (l *link) verdict(v *pb.Verdict) {
	l.mu.Lock()
	c := l.calls[v.GetSeq()]
	if c == nil {
		l.mu.Unlock()
		if v.GetAction() == pb.Action_ACTION_FORWARD {
			l.observe(&pb.Observe{Call: v.GetSeq(), Outcome: pb.Outcome_OUTCOME_NOT_WRITTEN})
		}
		return
	}
	l.word(c)
	if v.GetAction() == pb.Action_ACTION_PENDING {
		first := !c.held
		c.held = true
		l.beat(c, v.GetApproval())
		l.mu.Unlock()
		if first {
			l.obey.hold(c)
		}
		return
	}
	l.finish(c)
	line := c.line
	if r := v.GetReplacement(); r != nil {
		line = r
	}
	c.notice = v.GetNotice()
	if v.GetInspect() {
		c.inspect, c.wrote = true, line
	}
	l.mu.Unlock()

	switch digest := sha256.Sum256(line); {
	case v.GetAction() == pb.Action_ACTION_DENY:
		l.obey.refuse(c, v.GetAnswer(), v.GetReason())
	case v.GetAction() == pb.Action_ACTION_FORWARD && bytes.Equal(digest[:], v.GetDigest()):
		l.obey.forward(c, line)
	default:
		l.observe(&pb.Observe{Call: c.seq, Outcome: pb.Outcome_OUTCOME_NOT_WRITTEN})
		l.obey.refuse(c, nil, "the daemon's verdict is on other bytes")
	}
}

// word notes that the daemon has spoken about c. l.mu is held.
func (l *link) word(c *call) {
	if c.worded {
		return
	}
	c.worded = true
	<-l.window
	for len(l.unworded) > 0 && (l.unworded[0].worded || l.unworded[0].done) {
		l.unworded = l.unworded[1:]
	}
}

// finish forgets c. l.mu is held.
func (l *link) finish(c *call) {
	c.done = true
	c.beat.stop()
	delete(l.calls, c.seq)
}

// arm sets the alarm for the oldest line without a word, unless it is set for
// an earlier one: it may find that the word has come meanwhile, which costs
// less than setting it anew for every line. l.mu is held.
func (l *link) arm() {
	if l.armed || len(l.unworded) == 0 || l.stream == nil {
		return
	}
	l.armed = true
	l.alarm.Reset(time.Until(l.unworded[0].sent.Add(l.silence)))
}

// overdue refuses the lines about which the daemon has been silent too long.
func (l *link) overdue() {
	l.mu.Lock()
	l.armed = false
	if l.stream == nil {
		l.mu.Unlock()
		return
	}
	now := time.Now()
	var late []*call
	for _, c := range l.unworded {
		if !c.worded && !c.done && now.Sub(c.sent) >= l.silence {
			late = append(late, c)
		}
	}
	for _, c := range late {
		l.word(c)
		l.finish(c)
	}
	l.arm()
	l.mu.Unlock()
	for _, c := range late {
		l.obey.refuse(c, nil, fmt.Sprintf("the daemon said nothing within %v", l.silence))
	}
	for _, c := range late { // only now: it waits for whoever is sending
		l.takeBack(c)
	}
}

// takeBack tells the daemon that nobody waits for its verdict on c any more.
func (l *link) takeBack(c *call) {
	l.tell(&pb.Up{Msg: &pb.Up_Cancel{Cancel: &pb.Cancel{Seq: c.seq}}})
}

// withdraw takes c back if it has no final verdict, and reports whether it
// had none: no verdict on it is obeyed then.
func (l *link) withdraw(c *call) bool {
	l.mu.Lock()
	if c.done {
		l.mu.Unlock()
		return false
	}
	l.word(c)
	l.finish(c)
	l.mu.Unlock()
	l.takeBack(c)
	return true
}

// submitted returns every line without a final verdict, oldest first.
func (l *link) submitted() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open []*call
	for _, seq := range slices.Sorted(maps.Keys(l.calls)) {
		open = append(open, l.calls[seq])
	}
	return open
}

// drop forgets c if it has no final verdict, and reports whether it had none. It
// is withdraw for a daemon that does not know c.
func (l *link) drop(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.done {
		return false
	}
	l.word(c)
	l.finish(c)
	return true
}

// abandon takes back and returns every line without a final verdict, or only
// those that wait for a person.
func (l *link) abandon(held bool) []*call {
	l.mu.Lock()
	var open []*call
	for _, seq := range slices.Sorted(maps.Keys(l.calls)) {
		if c := l.calls[seq]; !held || c.held {
			open = append(open, c)
		}
	}
	l.mu.Unlock()
	return slices.DeleteFunc(open, func(c *call) bool { return !l.withdraw(c) })
}
