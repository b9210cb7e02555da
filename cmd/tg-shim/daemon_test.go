package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/serve"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// EC-STDIO-036: without a daemon tg-shim waits for one, then refuses, reports how to start one,
// and has not started the server.
func TestNoDaemon(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	ran := h.Path("work/ran")
	begun := time.Now()
	p := startPair(t, h, rig.Options{Command: []string{"touch", ran}})
	p.agent(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}`)
	p.agent(calls("echo", "1")...)
	p.agentReadsErrors(-31010, `"init"`, "1")
	if waited := time.Since(begun); waited < serve.DefaultTimes.Reattach {
		t.Errorf("the shim gave up after %v, want %v", waited, serve.DefaultTimes.Reattach)
	}
	p.HangUp()
	p.ends(0, rig.Timeout)
	if _, err := os.Stat(ran); err == nil {
		t.Error("the server was started without a daemon")
	}
	if text := p.Stderr(); !strings.Contains(text, "tgctl daemon start") || !strings.Contains(text, `"x"`) {
		t.Errorf("stderr does not say what to do:\n%s", text)
	}
}

// EC-STDIO-036: tg-shim attaches to a daemon that starts while it waits, and what the agent
// wrote meanwhile is forwarded.
func TestDaemonComesLate(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.agent(calls("echo", "1")...)
	p.agent(calls("denied", "2")...)
	h.StartDaemon()
	p.join()
	p.serverReads(calls("echo", "1")...)
	if line := p.next(); !strings.Contains(line, `"id":2,"result":{`) || !strings.Contains(line, `"isError":true`) {
		t.Errorf("the denied call: %s", line)
	}
}

// EC-STDIO-041: an idle tg-shim is told to exit, and does.
func TestDrainWhenIdle(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session, err := c.OpenSession(t.Context(), &pb.SessionSpec{Id: "00112233445566778899aabbccddeeff", Agent: "custom", Project: h.Path("work")})
	if err != nil {
		t.Fatal(err)
	}
	p := startPair(t, h, rig.Options{Env: []string{"THOUGHTGATE_SESSION=00112233445566778899aabbccddeeff"}})
	p.agent(calls("echo", "1")...)
	p.serverReads(calls("echo", "1")...)
	p.server(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	out, err := session.Close(t.Context())
	if err != nil || out.GetDrained() != 1 {
		t.Fatalf("close: %v, %v; want one shim drained", out, err)
	}
	p.ends(0, rig.Timeout)
}

// EC-STDIO-042: another daemon takes over in time. Nothing is lost, nothing is judged twice,
// and a held call stays held.
func TestDaemonIsReplaced(t *testing.T) {
	t.Parallel()
	h := newFixture(t, strings.Replace(forwardAll, "reattach: 1s", "reattach: 30s", 1))
	h.StartDaemon()
	p := startPair(t, h, rig.Options{})
	p.agent(calls("held", `"h"`)...)
	p.agent(calls("echo", "1")...)
	p.serverReads(calls("echo", "1")...)
	h.KillDaemon()
	p.agent(calls("echo", "2")...)
	p.agent(calls("denied", "3")...)
	h.StartDaemon()
	p.serverReads(calls("echo", "2")...)
	if line := p.next(); !strings.Contains(line, `"id":3,"result":{`) || !strings.Contains(line, `"isError":true`) {
		t.Errorf("the denied call: %s", line)
	}
	p.server(`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	// The call is still held: its cancellation is not forwarded.
	p.agent(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"h"}}`)
	p.agent(calls("echo", "4")...)
	p.serverReads(calls("echo", "4")...)
}
