package main

import (
	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Lines that came together are submitted together: in one message, which costs
// both sides little more than one line does. What waits for company is sent by
// whoever has nothing to wait for, and at the latest when all others wait for
// something: the goroutine for that gets its turn then.

// crowd is how many messages are said in one, where the daemon takes as many.
const crowd = 16

// transmit sends one message, behind what waits. l.send is held. Whoever sends is
// who reads what the peers write, so a daemon that hangs and takes nothing in must
// not stop them: then the stream is torn.
func (l *link) transmit(stream *client.Attachment, up *pb.Up) error {
	l.waiting = append(l.waiting, up)
	return l.sendAll(stream)
}

// sendAll sends what waits. When that fails the stream has torn: observations are
// kept for the next one, and submissions are in l.calls. l.send is held.
func (l *link) sendAll(stream *client.Attachment) error {
	if len(l.waiting) == 0 {
		return nil
	}
	l.hung.Reset(longestSend)
	defer l.hung.Stop()
	most := min(int(stream.Welcome().GetTogether()), crowd-1)
	var err error
	for at := 0; at < len(l.waiting); {
		up, n := l.waiting[at], 1
		if sociable(up) {
			for n <= most && at+n < len(l.waiting) && sociable(l.waiting[at+n]) {
				n++
			}
			up.More = l.waiting[at+1 : at+n]
		}
		err = stream.Send(up)
		up.More = nil
		if err != nil {
			l.waiting = append(l.waiting[:0], l.waiting[at:]...)
			unsent := l.unsent()
			l.mu.Lock()
			for _, o := range unsent {
				l.keep(o)
			}
			l.mu.Unlock()
			return err
		}
		at += n
	}
	clear(l.waiting)
	l.waiting = l.waiting[:0]
	return nil
}

// sociable reports whether up may be said with others.
func sociable(up *pb.Up) bool {
	switch m := up.GetMsg().(type) {
	case *pb.Up_Submit:
		return len(m.Submit.GetLine())+len(m.Submit.GetRequest()) <= company
	case *pb.Up_Observe:
		return len(m.Observe.GetLine()) <= company
	}
	return false
}

// unsent takes away what waits, and returns the observations in it. l.send is held.
func (l *link) unsent() []*pb.Observe {
	var all []*pb.Observe
	for _, up := range l.waiting {
		if o := up.GetObserve(); o != nil {
			all = append(all, o)
		}
	}
	clear(l.waiting)
	l.waiting = l.waiting[:0]
	return all
}

// sendWaiting sends what waits for company, as soon as it gets its turn, until
// ended is closed.
func (l *link) sendWaiting(ended <-chan struct{}) {
	for {
		select {
		case <-l.soon:
		case <-ended:
			return
		}
		l.send.Lock()
		l.mu.Lock()
		stream := l.stream
		l.mu.Unlock()
		if stream != nil {
			_ = l.sendAll(stream) // when it fails the stream has torn
		}
		l.send.Unlock()
	}
}

// tear ends a stream that takes nothing in.
func (l *link) tear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		l.stream.Close()
	}
}
