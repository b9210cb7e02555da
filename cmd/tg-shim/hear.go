package main

import (
	"bytes"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What a server says has to be in the daemon's memory before the agent can act on
// it, or a place that one server planted would be the agent's own when it comes
// back through the shim of another. So a line waits in its lane until the daemon
// says that it has heard it; lines behind it wait as well, and are told meanwhile.
// A shim without a session need not wait: nobody shares its memory, and its own
// calls travel behind what it told.

// A long line is told in pieces, so that neither side holds it a second time,
// and of a very long one only the head and the tail: no model reads all of it,
// and to look at it must not cost as much as to carry it. Pieces share a little,
// so that no name is lost where one ends.
const (
	whole   = 64 << 10 // how long a line may be that is told in one
	piece   = 31 << 10 // with what goes around it, as long as a buffer that is kept
	shared  = 512
	longest = 512 << 10
	tail    = longest / 4

	// company is how long a line may be that is told with the next submission.
	company = 4 << 10
	// mostUnheard is how many lines may wait to be heard, and mostBytes how many
	// bytes of them, before reading pauses.
	mostUnheard = 256
	mostBytes   = 1 << 20
)

// unheard is a line that the daemon was told of and has not heard yet.
type unheard struct {
	echo  uint64
	since time.Time
	size  int
	pass  func() // writes the line on; does not block
}

// pass tells the daemon of a line of side, with what o says of it, and writes the
// line on. line may be reused when it returns.
func (p *proxy) pass(side wire.Side, line []byte, o *pb.Observe) error {
	o.Direction = direction(side)
	lane := p.onward(side)
	if side == wire.FromAgent || !p.link.awaits() {
		p.tell(line, o)
		return lane.push(line)
	}
	if len(line) <= whole {
		place, err := lane.reserve(len(line))
		if err != nil {
			return err
		}
		copied := bytes.Clone(line)
		p.link.hear(p.last(line, o), func() { lane.fill(place, copied) })
		return nil
	}
	heard := make(chan struct{})
	p.link.hear(p.last(line, o), func() { close(heard) })
	<-heard
	return lane.push(line)
}

// tell tells the daemon of a line that nobody waits for.
func (p *proxy) tell(line []byte, o *pb.Observe) {
	o = p.last(line, o)
	if o.GetUnrecorded() && len(o.GetLine()) <= company && p.link.awake() {
		p.link.later(o)
	} else {
		p.link.observe(o)
	}
}

// last tells of all pieces of a line but the last, and makes that of o.
func (p *proxy) last(line []byte, o *pb.Observe) *pb.Observe {
	if len(line) <= whole || !o.GetUnrecorded() {
		o.Line = bytes.Clone(line)
		return o
	}
	head, end := line, []byte(nil)
	if len(line) > longest {
		head, end = line[:longest-tail], line[len(line)-tail:]
		o.Missing = uint64(len(line) - longest)
	}
	for _, part := range [][]byte{head, end} {
		for at := 0; at+shared < len(part); at += piece - shared {
			if o.Line != nil {
				p.link.observe(&pb.Observe{Direction: o.GetDirection(), Method: o.GetMethod(), Unrecorded: true, Line: o.GetLine()})
			}
			o.Line = bytes.Clone(part[at:min(at+piece, len(part))])
		}
	}
	return o
}

// awaits reports whether lines have to be heard before they are written on. When
// the daemon is away they need not: it judges nothing meanwhile.
func (l *link) awaits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.alone && l.stream != nil && l.lost == nil
}

// awake reports whether there is a daemon to be told.
func (l *link) awake() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream != nil
}

// hear tells the daemon of o and calls pass when it has heard it, or when it can't
// be waited for: because it is away, or silent for too long.
func (l *link) hear(o *pb.Observe, pass func()) {
	l.mu.Lock()
	for len(l.unheard) >= mostUnheard || len(l.unheard) > 0 && l.unheardBytes+len(o.GetLine()) > mostBytes {
		l.room.Wait()
	}
	l.echo++
	o.Echo = l.echo
	l.unheard = append(l.unheard, unheard{l.echo, time.Now(), len(o.GetLine()), pass})
	l.unheardBytes += len(o.GetLine())
	l.awaken()
	away := l.stream == nil
	l.mu.Unlock()
	l.observe(o)
	if away {
		l.passed(o.GetEcho())
	}
}

// awaken sets the timer that ends the patience with the oldest line. l.mu is held.
func (l *link) awaken() {
	if !l.impatient && len(l.unheard) > 0 {
		l.impatient = true
		l.patience.Reset(time.Until(l.unheard[0].since.Add(firstWord)))
	}
}

// passed writes on the lines up to echo.
func (l *link) passed(echo uint64) {
	l.passWhile(func(u *unheard) bool { return u.echo <= echo })
}

// passOld writes on the lines for which the daemon has had its time.
func (l *link) passOld() {
	l.mu.Lock()
	l.impatient = false
	l.mu.Unlock()
	l.passWhile(func(u *unheard) bool { return time.Since(u.since) >= firstWord })
}

// passAll writes on every line that waits to be heard.
func (l *link) passAll() { l.passWhile(func(*unheard) bool { return true }) }

func (l *link) passWhile(due func(*unheard) bool) {
	l.mu.Lock()
	n := 0
	for n < len(l.unheard) && due(&l.unheard[n]) {
		l.unheardBytes -= l.unheard[n].size
		n++
	}
	heard := l.unheard[:n:n]
	l.unheard = l.unheard[n:]
	l.awaken()
	l.room.Broadcast()
	l.mu.Unlock()
	for i := range heard {
		heard[i].pass()
		heard[i].pass = nil // with the line it holds
	}
}
