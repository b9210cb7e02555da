package main

import (
	"time"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// observe tells the daemon of something that happened. Without a daemon it is
// kept; when too much is kept it waits.
func (l *link) observe(o *pb.Observe) {
	l.send.Lock()
	defer l.send.Unlock()
	l.mu.Lock()
	for l.stream == nil && l.lost == nil && (len(l.kept) >= maxObservations || l.keptBytes > 0 && l.keptBytes+len(o.GetLine()) > maxKept) {
		// The one that resumes takes send before mu, so send must be free.
		l.send.Unlock()
		l.room.Wait()
		l.mu.Unlock()
		l.send.Lock()
		l.mu.Lock()
	}
	stream := l.stream
	if stream == nil && l.lost == nil {
		l.keep(o)
	}
	l.mu.Unlock()
	if stream != nil {
		_ = l.transmit(stream, &pb.Up{Msg: &pb.Up_Observe{Observe: o}}) // when it fails, the next stream gets it
	}
}

// keep keeps an observation for the next stream. l.mu is held.
func (l *link) keep(o *pb.Observe) {
	l.kept = append(l.kept, o)
	l.keptBytes += len(o.GetLine())
}

// moment is how long an observation may wait for company.
const moment = 5 * time.Millisecond

// later is observe for what need not be told at once: it goes along with the
// next submission, or after a moment, so that it wakes nobody by itself.
func (l *link) later(o *pb.Observe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deferred = append(l.deferred, o)
	if !l.ticking {
		l.ticking = true
		l.tick.Reset(moment)
	}
}

// catchUp tells what later has put off.
func (l *link) catchUp() {
	l.mu.Lock()
	due := l.deferred
	l.deferred, l.ticking = nil, false
	l.mu.Unlock()
	for _, o := range due {
		l.observe(o)
	}
}

// announce tells which process was started, now and at each reattachment.
func (l *link) announce(pid int) {
	l.send.Lock()
	defer l.send.Unlock()
	l.mu.Lock()
	l.started = &pb.Started{Pid: int32(pid)}
	stream, started := l.stream, l.started
	l.mu.Unlock()
	if stream != nil {
		_ = l.transmit(stream, &pb.Up{Msg: &pb.Up_Started{Started: started}})
	}
}

// leave says goodbye, and how the server of ours has ended. The daemon ends the stream in answer, and run returns.
func (l *link) leave(code int, reason string, server pb.Ended) {
	l.tick.Stop()
	l.catchUp()
	l.tellCounts()
	l.send.Lock()
	defer l.send.Unlock()
	l.mu.Lock()
	stream := l.stream
	l.left = true
	l.mu.Unlock()
	if stream == nil {
		return
	}
	_ = l.transmit(stream, &pb.Up{Msg: &pb.Up_Exit{Exit: &pb.Exit{Code: int32(code), Reason: reason, Server: server}}})
	_ = stream.CloseSend()
}
