package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// shareAll is forwardAll with one shared process for each server.
const shareAll = forwardAll + `
sources:
  - {id: "*", shared: true}
`

const (
	hello   = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	welcome = `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}`
)

// greet makes the handshake. Ids at the server are those of the pool.
func (p *pair) greet() {
	p.t.Helper()
	p.agent(hello)
	p.join()
	p.answer(p.serverNext("initialize"), welcome)
	p.agentReads(`{"jsonrpc":"2.0","id":"init","result":` + welcome + `}`)
	p.agent(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.serverReads(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// serverNext returns the next request that the server reads, which must be for method.
func (p *pair) serverNext(method string) string {
	p.t.Helper()
	got := next(p.t, p.Server.Inbox, &p.seenServer)
	if !strings.Contains(got, fmt.Sprintf(`"method":%q`, method)) {
		p.t.Fatalf("the server reads %.300s, want %s\n%s", got, method, p.Stderr())
	}
	return got
}

// answer has the server answer a request.
func (p *pair) answer(request, result string) {
	p.t.Helper()
	_, rest, _ := strings.Cut(request, `"id":`)
	id, _, _ := strings.Cut(rest, `,`)
	p.server(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func TestShared(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	p.answer(p.serverNext("tools/call"), `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	p.agent(calls("denied", "2")...)
	if line := p.next(); !strings.Contains(line, `"isError":true`) {
		t.Errorf("the denied call: %s", line)
	}
	p.HangUp()
	p.ends(0, rig.Timeout)
	if p.Server.Gone(0) {
		t.Error("the server ended with one of its clients")
	}
}

// Requests that an agent sent before it closed its end are answered.
func TestSharedHangUp(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	request := p.serverNext("tools/call")
	p.HangUp()
	p.answer(request, `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	p.ends(0, rig.Timeout)
}

// An agent that reads none of its results is dropped, and its tg-shim ends. The others are not
// affected.
func TestSharedSlowReader(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	read := make(chan struct{})
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Server.PID))
	if err != nil {
		t.Skip("needs /proc")
	}
	slow := h.Shim(t, rig.Options{ // for the same server
		Command: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"),
		Each:    func([]byte) { <-read },
	})
	t.Cleanup(func() { close(read) })
	says := func(line string) {
		t.Helper()
		if err := slow.Send([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	says(hello)
	says(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	large := `{"resourceTemplates":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`
	asked := make([]string, 32) // MiB, more than is kept
	for i := range asked {
		says(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/templates/list"}`, i))
		asked[i] = p.serverNext("resources/templates/list")
	}
	for i, request := range asked {
		p.answer(request, large)
		p.agent(calls("echo", fmt.Sprint(100+i))...)
		call := next(t, p.Server.Inbox, &p.seenServer)
		for strings.Contains(call, "notifications/cancelled") { // of requests that were dropped
			call = next(t, p.Server.Inbox, &p.seenServer)
		}
		p.answer(call, `{"content":[]}`)
		p.agentReads(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, 100+i))
	}
	if code, ok := slow.Wait(rig.Timeout); !ok || code == 0 {
		t.Errorf("the shim of the slow one: exit status %d, ended %v\n%s", code, ok, slow.Stderr())
	}
}

// If a shared server can't be started, each answer says so, as with a server of the session.
func TestSharedNotStarted(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shareAll)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{Command: []string{"no-such-server"}})
	p.agent(hello)
	p.agentReadsErrors(-31011, `"init"`)
	p.HangUp() // requests are answered until the agent closes its end
	p.ends(127, rig.Timeout)
	gone := h.Path("work/gone")
	if err := os.WriteFile(gone, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p = startPair(t, h, rig.Options{Command: []string{gone}})
	p.agent(hello)
	if line := p.next(); !strings.Contains(line, `"code":-3101`) || !strings.Contains(line, `"id":"init"`) {
		t.Errorf("a program that can't be run: %s", line)
	}
}

// When the server dies, its pending requests are answered with an error, and the next call goes
// to a new one.
func TestSharedServerDies(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	p.serverNext("tools/call")
	p.Server.Kill()
	p.agentReadsErrors(-31012, "1")
	p.agent(calls("echo", "2")...)
	p.again()
	p.answer(p.serverNext("tools/call"), `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
}

// again waits for the next server and makes its handshake.
func (p *pair) again() {
	p.t.Helper()
	p.Server, p.seenServer = nil, 0
	p.join()
	p.answer(p.serverNext("initialize"), welcome)
	p.serverReads(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// When the daemon is killed, so is the server. The agent gets an error for pending requests and
// continues with the next server.
func TestSharedDaemonDies(t *testing.T) {
	t.Parallel()
	h := newFixture(t, strings.Replace(shareAll, "reattach: 1s", "reattach: 30s", 1))
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"a://b"}}`)
	p.answer(p.serverNext("resources/subscribe"), `{}`)
	p.agentReads(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	p.agent(calls("held", `"h"`)...)
	p.agent(calls("echo", "1")...)
	p.serverNext("tools/call")
	old := p.Server
	h.KillDaemon()
	if !old.Gone(rig.Timeout) {
		t.Fatal("the server outlives the daemon")
	}
	p.agent(calls("denied", "3")...)
	h.StartDaemon()
	p.agentReadsErrors(-31012, "1")
	if line := p.next(); !strings.Contains(line, `"id":3,"result":{`) || !strings.Contains(line, `"isError":true`) {
		t.Errorf("the denied call: %s", line)
	}
	p.again()
	p.answer(p.serverNext("resources/subscribe"), `{}`)
	p.server(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}`)
	p.agentReads(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}`)
	p.agent(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"h"}}`)
	p.agent(calls("echo", "4")...)
	p.answer(p.serverNext("tools/call"), `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":4,"result":{"content":[]}}`)
}

// A session that ends drains its attachments: pending requests are answered.
func TestSharedDrain(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shareAll)
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
	p := &pair{Shim: h.Shim(t, rig.Options{Env: []string{"THOUGHTGATE_SESSION=00112233445566778899aabbccddeeff"}}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	request := p.serverNext("tools/call")
	closed := make(chan error, 1)
	go func() {
		out, err := session.Close(t.Context())
		if err == nil && out.GetDrained() != 1 {
			err = fmt.Errorf("%d shims drained, want 1", out.GetDrained())
		}
		closed <- err
	}()
	p.answer(request, `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	p.ends(0, rig.Timeout)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
