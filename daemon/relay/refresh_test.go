package relay

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// hidingPolicy forwards everything. Once it hides what servers list, it waits each time that it
// is asked.
type hidingPolicy struct {
	hides        atomic.Bool
	asked, leave chan struct{}
}

func (*hidingPolicy) Rule(context.Context, *gate.Call, []gate.Fact) (gate.Ruling, error) {
	return gate.Ruling{Move: gate.Forward, Gate: "rule"}, nil
}

func (p *hidingPolicy) Visible(*gate.Call, string, string) bool {
	if p.hides.Load() {
		p.asked <- struct{}{}
		<-p.leave
		return false
	}
	return true
}

func (*hidingPolicy) Whom(*gate.Ruling)     {}
func (*hidingPolicy) Profile() gate.Profile { return gate.Production }
func (*hidingPolicy) Digest() string        { return "digest" }

// noFacts is also a recorder that records nothing.
type noFacts struct{}

func (noFacts) Of(context.Context, *gate.Call) []gate.Fact { return nil }
func (noFacts) Observe(*gate.Observation)                  {}
func (noFacts) Forwarded(*gate.Call)                       {}
func (noFacts) Forget(string, string)                      {}
func (noFacts) Record(context.Context, *record.Record, []byte, []string) error {
	return nil
}

// While the agent is notified that what it may see has changed, the server may answer a call: the
// attachment's lock and the session's are taken in one order only.
func TestAnswerWhileAgentIsNotified(t *testing.T) {
	s := newStage(t, play{})
	s.leave()
	p := &hidingPolicy{asked: make(chan struct{}), leave: make(chan struct{})}
	g := &gate.Gate{Policy: func() gate.Policy { return p }, Facts: noFacts{}, Recorder: noFacts{}, Logger: slog.New(slog.DiscardHandler), Open: new(gate.OpenCalls)}
	a := g.Attach(t.Context(), gate.Shim{Attachment: "a", Server: "s"}, nil)
	session, err := New(a, s.ends(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.session, s.ended = session, make(chan struct{})
	go func() { // ends with the session
		defer close(s.ended)
		session.Run()
	}()
	s.letGo()
	write := func(side int, line string) {
		t.Helper()
		if _, err := s.in[side].WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	read := func(side int) string {
		t.Helper()
		select {
		case line := <-s.out[side]:
			return line
		case <-time.After(testTimeout):
			t.Fatal("nothing is delivered")
			return ""
		}
	}
	const agent, server = int(fromAgent), int(fromServer)
	for _, exchange := range [][2]string{
		{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x","version":"1"}}}`,
		},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`},
	} {
		write(agent, exchange[0])
		read(server)
		write(server, exchange[1])
		read(agent)
	}
	write(agent, aCall)
	read(server)
	p.hides.Store(true)
	refreshed := make(chan struct{})
	go func() { // ends with the refresh
		defer close(refreshed)
		a.Refresh()
	}()
	<-p.asked // the attachment is locked
	write(server, aResult)
	for session.mu.TryLock() { // until the answer's turn waits for the attachment
		session.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	close(p.leave)
	for range 2 { // the answer, and the notification
		read(agent)
	}
	<-refreshed
}
