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
