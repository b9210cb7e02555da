package main

import (
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// An agent that gave a call a progress token learns that the call waits for a
// person: clients that go by progress wait longer then. It is told with its own
// token and at no other time, since a token that it did not give is an error to
// it, and progress after the answer may be.

// beatEvery is how often an agent is told.
const beatEvery = 10 * time.Second

// beat tells the agent of one held call. The link's mutex guards it.
type beat struct {
	approval string // the question that is open
	n        int    // how often it was told
	next     *time.Timer
}

// tokenOf is the raw progress token of a request, nil when it gave none that
// MCP allows.
func tokenOf(e *wire.Envelope, line []byte) []byte {
	token := e.ProgressToken.Of(line)
	if _, err := wire.Key(token); err != nil { // it is as an id is: a string or an integer
		return nil
	}
	return append([]byte(nil), token...)
}

// beat begins to tell the agent that c waits for the answer to a question, or
// tells it of that question from now on. l.mu is held.
func (l *link) beat(c *call, approval string) {
	if c.request == nil || c.result || c.request.token == nil || approval == "" { // extensions answer soon
		return
	}
	if c.beat != nil {
		c.beat.approval = approval
		return
	}
	c.beat = &beat{approval: approval}
	l.tellWaiting(c)
}

// tellWaiting tells the agent that c waits, and sees to it that it is told again.
// l.mu is held: a verdict that comes meanwhile is obeyed after it.
func (l *link) tellWaiting(c *call) {
	b := c.beat
	b.n++
	// Servers count from 0 or 1, and progress must rise: these are smaller than
	// whatever the server says once the call has reached it.
	l.obey.deliver(fmt.Appendf(nil,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d.%06d,"message":"waiting for approval %s"}}`,
		c.request.token, b.n/1e6, b.n%1e6, b.approval))
	b.next = time.AfterFunc(beatEvery, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !c.done {
			l.tellWaiting(c)
		}
	})
}

// stop ends the telling. It may be called on nil.
func (b *beat) stop() {
	if b != nil {
		b.next.Stop()
	}
}
