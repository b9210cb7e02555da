package main

import (
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Messages that the daemon is not told of one by one are told as numbers, a moment
// later.
func TestPassingMessagesAreCounted(t *testing.T) {
	s := newStage(t, false)
	s.forwardAll(t)
	agent := []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"}}`,
		`no message`,
	}
	server := []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":77,"result":{}}`}
	for _, line := range agent {
		if err := s.write(wire.FromAgent, line); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 { // the server has them, so it may answer
		if _, err := receive(s.out[wire.FromServer]); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range server {
		if err := s.write(wire.FromServer, line); err != nil {
			t.Fatal(err)
		}
	}
	sum := map[string]uint64{}
	for n := uint64(0); n < 6; {
		c, err := receive(s.daemon.counts)
		if err != nil {
			t.Fatalf("%v, after %v", err, sum)
		}
		sum[fmt.Sprintf("%d %s", c.GetDirection()-1, c.GetMethod())] += c.GetMessages()
		n += c.GetMessages()
	}
	if got, want := fmt.Sprint(sum), "map[0 notifications/progress:1 0 ping:2 0 tools/call:1 1 ping:1 1 tools/call:1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Counts that nobody was told of wait for the daemon, and are told at the end.
func TestCountsAreToldAtTheEnd(t *testing.T) {
	p, daemon := joined(t)
	for i := range mostCounts + 10 {
		p.link.count(wire.FromAgent, fmt.Sprint("made/up/", i))
	}
	p.link.leave(0, "", pb.Ended_ENDED_UNSPECIFIED)
	sum := map[string]uint64{}
	for range mostCounts + 1 {
		c, err := receive(daemon.counts)
		if err != nil {
			t.Fatal(err)
		}
		sum[c.GetMethod()] += c.GetMessages()
	}
	if len(sum) != mostCounts+1 || sum[""] != 10 {
		t.Errorf("%d methods, %d messages under none; want %d and 10", len(sum), sum[""], mostCounts+1)
	}
}
