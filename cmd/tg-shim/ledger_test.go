package main

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A person's yes and the agent's cancellation may cross: when the cancellation
// is on its way to the server, the call must not follow it.
func TestCancellationIsNotOvertaken(t *testing.T) {
	l := newLedger()
	r := &request{key: "1", side: wire.FromAgent}
	l.add(r)
	if !l.cancel(r) {
		t.Fatal("it can't be cancelled")
	}
	if l.write(r) {
		t.Error("it is written after its cancellation")
	}
	if l.add(&request{key: "1", side: wire.FromAgent}) != added {
		t.Error("its id can't be used again")
	}
}

// The verdict on a held call and the agent's cancellation cross: the cancellation
// stands before the call in what the server is to read, and goes ahead. A server that
// had got the call behind it worked for nobody, and was never told to stop.
func TestHeldCallDoesNotFollowItsCancellation(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	p, _ := joined(t)
	l, read := newTestLane(t)
	p.lanes[wire.FromAgent] = l
	before := l.take() // undecided, so that what is behind it waits
	r := &request{key: "1", side: wire.FromAgent}
	r.call = &call{side: wire.FromAgent, request: r, line: []byte("the call"), held: true, done: true}
	p.ledger.add(r)
	if err := p.cancel(wire.FromAgent, "1", []byte(cancel)); err != nil {
		t.Fatal(err)
	}
	p.forward(r.call, r.call.line)
	l.fill(before, []byte("before"))
	l.insert([]byte("behind"))
	for _, want := range []string{"before", cancel, "behind"} {
		if !read.Scan() || read.Text() != want {
			t.Errorf("the server reads %q, want %q", read.Text(), want)
		}
	}
}
