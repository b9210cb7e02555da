package main

import (
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What the proxy does when a verdict comes. See obeyer.

// forward writes line in the place of c, or at the end when c gave its place
// up while a person was asked.
func (p *proxy) forward(c *call, line []byte) {
	if c.result {
		line = p.announced(c.request, line, nil)
		p.ledger.weighed(c)
	} else if c.request != nil && !p.ledger.write(c.request) {
		p.onward(c.side).fill(c.place, nil)
		return
	} else if c.request != nil && c.held {
		// A cancellation that came meanwhile stands before the line, and goes ahead.
		p.onward(c.side).insertIf(line, func() bool { return p.ledger.write(c.request) })
		return
	}
	p.put(c, line)
}

// insertIf is insert for a line that is given up if it may not be written any more
// when it has come to the head.
func (l *lane) insertIf(line []byte, may func() bool) {
	line = append([]byte(nil), line...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(&place{line: line, ready: true, due: func() []byte {
		if !may() {
			return nil
		}
		return line
	}})
}

// put writes line in the place of c, or at the end when c has given it up.
func (p *proxy) put(c *call, line []byte) {
	if c.held {
		p.onward(c.side).insert(line)
		return
	}
	p.onward(c.side).fill(c.place, line)
}

// hold lets what comes behind c pass it.
func (p *proxy) hold(c *call) {
	p.onward(c.side).fill(c.place, nil)
}

// refuse gives whoever waits because of c the daemon's answer, or one of ours
// when the daemon had none to give.
func (p *proxy) refuse(c *call, answer []byte, reason string) {
	if c.result { // the request is settled and its answer refused: the asker gets this one
		if answer == nil {
			answer = mcp.RefuseUnread(c.request.id, mcp.CodeGate, "the answer was refused: "+reason)
		}
		p.ledger.weighed(c)
		p.put(c, answer)
		return
	}
	p.onward(c.side).fill(c.place, nil)
	if c.request == nil || !p.ledger.close(c.request) || c.request.ours {
		return
	}
	if answer == nil {
		answer = mcp.RefuseUnread(c.request.id, mcp.CodeGate, "Not executed: "+reason)
	}
	p.back(c.side).reply(answer)
}

// deliver gives the agent a line that the daemon made.
func (p *proxy) deliver(line []byte) {
	p.lanes[wire.FromServer].insert(line)
}

// failUndecided refuses what waits for a verdict, or only what waits for a
// person, and gives whoever asked an error.
func (p *proxy) failUndecided(held bool, code int, reason string) {
	for _, c := range p.link.abandon(held) {
		if c.result || c.request == nil {
			p.refuse(c, nil, reason)
			continue
		}
		p.refuse(c, mcp.RefuseUnread(c.request.id, code, reason), reason)
	}
}

// failAll gives every open request of the agent an error.
func (p *proxy) failAll(code int, reason string) {
	p.failUndecided(false, code, reason)
	for _, r := range p.loseAll() {
		if !r.ours {
			p.back(wire.FromAgent).insert(mcp.RefuseUnread(r.id, code, reason))
		}
	}
}

// loseAll records that the open requests of the agent get no answer, and
// returns them.
func (p *proxy) loseAll() []*request {
	lost := p.ledger.drain(wire.FromAgent)
	for _, r := range lost {
		p.outcome(r, pb.Outcome_OUTCOME_LOST)
	}
	return lost
}

// drained is errDrain with why.
func (l *link) drained() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%w: %s", errDrain, l.draining)
}

// end makes every later submission fail with reason, and those that wait for
// room. The first reason stays.
func (l *link) end(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return
	}
	l.lost = reason
	close(l.over)
	l.room.Broadcast()
}
