package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// unread returns a session with a shared server, which has removed the session because its
// agent has read none of n lines of 1 MiB each, and has not answered its call.
func unread(t *testing.T, testTimeout time.Duration) (s *stage, agent *os.File, n int) {
	t.Helper()
	s = newStage(t, play{shared: true})
	s.leave()
	agent, to := pipeOf(t)
	s.kept[1].Close()
	s.kept[1] = to
	s.mu.Lock()
	s.member = nil
	s.mu.Unlock()
	s.runWith(s.ends(), func(session *Session) { session.readTimeout = testTimeout })
	s.letGo()
	s.steps("judged " + aCall)
	client := s.member.client
	note := []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1<<20) + `"}}`)
	for client.Deliver(note) {
		if n++; n > 64 {
			t.Fatal("there is no end to what it takes")
		}
		for len(s.judge.observations) > 0 {
			<-s.judge.observations
		}
	}
	client.Gone(errors.New("it is slow"))
	return s, agent, n
}

// An agent that reads nothing of what its shared server writes loses that, and the session
// ends.
func TestSharedSlowReader(t *testing.T) {
	s, agent, _ := unread(t, time.Millisecond)
	defer agent.Close()
	s.over()
}

// An agent that reads before it is too late gets everything, and is told what was not
// answered.
func TestSharedLateReader(t *testing.T) {
	s, agent, n := unread(t, testTimeout)
	defer agent.Close()
	lines := bufio.NewReaderSize(agent, 2<<20)
	for i := range n {
		if line, err := lines.ReadString('\n'); err != nil || len(line) < 1<<20 {
			t.Fatalf("line %d of %d is %.100s, %v", i, n, line, err)
		}
	}
	const want = `{"jsonrpc":"2.0","id":1,"error":{"code":-31012,"message":"The MCP server is no longer available (it is slow) and did not answer"}}` + "\n"
	if line, err := lines.ReadString('\n'); line != want {
		t.Errorf("the last line is %.200s, %v", line, err)
	}
	s.over()
}

// An agent whose shared server could not be started gets that error as long as it stays.
func TestSharedIsNotStarted(t *testing.T) {
	s := newStage(t, play{shared: true})
	s.leave()
	ends := s.ends()
	ends.Server = &InMemory{Join: func(context.Context, Client) (Member, error) {
		return nil, fmt.Errorf("%w: no such file", ErrNotStarted)
	}}
	s.run(ends)
	s.letGo()
	for range 2 {
		s.steps("agent> "+aPing, `agent< {"jsonrpc":"2.0","id":2,"error":{"code":-31011,"message":"The MCP server could not be started: the server could not be started: no such file"}}`)
		if err := s.until("the agent is waited for", func() bool { return s.session.inputs[fromAgent].handledAll() }); err != nil {
			t.Fatal(err)
		}
	}
	s.hangUp(fromAgent)
	s.over(fromAgent)
}

// A server that can wait for an agent that does not read loses nothing. Its wait ends with its context,
// and with the session.
func TestInMemoryServerWaits(t *testing.T) {
	s := newStage(t, play{shared: true})
	s.leave()
	agent, to := pipeOf(t)
	defer agent.Close()
	s.kept[1].Close()
	s.kept[1] = to
	s.mu.Lock()
	s.member = nil
	s.mu.Unlock()
	s.run(s.ends())
	s.letGo()
	s.steps("judged " + aCall)
	client := s.member.client
	note := []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1<<20) + `"}}`)
	n := 0
	for ; client.Deliver(note); n++ {
		if n > 64 {
			t.Fatal("there is no end to what it takes")
		}
		for len(s.judge.observations) > 0 {
			<-s.judge.observations
		}
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("no longer"))
	defer cancel()
	if err := client.DeliverWait(ctx, note); err == nil || err.Error() != "no longer" {
		t.Errorf("it waits until %v", err)
	}
	delivered := make(chan error, 1)
	go func() { delivered <- client.DeliverWait(t.Context(), note) }()
	lines := bufio.NewReaderSize(agent, 2<<20)
	for i := range n + 1 {
		for len(s.judge.observations) > 0 {
			<-s.judge.observations
		}
		if line, err := lines.ReadString('\n'); err != nil || len(line) < 1<<20 {
			t.Fatalf("line %d of %d is %.100s, %v", i, n, line, err)
		}
	}
	if err := <-delivered; err != nil {
		t.Error(err)
	}
	client.Gone(errors.New("it ends"))
	if err := client.DeliverWait(t.Context(), note); err == nil {
		t.Error("a line is taken after the end")
	}
	if _, err := lines.ReadString('\n'); err != nil { // the call's error
		t.Error(err)
	}
	s.over()
}
