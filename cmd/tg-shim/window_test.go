package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func callLine(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, id)
}

// At most 32 lines are with the daemon without a word from it. Reading pauses
// then, as long as that takes; what goes the other way does not.
func TestWindow(t *testing.T) {
	const window = 32
	s := newStage(t, false)
	s.mustPlay(t, `agent> {"jsonrpc":"2.0","id":"p","method":"ping"}`, `server< {"jsonrpc":"2.0","id":"p","method":"ping"}`)
	go func() { // ends with the agent's pipe
		for id := range window + 3 {
			_ = s.write(wire.FromAgent, callLine(id))
		}
	}()
	for id := range window {
		s.mustPlay(t, "submit "+callLine(id))
	}
	select {
	case m := <-s.daemon.submits:
		t.Fatalf("one more was submitted before the daemon said anything: %s", m.GetLine())
	case <-time.After(50 * time.Millisecond):
	}
	s.mustPlay(t, `server> {"jsonrpc":"2.0","id":"p","result":{}}`, `agent< {"jsonrpc":"2.0","id":"p","result":{}}`)
	// Each word makes room for one, a verdict as well as the news that a person
	// is being asked.
	s.mustPlay(t, "forward", "server< "+callLine(0), "submit "+callLine(window))
	s.mustPlay(t, "pending 2", "submit "+callLine(window+1))
	s.mustPlay(t, `deny 3`, "submit "+callLine(window+2))
}

// With 100 calls held, what passes is answered, what is governed is judged, and
// a cancellation takes its call back; then each answer still finds its call.
func TestHundredHeld(t *testing.T) {
	const held = 100
	s := newStage(t, false)
	for id := range held {
		s.mustPlay(t, "agent> "+callLine(id), "submit "+callLine(id))
		v := &pb.Verdict{Seq: s.open[id].GetSeq(), Action: pb.Action_ACTION_PENDING}
		s.daemon.send(v)
	}
	s.mustPlay(t, `agent> {"jsonrpc":"2.0","id":"p","method":"ping"}`, `server< {"jsonrpc":"2.0","id":"p","method":"ping"}`,
		`server> {"jsonrpc":"2.0","id":"p","result":{}}`, `agent< {"jsonrpc":"2.0","id":"p","result":{}}`)
	s.mustPlay(t, `agent> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":57}}`, `cancel 58`)
	s.mustPlay(t, "agent> "+callLine(held), "submit "+callLine(held), fmt.Sprintf("forward %d", held+1), "server< "+callLine(held))
	for id := range held {
		switch {
		case id == 57:
		case id%2 == 0:
			s.mustPlay(t, fmt.Sprintf("forward %d", id+1), "server< "+callLine(id))
		default:
			refusal := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"isError":true}}`, id)
			s.mustPlay(t, fmt.Sprintf("deny %d %s", id+1, refusal), "agent< "+refusal)
		}
	}
	s.mustPlay(t, `agent> {"jsonrpc":"2.0","id":"q","method":"ping"}`, `server< {"jsonrpc":"2.0","id":"q","method":"ping"}`)
}

// Open requests are bounded in each direction. The one past the bound is
// refused, reading goes on, and an answer makes room.
func TestOpenRequestsAreBounded(t *testing.T) {
	t.Parallel()
	ping := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }
	answer := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }
	for name, c := range map[string]struct {
		asks, reads, answers, told string // verbs
	}{
		"agent":  {"agent> ", "server< ", "server> ", "agent< "},
		"server": {"server> ", "agent< ", "agent> ", "server< "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, false)
			for id := range maxOpen {
				s.mustPlay(t, c.asks+ping(id), c.reads+ping(id))
			}
			refusal := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-31010,"message":"more than %[1]d requests are open"}}`, maxOpen)
			s.mustPlay(t, c.asks+ping(maxOpen), c.told+refusal)
			s.mustPlay(t, c.answers+answer(7), c.told+answer(7))
			s.mustPlay(t, c.asks+ping(maxOpen), c.reads+ping(maxOpen))
		})
	}
}
