package main

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The daemon says which requests are not answered, and knows only those that it has
// judged. So it is told of all that have had no answer for a while; most are answered
// before, and cost nothing. How long is too long it decides.

const (
	// unansweredAfter is how long a request has no answer before the daemon is told.
	unansweredAfter = time.Second
	// mostUnanswered is how many requests it is told of; the others are counted.
	mostUnanswered = 1024
	// mostNamed is how much of an id or a method it is told, in bytes.
	mostNamed = 128
)

// silence is what the ledger knows of requests without an answer. The ledger's mutex
// guards it.
type silence struct {
	due   *time.Timer // has the daemon told; nil in tests
	armed bool        // due is set
	news  bool        // what the daemon was told is not so any more
}

// wait notes that r is being written. l.mu is held.
func (l *ledger) wait(r *request) {
	r.since = time.Now()
	l.silence.arm()
}

// over notes that no answer to r is waited for any more.
func (s *silence) over(r *request) {
	if r.told != 0 {
		s.news, r.told = true, 0
		s.arm()
	}
}

func (s *silence) arm() {
	if s.due != nil && !s.armed {
		s.armed = true
		s.due.Reset(unansweredAfter)
	}
}

// silent returns the requests without an answer, nil when the daemon knows of them;
// all says that it knows of none. number gives a seq to one that passed.
func (l *ledger) silent(all bool, number func() uint64) *pb.Unanswered {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, now := &l.silence, time.Now()
	s.armed = false
	var found []*request
	for _, open := range l.open {
		for _, r := range open {
			switch {
			case !r.written || r.cancelled || r.method == "subscriptions/listen": // which is answered when it ends
			case now.Sub(r.since) < unansweredAfter:
				s.arm()
			default:
				found = append(found, r)
			}
		}
	}
	slices.SortFunc(found, func(a, b *request) int { return a.since.Compare(b.since) })
	told := &pb.Unanswered{}
	for _, r := range found {
		if len(told.Requests) == mostUnanswered {
			if r.side == wire.FromAgent {
				told.More++
			}
			continue
		}
		if r.told == 0 {
			s.news = true
			if r.call != nil {
				r.told = r.call.seq
			} else {
				r.told = number()
			}
		}
		told.Requests = append(told.Requests, &pb.UnansweredRequest{
			Call: r.told, Direction: direction(r.side),
			Method: strings.ToValidUTF8(r.method[:min(len(r.method), mostNamed)], ""),
			Id:     r.id[:min(len(r.id), mostNamed)], Open: durationpb.New(now.Sub(r.since)),
		})
	}
	if !s.news && !(all && len(found) > 0) {
		return nil
	}
	s.news = false
	return told
}

// number returns the next seq.
func (l *link) number() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return l.last
}

// tellUnanswered tells the daemon which requests have no answer, if that is news. One
// that is away is told when it is back.
func (l *link) tellUnanswered() {
	l.send.Lock()
	defer l.send.Unlock()
	l.mu.Lock()
	stream, left := l.stream, l.left
	l.mu.Unlock()
	if stream != nil && !left {
		l.transmitUnanswered(stream, false)
	}
}

// transmitUnanswered tells it on a stream; all says that it is a new one. l.send is
// held, so that what was found later is told later.
func (l *link) transmitUnanswered(stream *client.Attachment, all bool) {
	if l.silent == nil {
		return
	}
	if told := l.silent(all); told != nil {
		_ = l.transmit(stream, &pb.Up{Msg: &pb.Up_Observe{Observe: &pb.Observe{Unrecorded: true, Unanswered: told}}})
	}
}
