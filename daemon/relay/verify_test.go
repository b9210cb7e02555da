package relay

import (
	"errors"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// A part of a forwarded call that is a message by itself is never written alone, even if
// somebody has moved the start of the pending output.
func TestMessageWithinALine(t *testing.T) {
	const (
		within = `{"x":[],"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"denied"}}`
		call   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":` + within + `}}}`
	)
	before := uint64(len(call) - len(within) - len(`}}}`))
	s := newStage(t, play{})
	s.steps("judged " + call)
	s.leave()
	cursor, err := s.memory.Cursor(mapping.Server)
	if err != nil {
		t.Fatal(err)
	}
	at := cursor.Delivered() - uint64(len(call)+1) + before
	cursor.SetDelivered(at)
	cursor.SetStaged(at)
	cursor.SetIntent(at)
	s.begin()
	s.letGo()
	s.over(fromAgent, fromServer)
	if err := s.session.Err(); !errors.Is(err, mapping.ErrCorrupt) {
		t.Errorf("the session has ended with %v", err)
	}
}
