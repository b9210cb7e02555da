package relay

import (
	"errors"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/wire"
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

// A line of an altered memory that must be judged is written only if it is on record as forwarded, and
// as it was then.
func TestVerifyOwed(t *testing.T) {
	const call, ping = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, tt := range map[string]struct {
		to           wire.Side
		line, passed string
		ok           bool
	}{
		"a call without a record":      {fromServer, call, "", false},
		"a call as it was forwarded":   {fromServer, call, digestOf([]byte(call)), true},
		"another call":                 {fromServer, call, digestOf([]byte(ping)), false},
		"a ping":                       {fromServer, ping, "", true},
		"what is no message":           {fromServer, `{`, "", false},
		"a request without a record":   {fromAgent, `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`, "", false},
		"an answer without a record":   {fromAgent, `{"jsonrpc":"2.0","id":1,"result":{}}`, "", true},
		"a notification that passes":   {fromAgent, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, "", true},
		"a call of the modern era":     {fromServer, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "", false},
		"a method that is not known":   {fromServer, `{"jsonrpc":"2.0","id":1,"method":"tools/other"}`, "", false},
		"an error that asks for a URL": {fromAgent, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"x"}}`, "", false},
	} {
		s := &Session{gate: &playedJudge{}, state: &state{}}
		if err := s.verifyOwed(tt.to, []byte(tt.line+"\n"), 7, tt.passed); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
